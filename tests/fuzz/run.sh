#!/bin/sh
# Runs one target for a time over its corpus: TARGET CORPUS_FOLDER SECONDS [SEED]. Without a seed (or with 0) every run is
# another search; with one, runs are as alike as time allows, which is what a test should be. The corpus is CORPUS_FOLDER/NAME.tar.gz; what is
# found new goes beside the target into NAME.corpus, a finding into NAME.artifacts. Exit 0: no finding.
set -e
target=$1
name=$(basename "$target")
kept=$target.kept
fresh=$target.corpus
rm -rf "$kept"
mkdir -p "$kept" "$fresh" "$target.artifacts"
tar -xzf "$2/$name.tar.gz" -C "$kept"
# No input takes a hundredth of 30 s: one that does is a hang.
exec "$target" -max_total_time="$3" -seed="${4:-0}" -timeout=30 -rss_limit_mb=3000 -max_len=4096 -print_final_stats=1 -verbosity=0 \
    -artifact_prefix="$target.artifacts/" "$fresh" "$kept"
