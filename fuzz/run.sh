#!/usr/bin/env bash
# Runs one fuzz target for a while: fuzz/run.sh BUILD_FOLDER NAME_fuzz SECONDS. A finding fails the
# run; the input that shows it stays in BUILD_FOLDER/findings.
set -euo pipefail
build=$1 name=$2 seconds=$3
seeds="$(dirname "$0")/seeds/${name%_fuzz}"
corpus="$build/corpus/$name"
mkdir -p "$corpus" "$build/findings"
inputs=("$corpus")
[ ! -d "$seeds" ] || inputs+=("$seeds")
exec "$build/fuzz/$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
  -print_final_stats=1 -artifact_prefix="$build/findings/$name-" "${inputs[@]}"
