#!/bin/sh
# Compares a library's ABI with a recorded one: LIBRARY [RECORD]. Exit 0: programs built for the record run with the
# library; 1: they do not, and why is printed; 77: this machine has no abidiff, or the library no debug information.
#
# The record is tests/abi/libspeedyloader.abi, which is written anew at each release: record_abi.sh. Symbols that were
# added, and structs that grew where they may (growth.suppr), are no differences.
here=$(dirname "$0")
library=$1
record=${2:-$here/libspeedyloader.abi}
if ! command -v abidiff >/dev/null; then
    echo "skipped: abidiff is not installed (package abigail-tools)"
    exit 77
fi
now=$(mktemp) || exit 1
trap 'rm -f "$now"' EXIT
sh "$here/record_abi.sh" "$library" >"$now" || exit 1
if ! grep -q '<class-decl' "$now"; then
    echo "skipped: $library has no debug information"
    exit 77
fi
abidiff --no-added-syms --suppressions "$here/growth.suppr" "$record" "$now"
# Bit 0 and 1: abidiff failed; 2: something changed; 3: incompatibly.
[ $? -eq 0 ] || exit 1
