#!/bin/sh
# Runs every fuzz target of a build folder for some seconds. New inputs go to BUILD/fuzz-found/NAME, never into the
# kept corpus; a crashing input is left there too and its path printed. FUZZ_SEED makes a run repeatable.
set -eu
build=$1
seconds=$2
cd "$(dirname "$0")/.."
count=0
for program in "$build"/tests/fuzz/*_fuzz; do
  [ -x "$program" ] || continue
  name=$(basename "$program" _fuzz)
  found=$build/fuzz-found/$name
  mkdir -p "$found"
  echo "fuzz $name: $seconds s"
  if ! "$program" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -artifact_prefix="$found/" \
      -verbosity=0 -print_final_stats=1 ${FUZZ_SEED:+-seed=$FUZZ_SEED} "$found" "tests/fuzz/corpus/$name" >"$found.log" 2>&1; then
    cat "$found.log" >&2
    echo "fuzz $name failed; input in $found" >&2
    exit 1
  fi
  sed -n 's/^stat::number_of_executed_units: */  executions: /p' "$found.log"
  count=$((count + 1))
done
[ "$count" -gt 0 ] || { echo "no fuzz target in $build/tests/fuzz" >&2; exit 1; }
