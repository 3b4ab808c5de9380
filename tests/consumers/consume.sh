#!/usr/bin/env bash
# consume.sh <way> <project> <scratch folder> <cmake> <compiler> <parts>: uses dflash as another project would.
#
# ways: installed (and the source deleted), relocated (the installed folder moved), add_subdirectory, fetch_content,
# missing (a part whose dependency is not there is refused with a sentence), without_openmp (installed so, used so).
set -euo pipefail
way=$1 project=$2 scratch=$3 cmake=$4 compiler=$5 parts=$6
here=$project/tests/consumers
rm -rf "$scratch"
mkdir -p "$scratch"
cd "$scratch"

# What a user gets: no tests, no examples. The consumers are copied too, since they must not see the project around them.
mkdir source
cp -R "$project"/{CMakeLists.txt,cmake,include,backends} source/
cp -R "$here" consumers

# build <consumer> <cmake options>: configures, builds and runs it; core alone must not look for anything.
build() {
    local consumer=$1 options=(-DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER="$compiler" -DPARTS="$parts") package program
    shift
    if [[ "$parts" == core ]]; then
        for package in Eigen3 nlohmann_json OpenMP doctest benchmark; do
            options+=("-DCMAKE_DISABLE_FIND_PACKAGE_$package=ON")
        done
    fi
    "$cmake" -S "consumers/$consumer" -B build "${options[@]}" "$@"
    "$cmake" --build build
    for program in build/*_program; do
        "$program"
    done
}

install_and_delete() {
    local headers
    "$cmake" -S source -B source-build -DCMAKE_INSTALL_PREFIX="$scratch/prefix" -DCMAKE_CXX_COMPILER="$compiler" \
        -DDFLASH_BUILD_TESTS=OFF -DDFLASH_BUILD_EXAMPLES=OFF -DDFLASH_BUILD_BENCHMARKS=OFF "$@"
    "$cmake" --install source-build >/dev/null
    list() { find "$@" -name '*.hpp' -o -name '*.inl' -o -name '*.cuh' | grep -v /cuda/shim/ | sed 's|.*/dflash/|dflash/|' | sort; }
    headers=$(list source/include source/backends)
    diff <(echo "$headers") <(list prefix) || {
        echo "The headers above are not installed." >&2
        exit 1
    }
    if grep -rn "$scratch" prefix; then
        echo "The installed files name the folder they were installed to." >&2
        exit 1
    fi
    rm -rf source source-build
}

case "$way" in
    installed)
        install_and_delete
        build find_package -DCMAKE_PREFIX_PATH="$scratch/prefix"
        ;;
    without_openmp)
        install_and_delete -DDFLASH_OPENMP=OFF
        build find_package -DCMAKE_PREFIX_PATH="$scratch/prefix"
        if grep -rn --include=flags.make --include=build.ninja fopenmp build; then
            echo "A package installed without OpenMP hands it to those who use it." >&2
            exit 1
        fi
        ;;
    relocated)
        install_and_delete
        mkdir elsewhere
        mv prefix "elsewhere/a folder"
        build find_package -DCMAKE_PREFIX_PATH="$scratch/elsewhere/a folder"
        ;;
    add_subdirectory | fetch_content)
        build "$way" -DDFLASH_SOURCE="$scratch/source"
        ;;
    missing)
        install_and_delete
        output=$("$cmake" -S consumers/find_package -B build -DCMAKE_CXX_COMPILER="$compiler" -DPARTS="$parts" \
            -DCMAKE_PREFIX_PATH="$scratch/prefix" -DCMAKE_DISABLE_FIND_PACKAGE_Eigen3=ON 2>&1) && {
            echo "A missing dependency was not noticed." >&2
            exit 1
        }
        output=$(tr -s '\n ' ' ' <<<"$output")
        [[ "$output" == *"needs Eigen3, which was not found. On Debian: apt-get install libeigen3-dev"* ]] || {
            echo "The sentence about the missing package is not in: $output" >&2
            exit 1
        }
        ;;
    *)
        echo "consume.sh: no way '$way'" >&2
        exit 2
        ;;
esac
