#!/usr/bin/env bash
# How many preprocessed lines an include costs. A compile-time budget that does not depend on the machine or its load.
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/.."
for header in dflash/vocabulary.hpp dflash/decode/serial.hpp dflash/decode/speculative.hpp dflash/dflash.hpp \
    dflash/io/load.hpp dflash/default_backend.hpp; do
    lines=$(printf '#include <%s>\n' "$header" |
        "${CXX:-c++}" -std=c++20 -E -P -Iinclude -Ibackends/cpu/include -Ibackends/default/cpu \
            -isystem /usr/include/eigen3 -x c++ - 2>/dev/null | wc -l)
    printf '%8d  <%s>\n' "$lines" "$header"
done
