#!/usr/bin/env bash
# refuses_flag.sh <flag> <sentence> <include folder> <compilers...>: every header that any user includes refuses the flag.
# A compiler that does not tell us of the flag (no macro) cannot be refused and is passed over, but not all of them may be.
set -u
flag=$1 sentence=$2 include=$3
shift 3
failed=0 told=0
for compiler in "$@"; do
    # shellcheck disable=SC2086
    output=$(printf '#include <dflash/config.hpp>\n' | "$compiler" -std=c++20 -O2 $flag -I"$include" -fsyntax-only -x c++ - 2>&1)
    status=$?
    if ((status == 0)) && [[ "$("$compiler" --version)" == *clang* && "$flag" =~ associative|reciprocal ]]; then
        echo "passed over: $compiler defines no macro for $flag"
        continue
    fi
    told=1
    if ((status == 0)) || [[ "$output" != *"$sentence"* ]]; then
        echo "FAILED: $compiler $flag should be refused with \"$sentence\"; it said: $output" >&2
        failed=1
    fi
done
((told)) || echo "SKIPPED: no compiler here has a macro for $flag"
exit "$failed"
