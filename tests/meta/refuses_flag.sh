#!/usr/bin/env bash
# refuses_flag.sh <flags> <sentence> <project> <compilers...>: flags that change arithmetic never give wrong results.
# The headers refuse them with the sentence. A compiler that does not tell us of them (clang has no macro for most)
# builds flagged.cpp, which must refuse to work or give the right results. With "none" for flags it must give those.
set -u
flags=$1 sentence=$2 project=$3
shift 3
[[ "$flags" != none ]] || flags=
program=$(mktemp)
trap 'rm -f "$program"' EXIT
failed=0

fail() {
    echo "FAILED: $*" >&2
    failed=1
}

compile() { # <compiler> <more flags...>, source from standard input
    # shellcheck disable=SC2086
    "$1" -std=c++20 -O2 $flags "${@:2}" -x c++ - 2>&1
}

# Whether the compiler has a macro for the flags, so that the headers can refuse them.
tells() { ! [[ "$("$1" --version)" == *clang* && "$flags" =~ associative|reciprocal|signed-zeros|unsafe|honor ]]; }

run() { # what a program built with the flags does
    local said
    if ! said=$(compile "$1" -I"$project/include" -I"$project/backends/cpu/include" -o "$program" \
        <"$project/tests/meta/flagged.cpp"); then
        fail "$1 $flags could not build flagged.cpp: $said"
    elif ! said=$("$program") || [[ -z "$flags" && "$said" != right* ]]; then
        fail "$1 $flags: the program said: $said"
    else
        echo "$1 $flags: $said"
    fi
}

for compiler in "$@"; do
    if [[ -n "$flags" ]] && ! output=$(compile "$compiler" -fsyntax-only </dev/null); then
        echo "passed over: $compiler does not know $flags"
    elif output=$(compile "$compiler" -I"$project/include" -fsyntax-only <<<'#include <dflash/config.hpp>'); then
        [[ -z "$flags" ]] || ! tells "$compiler" || fail "$compiler $flags should be refused with \"$sentence\""
        run "$compiler"
    elif [[ "$output" != *"$sentence"* ]]; then
        fail "$compiler $flags should be refused with \"$sentence\"; it said: $output"
    fi
done
exit "$failed"
