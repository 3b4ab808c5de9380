#!/usr/bin/env bash
# compiles.sh <text> <flags...>: the text must compile without a warning in every dialect of the file $DIALECTS.
set -u
text=$1
shift
failed=0
while read -r -a command; do
    # shellcheck disable=SC2086
    if ! printf '%b' "$text" | "${command[@]}" $WARNINGS "$@" -fsyntax-only -x c++ -; then
        echo "FAILED: ${command[*]} $WARNINGS $*" >&2
        failed=1
    fi
done <"$DIALECTS"
exit "$failed"
