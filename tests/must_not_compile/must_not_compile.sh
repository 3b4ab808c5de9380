#!/usr/bin/env bash
# must_not_compile.sh <file> <flags...>: see CMakeLists.txt beside it. Tries every dialect of the file $DIALECTS.
set -u
file=$1
shift
mapfile -t expected < <(sed -n 's|^// expect: *||p' "$file")
if ((${#expected[@]} == 0)); then
    echo "FAILED: $file has no line '// expect: <text>'" >&2
    exit 1
fi
failed=0
complain() {
    echo "FAILED: ${command[*]}: $1" >&2
    [[ -z "${2:-}" ]] || echo "$2" >&2
    failed=1
}
while read -r -a command; do
    # Diagnostics may be wrapped or coloured for a terminal; these switches keep each on one line of plain text.
    command+=(-fmessage-length=0 -fdiagnostics-color=never -Wall -Wextra "$@" -fsyntax-only "$file")
    output=$("${command[@]}" -DDFLASH_CONTROL -Werror 2>&1) || complain "the control does not compile" "$output"
    if output=$("${command[@]}" 2>&1); then
        complain "it compiles, and should not"
    fi
    for text in "${expected[@]}"; do
        [[ "$output" == *"$text"* ]] || complain "the diagnostics do not say \"$text\"" "$output"
    done
done <"$DIALECTS"
exit "$failed"
