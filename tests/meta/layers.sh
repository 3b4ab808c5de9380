#!/usr/bin/env bash
# layers.sh <source folder>: who may include whom. Run from anywhere; prints every include that goes the wrong way.
#
# A folder of include/dflash (root: the files directly in it) | the folders it may include besides itself.
table='
root      |
concepts  | root numerics
numerics  | root
sampling  | root concepts numerics cache decode
cache     | root concepts numerics sampling decode
decode    | root concepts numerics sampling cache
model     | root concepts numerics sampling cache decode drafters
drafters  | root concepts numerics sampling cache decode model
testing   | root concepts numerics sampling cache decode model drafters
umbrella  | root concepts numerics sampling cache decode model drafters testing
io        | root concepts numerics model
interop   | root
front     | root concepts numerics sampling cache decode model drafters testing io
cpu       | root concepts numerics cache
default   | root cpu
cuda      | root concepts numerics sampling
'
# Headers of the standard library that no header of the core may bring along, because they are dear or have state.
unwanted='iostream|ostream|istream|sstream|ranges|regex|random|functional|format'

set -u
cd "$1" || exit 1
files=$(find include/dflash backends/*/include backends/default/* -name '*.hpp' -o -name '*.inl' -o -name '*.cuh' | sort)
[[ -n "$files" ]] || {
    echo "layers: no headers found" >&2
    exit 1
}
# shellcheck disable=SC2086
awk -v table="$table" -v unwanted="^(${unwanted})\$" '
BEGIN {
    rows = split(table, row, "\n")
    for (i = 1; i <= rows; ++i)
        if (split(row[i], half, "|") == 2) {
            from = half[1]; gsub(/ /, "", from); known[from] = 1; may[from, from] = 1
            count = split(half[2], allowed, " ")
            for (j = 1; j <= count; ++j) may[from, allowed[j]] = 1
        }
}
function layer(name) {   # name: dflash/<folder>/<file> or dflash/<file>
    if (name == "dflash/dflash.hpp") return "umbrella"
    if (name == "dflash/default_backend.hpp") return "default"
    if (split(name, part, "/") == 2) return "root"
    return part[2]
}
function wrong(why) { print FILENAME ":" FNR ": " $0 "   (" why ")"; failed = 1 }
FNR == 1 {
    own = FILENAME; sub(/.*\/dflash\//, "dflash/", own); from = layer(own); ++seen
    if (!(from in known)) { print FILENAME ": folder \"" from "\" is not in the table of layers"; failed = 1 }
}
/^[ \t]*#[ \t]*include[ \t]*"/ { wrong("use <dflash/...>, so that the include does not depend on where the file lies") }
/^[ \t]*#[ \t]*include[ \t]*</ {
    name = $0; sub(/[^<]*</, "", name); sub(/>.*/, "", name)
    core = from != "io" && from != "front" && from != "interop" && from != "cpu" && from != "cuda" && from != "default"
    if (name ~ /^dflash\//) {
        to = layer(name)
        if (!((from, to) in may)) wrong(from " may not include " to)
    } else if (name ~ unwanted && from != "io") {
        wrong("not in a public header")
    } else if (core && (name ~ /\// || name ~ /\.h(pp)?$/)) {
        wrong("the core needs nothing but the C++ standard library")
    }
}
END { print seen " headers looked at"; exit failed }
' $files
