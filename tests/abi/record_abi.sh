#!/bin/sh
# Prints the ABI of a library as abidw writes it, without what differs between machines: LIBRARY. At a release:
#     sh tests/abi/record_abi.sh build/dev/lib/libspeedyloader.so > tests/abi/libspeedyloader.abi
here=$(dirname "$0")
exec abidw --no-show-locs --no-corpus-path --no-comp-dir-path --no-elf-needed --drop-undefined-syms \
    --headers-dir "$here/../../capi/include/speedyloader" --drop-private-types --exported-interfaces-only "$1"
