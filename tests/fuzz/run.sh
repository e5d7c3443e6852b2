#!/bin/sh
# Runs one target for a time over its corpus: TARGET CORPUS_FOLDER SECONDS. What it finds new goes beside the target, into
# NAME.corpus; a finding into NAME.artifacts, and is printed. Exit 0: no finding.
target=$1
name=$(basename "$target")
fresh=$target.corpus
artifacts=$target.artifacts
mkdir -p "$fresh" "$artifacts"
# A sample of 5 s is a hang: none takes a hundredth of it.
exec "$target" -max_total_time="$3" -timeout=5 -rss_limit_mb=3000 -max_len=65536 -print_final_stats=1 -verbosity=0 \
    -artifact_prefix="$artifacts/" "$fresh" "$2/$name"
