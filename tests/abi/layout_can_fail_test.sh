#!/bin/sh
# The list of shared bytes must notice each kind of change: COMPILER SOURCE_DIR. Compiles layout_c11.c against headers in
# which one thing is changed, which must fail.
compiler=$1
source=$2
failed=0
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

compiles() {
    "$compiler" -std=c11 -fsyntax-only -I"$work" "$work/tests/abi/layout_c11.c" >"$work/said" 2>&1
}

# expect_refusal HEADER SED_SCRIPT
expect_refusal() {
    mkdir -p "$work/shm" "$work/tests/abi"
    cp "$source"/shm/*.h "$work/shm/"
    cp "$source/tests/abi/layout_c11.c" "$source/tests/abi/layout_1.def" "$work/tests/abi/"
    compiles || { echo "unchanged headers are refused:"; cat "$work/said"; failed=1; }
    # The header's own assertions would refuse some of it first; here the list is tested.
    sed -i 's/^SL_SHM_ASSERT.*;$//' "$work/shm/layout.h" "$work/shm/messages.h" "$work/shm/trace.h"
    sed -i "$2" "$work/shm/$1"
    if compiles; then
        echo "a changed $1 ($2) is not noticed"
        failed=1
    fi
}

expect_refusal layout.h 's/uint32_t slot_count; .*/uint64_t slot_count;/'
expect_refusal layout.h 's/uint32_t client_sleeps;.*/uint32_t added; uint32_t client_sleeps;/'
expect_refusal layout.h 's/^} sl_shm_completion;/uint64_t added;\n&/'
expect_refusal messages.h 's/^    uint16_t major;/    uint32_t major;/'
expect_refusal messages.h 's/char program\[64\];.*/char program[32];/'
exit $failed
