#!/usr/bin/env bash
# Fetches llama.cpp and builds its library for this machine, into build/llama. The sources come with an npm package, as a
# git bundle; nothing else of that package is used. Does nothing when the library is there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
release=3.21.1
root=build/llama
[[ ! -e "$root/build/bin/libllama.so" ]] || exit 0
command -v npm >/dev/null || {
    echo "npm is not here" >&2
    exit 1
}
mkdir -p "$root"
[[ -f "$root/package.json" ]] || echo '{"private": true}' >"$root/package.json"
(cd "$root" && npm install --ignore-scripts --omit=optional --no-audit --no-fund "node-llama-cpp@$release")
[[ -d "$root/src" ]] || git clone -q "$root/node_modules/node-llama-cpp/llama/gitRelease.bundle" "$root/src"
generator=()
command -v ninja >/dev/null && generator=(-G Ninja)
cmake -S "$root/src" -B "$root/build" "${generator[@]}" -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON \
    -DBUILD_SHARED_LIBS=ON -DCMAKE_BUILD_RPATH_USE_ORIGIN=ON -DLLAMA_BUILD_COMMON=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_TOOLS=OFF \
    -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_APP=OFF
cmake --build "$root/build" --target llama -j "$(nproc 2>/dev/null || echo 2)"
