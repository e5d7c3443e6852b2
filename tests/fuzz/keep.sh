#!/bin/sh
# Makes the corpus of one target anew, with as few inputs as reach all that is reached: TARGET CORPUS_FOLDER INPUTS...
# INPUTS are folders: what run.sh has found (NAME.corpus), findings that are fixed, samples of your own.
set -e
target=$1
corpus=$2
name=$(basename "$target")
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/old" "$work/new"
if [ -e "$corpus/$name.tar.gz" ]; then tar -xzf "$corpus/$name.tar.gz" -C "$work/old"; fi
"$target" -set_cover_merge=1 -max_len=4096 "$work/new" "$work/old" "$@" >"$work/log" 2>&1 || {
    tail -n 20 "$work/log"
    exit 1
}
tar -C "$work/new" --sort=name --owner=0 --group=0 --mtime=@0 --numeric-owner -cf - . | gzip -9n >"$corpus/$name.tar.gz"
printf '%s: %s inputs\n' "$name" "$(ls "$work/new" | wc -l)"
