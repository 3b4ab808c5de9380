#!/usr/bin/env bash
# Builds the digest program with different compilers, flags and machines: all must print what expected.txt holds.
# Everything goes to build/digests. Used by `./run check digests`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
out=build/digests
mkdir -p "$out/include"
# Header-only libraries under a folder of their own: a cross compiler must not see the rest of /usr/include.
for library in nlohmann xsimd; do
    ln -sfn "/usr/include/$library" "$out/include/$library"
done

# name | runner | compiler and flags
builds='
plain       |                                            | g++ -std=c++20 -O2
unoptimised |                                            | g++ -std=c++20 -O0
contracted  |                                            | g++ -std=c++20 -O3 -mavx2 -mfma -ffp-contract=fast
threads     | env OMP_NUM_THREADS=3                      | g++ -std=c++20 -O2 -fopenmp
native      |                                            | g++ -std=c++2b -O3 -march=native -fopenmp
clang       |                                            | clang++ -std=c++20 -O2 -ffp-contract=fast
clang_wide  |                                            | clang++ -std=c++2b -O3 -mavx2 -mfma -ffp-contract=fast
clang_libcxx|                                            | clang++ -std=c++20 -O1 -stdlib=libc++
aarch64     | qemu-aarch64-static -L /usr/aarch64-linux-gnu | aarch64-linux-gnu-g++ -std=c++20 -O2 -ffp-contract=fast
'

one() {
    local name runner flags
    IFS='|' read -r name runner flags <<<"$1"
    name=${name// /}
    # shellcheck disable=SC2086
    $flags -Wall -Wextra -Werror -Iinclude -Ibackends/cpu/include -isystem "$out/include" \
        tests/digests/digest.cpp -o "$out/$name" >"$out/$name.log" 2>&1 || {
        echo "FAILED to build $name:$flags" && cat "$out/$name.log"
        return 1
    }
    # shellcheck disable=SC2046,SC2086
    $runner "$out/$name" $(cut -d: -f1 tests/digests/expected.txt) >"$out/$name.txt" 2>&1 || true
    if ! diff tests/digests/expected.txt "$out/$name.txt" >"$out/$name.diff"; then
        echo "DIFFERENT: $name:$flags" && cat "$out/$name.diff"
        return 1
    fi
    echo "the same: $name"
}
export -f one
export out

grep -vE "^ *$" <<<"$builds" |
    xargs -d '\n' -P "$(nproc)" -n 1 bash -c 'one "$0"'
