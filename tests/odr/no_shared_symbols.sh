#!/usr/bin/env bash
# no_shared_symbols.sh <nm> <object> <object>: the two objects must define no symbol of dflash by the same name.
set -eu
symbols() { "$1" --defined-only --format=posix "$2" | awk '$2 ~ /[TWVBDRu]/ && $1 ~ /dflash/ { print $1 }' | sort -u; }
first=$(symbols "$1" "$2")
second=$(symbols "$1" "$3")
if [[ -z "$first" || -z "$second" ]]; then
    echo "No symbols of dflash found: the test would prove nothing." >&2
    exit 1
fi
shared=$(comm -12 <(echo "$first") <(echo "$second"))
if [[ -n "$shared" ]]; then
    echo "Both objects define:" >&2
    echo "$shared" | c++filt >&2
    exit 1
fi
echo "$(wc -l <<<"$first") and $(wc -l <<<"$second") symbols, none shared"
