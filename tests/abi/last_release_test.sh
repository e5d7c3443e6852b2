#!/bin/sh
# Programs of the last release with today's library and daemon: SOURCE_DIR BUILD_DIR PHOTOS. The release is the last tag
# v* before this commit; it is built here, library and one client. Exit 77 where there is none.
source=$1
build=$2
photos=$3
cd "$source" || exit 1
if ! tag=$(git describe --tags --abbrev=0 --match 'v*' 2>/dev/null); then
    echo "skipped: no release yet (no tag v* before this commit, or a clone without history)"
    exit 77
fi
work=$(mktemp -d) || exit 1
trap 'git worktree remove --force "$work/source" 2>/dev/null; rm -rf "$work"' EXIT
git worktree add --quiet --detach "$work/source" "$tag" || exit 1
cmake -S "$work/source" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DSL_BUILD_TESTS=OFF >"$work/log" 2>&1 &&
    cmake --build "$work/build" --target speedyloader first_batch >>"$work/log" 2>&1 || {
    echo "$tag does not build:"
    tail -n 20 "$work/log"
    exit 1
}
client=$(find "$work/build" -type f -name first_batch)
failed=0

sh "$source/tests/abi/record_abi.sh" "$work/build/lib/libspeedyloader.so" >"$work/old.abi"
sh "$source/tests/abi/abi_check.sh" "$build/lib/libspeedyloader.so" "$work/old.abi" || failed=1

export SPEEDYLOADER_DAEMON="$build/bin/speedyloaderd"
export SPEEDYLOADER_PRIVATE_NAME="last-release-$$"
export XDG_CACHE_HOME="$work/cache"
"$client" "$photos" || { echo "the client and library of $tag fail with today's daemon"; failed=1; }
LD_LIBRARY_PATH=$build/lib "$client" "$photos" || { echo "the client of $tag fails with today's library"; failed=1; }
exit $failed
