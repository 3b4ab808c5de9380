#!/usr/bin/env bash
# Builds the digest program for compilers, optimisation levels, contraction modes, instruction sets and machines. Every
# build must print the digest of expected.txt, and the three contraction modes must give the same assembly: then no
# flag of a user can change a bit. Everything goes to build/digests. Used by `./run check digests`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
out=build/digests
mkdir -p "$out/include"
rm -f "$out"/*.s "$out"/*.log "$out"/*.txt
# Header-only libraries under a folder of their own: a cross compiler must not see the rest of /usr/include.
ln -sfn /usr/include/xsimd "$out/include/xsimd"

# name | runner | compiler and flags
builds() {
    local compiler level mode
    for compiler in g++ clang++; do
        for level in 0 2 3; do
            for mode in off on fast; do
                echo "$compiler-O$level-$mode|| $compiler -std=c++20 -O$level -ffp-contract=$mode"
            done
        done
        # What the build enables itself is reached through xsimd.
        echo "$compiler-native|| $compiler -std=c++20 -O3 -march=native -fopenmp -ffp-contract=fast"
        echo "$compiler-fma|| $compiler -std=c++20 -O2 -mavx2 -mfma -fopenmp -ffp-contract=fast"
    done
    local cross="aarch64-linux-gnu-g++ -std=c++20 -static"
    for mode in off on fast; do
        echo "aarch64-O2-$mode|qemu-aarch64-static|$cross -O2 -ffp-contract=$mode"
    done
    echo "aarch64-O0|qemu-aarch64-static|$cross -O0 -fopenmp"
}

one() {
    local name runner flags compiler
    IFS='|' read -r name runner flags <<<"$1"
    read -r compiler _ <<<"$flags"
    if ! command -v "$compiler" >/dev/null || { [[ -n "$runner" ]] && ! command -v "$runner" >/dev/null; }; then
        echo "skipped, $compiler or what runs its programs is missing: $name"
        return 0
    fi
    # shellcheck disable=SC2086
    if ! { $flags -Wall -Wextra -Werror -Iinclude -Ibackends/cpu/include -Itests -isystem "$out/include" \
        -S tests/digests/whole_run.cpp -o "$out/$name.s" && $flags "$out/$name.s" -o "$out/$name"; } \
        >"$out/$name.log" 2>&1; then
        echo "FAILED to build $name:$flags" && cat "$out/$name.log"
        return 1
    fi
    # shellcheck disable=SC2086
    if ! OMP_WAIT_POLICY=passive $runner "$out/$name" tests/digests/expected.txt >"$out/$name.txt" 2>&1; then
        echo "DIFFERENT: $name:$flags" && cat "$out/$name.txt"
        return 1
    fi
    echo "the same: $name ($(grep -c threads "$out/$name.txt") runs)"
}
export -f one
export out

builds | xargs -d '\n' -P "$(nproc)" -n 1 bash -c 'one "$0"'

# A draw bounds the noise by an exact product in a sum: contraction may join the two, which changes no bit.
comparable() { sed '/^_ZN.*12philox_noise4draw.*:/,/^\t\.size\t_ZN.*12philox_noise4draw/d' "$1"; }

shopt -s nullglob
compared=("$out"/*-off.s)
if ((${#compared[@]} == 0)); then
    echo "FAILED: no compiler was found"
    exit 1
fi
for off in "${compared[@]}"; do
    for mode in on fast; do
        other=${off%-off.s}-$mode.s
        if ! cmp -s <(comparable "$off") <(comparable "$other"); then
            echo "DIFFERENT assembly: $off $other"
            exit 1
        fi
    done
    echo "the same assembly with contraction off, on and fast: $(basename "${off%-off.s}")"
done
