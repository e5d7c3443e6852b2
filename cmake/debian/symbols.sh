#!/bin/sh
# symbols.sh LIBRARY FILE: writes dpkg's symbols file of libspeedyloader0 from what the library exports.
#
# A symbol's version node, SPEEDYLOADER_X.Y, names the release that it came with, and so the oldest package that
# a program which uses it can do with. Run by the build after the library is linked; fails if nothing is exported.
set -e
{
    echo 'libspeedyloader.so.0 libspeedyloader0 #MINVER#'
    nm -D --defined-only "$1" | awk '
        $2 == "A" { split($3, part, "@"); print " " part[1] "@" part[1], substr(part[1], index(part[1], "_") + 1) }
        $2 != "A" { split($3, part, "@+"); print " " part[1] "@" part[2], substr(part[2], index(part[2], "_") + 1) }' |
        LC_ALL=C sort
} >"$2"
grep -q '^ sl_' "$2"
