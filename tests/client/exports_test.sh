#!/bin/sh
# What libspeedyloader.so shows to the world: LIBRARY HEADERS, a folder. Fails with a line for each promise that is broken.
library=$1
headers=$2
failed=0

complain() {
    echo "$1"
    failed=1
}

exported=$(nm -D --defined-only "$library" | awk '$2 != "A" { print $3 }' | sort)
declared=$(grep -oh '\bsl_[a-z_]*(' "$headers"/*.h | tr -d '(' | sort -u)

for symbol in $exported; do
    case $symbol in
    sl_*@@SPEEDYLOADER_0.1) ;;
    *) complain "exports $symbol: every symbol is sl_* with version SPEEDYLOADER_0.1" ;;
    esac
done

for name in $declared; do
    echo "$exported" | grep -q "^$name@@" || complain "a header declares $name, the library does not have it"
done
for symbol in $exported; do
    echo "$declared" | grep -qx "${symbol%%@*}" || complain "exports $symbol, which no header declares"
done

# The sanitizers' own libraries are allowed, so that this runs in every preset.
for needed in $(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
    case $needed in
    libc.so.* | libpthread.so.* | ld-linux*.so.* | libasan.so.* | libubsan.so.* | libtsan.so.*) ;;
    *) complain "needs $needed: the library stands on libc alone" ;;
    esac
done

readelf -d "$library" | grep -q 'SONAME.*\[libspeedyloader.so.0\]' || complain "its SONAME is not libspeedyloader.so.0"
[ -n "$exported" ] || complain "exports nothing"
exit $failed
