#!/usr/bin/env bash
# ./test.sh: installs what tests need, builds, runs every test and ends with "N passed, N failed, N skipped".
#
# Steps: ctest in the dev preset; the same C and C++ tests under AddressSanitizer and
# UndefinedBehaviorSanitizer; those labelled `tsan` under ThreadSanitizer; the fuzz targets; the Debian
# packages, which are only built; pytest with the distribution's Python; the Python package's tests
# (tests/python) and its wheel in an environment with the frameworks, which is kept in the user's cache; those
# of them marked `sanitized` under AddressSanitizer. Tests labelled `serial` (they count processes, or measure
# time) run alone, the others two at a time, and so do the files of the first pytest run, whose tests mostly
# wait. A step that fails counts as one failed test and the next step still runs. Exit 0 only if something
# ran and nothing failed. Needs no prompt; may be run again at any time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. cmake/shell-helpers.sh
. cmake/python-env.sh

# The wheel is built in another folder than `dev`; what the compiler makes of a file is the same.
export CCACHE_NOHASHDIR=true

results=$PWD/build/test-results
broken=0     # steps that failed without a test's name
fixed_map=() # sanitizers of GCC 12 cannot place their shadow under the widest address randomisation
preloaded=() # variables for pytest alone, not for what starts it
package=(-DSL_BUILD_PYTHON=OFF) # turned on where there is an environment to build for

test_packages=(libcmocka-dev python3-pytest python3-pytest-xdist python3-pil python3-numpy python3-fusepy
    "libfuse2|libfuse2t64" libjpeg-turbo-progs strace systemd lintian dpkg-dev abigail-tools clang-16 libclang-rt-16-dev mate-backgrounds
    ukui-wallpapers plasma-workspace-wallpapers)

# attempt TITLE COMMAND...: runs a step that is no test; its failure is counted, not fatal.
attempt() {
    if ! run_quietly "build/test.log" "$@"; then
        broken=$((broken + 1))
        return 1
    fi
}

# build PRESET [TARGET...]
build() {
    local preset=$1 targets=()
    shift
    if [ $# -gt 0 ]; then targets=(--target "$@"); fi
    attempt "configuring $preset" cmake --preset "$preset" "${package[@]}" &&
        attempt "building $preset" cmake --build --preset "$preset" --parallel "$(nproc)" "${targets[@]}"
}

# run_ctest NAME PRESET JOBS OPTION...: one ctest run. Tests that fail are counted from its report, so only a
# missing report is a broken step.
run_ctest() {
    local report=$results/ctest-$1.xml preset=$2 jobs=$3
    shift 3
    say "ctest $preset $*"
    "${fixed_map[@]}" ctest --preset "$preset" --parallel "$jobs" --output-on-failure \
        --output-junit "$report" --test-output-size-passed 4000000 --test-output-size-failed 4000000 "$@" </dev/null || true
    if [ ! -s "$report" ]; then
        complain "ctest left no report in $report"
        broken=$((broken + 1))
    fi
}

# Names of the tests with a label, which are also the names of their targets.
labelled() {
    ctest --preset "$1" -L "$2" --show-only=json-v1 |
        /usr/bin/python3 -c 'import json, sys; print(*(t["name"] for t in json.load(sys.stdin)["tests"]))'
}

# run_preset PRESET: both halves of its tests, those that share the machine and those that want it alone.
run_preset() {
    if ! build "$1"; then return; fi
    run_ctest "$1" "$1" 2 -LE '^serial$'
    run_ctest "$1-serial" "$1" 1 -L '^serial$'
}

run_tsan() {
    local names
    if ! attempt "configuring tsan" cmake --preset tsan "${package[@]}"; then return; fi
    read -ra names <<<"$(labelled tsan '^tsan$')"
    if [ "${#names[@]}" -eq 0 ]; then
        complain "no test is labelled tsan"
        broken=$((broken + 1))
        return
    fi
    if build tsan "${names[@]}"; then run_ctest tsan tsan 1 -L '^tsan$'; fi
}

# Each fuzz target for 20 s over its corpus.
run_fuzz() {
    if build fuzz fuzz_targets; then run_ctest fuzz fuzz 2; fi
}

# run_pytest NAME PRESET PYTHON ARGUMENT...: one pytest run against a preset's build tree.
run_pytest() {
    local report=$results/pytest-$1.xml preset=$2 python=$3 status=0
    shift 3
    say "pytest $*"
    SL_BUILD_DIR=$PWD/build/$preset PYTHONPATH=$PWD/build/$preset/python "${fixed_map[@]}" \
        timeout --kill-after=20 20m env "${preloaded[@]}" "$python" -m pytest "$@" -q -ra \
        -p no:cacheprovider --junitxml="$report" </dev/null || status=$?
    # 0 all passed, 1 some failed (the report counts them), 5 none found; all else is pytest's own failure.
    case $status in 0 | 1 | 5) ;; *) broken=$((broken + 1)) ;; esac
}

