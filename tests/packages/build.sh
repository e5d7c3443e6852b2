#!/usr/bin/env bash
# build.sh [PYTHON]: builds the Debian packages into build/package/packages; with PYTHON, one that has nanobind, also
# the Python package. Compiler flags are those of test.sh's wheel, so that ccache has most of it already; packages
# for users are the preset's as it stands.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export CCACHE_NOHASHDIR=true

python=(-DSL_BUILD_PYTHON=OFF)
if [ $# -gt 0 ]; then python=(-DSL_BUILD_PYTHON=ON "-DPython_EXECUTABLE=$1"); fi
rm -rf build/package/packages
cmake --preset package -DCMAKE_C_FLAGS= -DCMAKE_CXX_FLAGS= "-DCMAKE_C_FLAGS_RELWITHDEBINFO=-O2 -g" \
    "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O2 -g" "${python[@]}"
cmake --build --preset package --parallel "$(nproc)"
cmake --build --preset package --target package
