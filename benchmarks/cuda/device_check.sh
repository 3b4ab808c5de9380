#!/usr/bin/env bash
# Builds cuda-device-check with nvcc and g++ alone and runs it with the models that come with the project; then its
# small shapes under compute-sanitizer where that is installed. Status as cuda-device-check, or 1 for what the
# sanitizer finds.
#
#   benchmarks/cuda/device_check.sh [--arch sm_90] [--build-only] [--binary FILE] [-- arguments of the program]
#
#   --build-only   leaves the program in build/cuda-device-check/, for a machine without a compiler
#   --binary FILE  runs this one, named from the folder of the project, and builds nothing
#
# The report goes to $OUT, or to build/cuda-device-check.
set -euo pipefail
cd "$(dirname "$0")/../.."

arch=sm_90
binary=
build_only=
while [ $# -gt 0 ]; do
    case "$1" in
        --arch) arch=$2; shift 2 ;;
        --binary) binary=$2; shift 2 ;;
        --build-only) build_only=1; shift ;;
        --) shift; break ;;
        *) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    esac
done

folder=build/cuda-device-check
mkdir -p "$folder"
if [ -z "$binary" ]; then
    nvcc=${CUDACXX:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
    mapfile -t flags < <(grep '^-' backends/cuda/nvcc_flags.txt)
    # Without OpenMP on both sides: their host code is one program.
    "$nvcc" "${flags[@]}" -arch="$arch" -O3 -DNDEBUG -I include -I backends/cuda/include -I tests -I benchmarks/cuda \
        -c benchmarks/cuda/device_check.cu -o "$folder/device.o" &
    device=$!
    "${CXX:-g++}" -std=c++20 -O3 -DNDEBUG -I include -I backends/cpu/include -I benchmarks/cuda \
        -c benchmarks/cuda/device_check/host_decode.cpp -o "$folder/host.o"
    wait "$device"
    binary=$folder/cuda-device-check
    "$nvcc" -arch="$arch" "$folder/device.o" "$folder/host.o" -o "$binary" -Xcompiler=-static-libstdc++,-static-libgcc
fi
if [ -n "$build_only" ]; then
    echo "$binary"
    exit 0
fi

out=${OUT:-$folder}
models=examples/models
status=0
"$binary" --json "$out/report.json" \
    --target "$models/worked-problems/target" --draft "$models/worked-problems/draft" \
    --target "$models/prose-and-code/target" --draft "$models/prose-and-code/draft" "$@" | tee "$out/report.txt" ||
    status=$?
[ "$status" -le 1 ] || exit "$status"

sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
if [ ! -x "$sanitizer" ]; then
    echo "compute-sanitizer: not installed, so nothing ran under it"
    exit "$status"
fi
for tool in memcheck racecheck; do
    echo "compute-sanitizer, $tool, small shapes"
    code=0
    timeout 45 "$sanitizer" --tool "$tool" --error-exitcode 9 "$binary" --quick --only exactness \
        >"$out/$tool.txt" 2>&1 || code=$?
    tail -n 3 "$out/$tool.txt"
    case "$code" in
        0) ;;
        124) echo "  ended: it took too long" ;;
        *) status=1 ;;
    esac
done
exit "$status"