# Compiler and flags are those of `dev`, so that ccache has most of it already; a wheel for users is a Release
# build with the compiler that Python was built with.
build_wheel() {
    rm -f build/wheel/*.whl
    attempt "building the wheel" env CC="${CC:-cc}" CXX="${CXX:-c++}" \
        "$python_env/bin/python" -m pip wheel . --no-deps --no-build-isolation \
        --wheel-dir build/wheel --config-settings build-dir=build/wheel/tree \
        --config-settings cmake.build-type=RelWithDebInfo --config-settings install.strip=true \
        --config-settings "cmake.define.CMAKE_C_FLAGS_RELWITHDEBINFO=-O2 -g" \
        --config-settings "cmake.define.CMAKE_CXX_FLAGS_RELWITHDEBINFO=-O2 -g"
}

# For tests/packages; without the environment there is no Python package, and what needs it is counted as failed.
build_debs() {
    local python=()
    if [ -n "$python_env" ]; then python=("$python_env/bin/python"); fi
    attempt "building the Debian packages" tests/packages/build.sh "${python[@]}"
}

# A file with sanitized tests imports no framework; the sanitizer's library has to come before the C library.
run_sanitized_python() {
    local files
    mapfile -t files < <(grep -l 'pytest.mark.sanitized' tests/python/test_*.py)
    if [ "${#files[@]}" -eq 0 ]; then return; fi
    local preloaded=("LD_PRELOAD=$(g++ -print-file-name=libasan.so) $(g++ -print-file-name=libstdc++.so.6)"
        ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1)
    run_pytest python-asan asan "$python_env/bin/python" "${files[@]}" -m sanitized
}

main() {
    rm -rf "$results"
    mkdir -p "$results"
    : >build/test.log
    clean_python_settings
    if install_packages "${build_packages[@]}" "${test_packages[@]}"; then
        if make_python_env tests/python/requirements.txt; then
            package=(-DSL_BUILD_PYTHON=ON "-DPython_EXECUTABLE=$python_env/bin/python")
        else
            broken=$((broken + 1))
            python_env=
        fi
        run_preset dev
        if setarch "$(uname -m)" -R true 2>/dev/null; then fixed_map=(setarch "$(uname -m)" -R); fi
        UBSAN_OPTIONS=print_stacktrace=1 run_preset asan
        if [ -n "$python_env" ]; then run_sanitized_python; fi
        package=(-DSL_BUILD_PYTHON=OFF)
        run_tsan
        run_fuzz
        fixed_map=()
        build_debs || true
        run_pytest system dev /usr/bin/python3 tests --ignore=tests/python -n 2 --dist loadfile
        if [ -n "$python_env" ]; then
            build_wheel || true
            run_pytest python dev "$python_env/bin/python" tests/python
        fi
    else
        broken=$((broken + 1))
    fi
    exec /usr/bin/python3 tests/count_results.py --broken "$broken" "$results"
}

main
