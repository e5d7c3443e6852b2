#!/bin/sh
# The check of the ABI must see what breaks programs, and only that: COMPILER SOURCE_DIR. Builds the library anew with one
# thing changed at a time and looks what abi_check.sh says.
compiler=$1
source=$2
failed=0
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
header=capi/include/speedyloader/speedyloader.h

# build OUTPUT: the library from the copy in $work/tree.
build() {
    (cd "$work/tree" && "$compiler" -shared -fPIC -g -O0 -std=gnu11 -D_GNU_SOURCE -DSL_VERSION_TEXT='"0"' -w \
        -fvisibility=hidden -I. -Icapi/include capi/src/*.c -o "$1" -pthread \
        -Wl,--version-script=capi/libspeedyloader.map -Wl,-soname,libspeedyloader.so.0)
}

# expect pass|fail WHAT FILE SED_SCRIPT: after this edit of FILE the check must say so.
expect() {
    rm -rf "$work/tree"
    mkdir "$work/tree"
    cp -r "$source/capi" "$source/shm" "$work/tree/"
    sed -i "$4" "$work/tree/$3"
    if cmp -s "$source/$3" "$work/tree/$3"; then
        echo "the edit for \"$2\" changes nothing any more"
        failed=1
        return
    fi
    build "$work/new.so" || { echo "\"$2\" does not build"; failed=1; return; }
    mkdir -p "$work/tests/abi"
    cp "$source/tests/abi/"*.sh "$source/tests/abi/growth.suppr" "$work/tests/abi/"
    rm -rf "$work/capi"
    cp -r "$work/tree/capi" "$work/capi" # the record looks at the headers beside it
    sh "$work/tests/abi/abi_check.sh" "$work/new.so" "$work/old.abi" >"$work/said" 2>&1
    status=$?
    if [ "$status" -eq 0 ] && [ "$1" = fail ] || [ "$status" -ne 0 ] && [ "$1" = pass ]; then
        echo "\"$2\" should $1, but abi_check.sh ended with $status:"
        cat "$work/said"
        failed=1
    fi
}

command -v abidiff >/dev/null || { echo "skipped: abidiff is not installed (package abigail-tools)"; exit 77; }
mkdir "$work/tree"
cp -r "$source/capi" "$source/shm" "$work/tree/"
build "$work/old.so" || exit 1
sh "$source/tests/abi/record_abi.sh" "$work/old.so" >"$work/old.abi" || exit 1

expect pass "a comment" $header '1s/^/\/* new *\/\n/'
expect fail "a symbol is gone" capi/libspeedyloader.map 's/local: \*;/local: sl_batch_sample; *;/; s/global: sl_\*;/global: sl_[ac-z]*; sl_batch_[a-rt-z]*; sl_batch_allow_writes;/'
expect fail "a member in the middle" $header 's/^    int64_t timeout_ms;  .. 0: 10,000 ..$/    int64_t wedge;\n&/'
expect fail "a member of another type" $header '/^typedef struct sl_batch_info/,/^}/s/uint64_t step;/uint32_t step;/'
expect fail "a constant's value" $header 's/^    SL_END_OF_EPOCH = 1,/    SL_END_OF_EPOCH = 9,/'
expect pass "a member at the end" $header 's/^} sl_stream_info;/    uint64_t added;\n&/'
exit $failed
