#!/bin/sh
# fuzz.sh BUILD SECONDS [PROGRAM]: runs every fuzz target of a build folder, or one, for some seconds; JOBS at once
# (default: the processors). New inputs go to BUILD/fuzz-found/NAME, never into the kept corpus; a crashing input is
# left there too and its path printed. FUZZ_SEED makes a run repeatable.
set -eu
build=$1
seconds=$2
if [ $# -eq 2 ]; then
  cd "$(dirname "$0")/.."
  programs=$(find "$build/tests/fuzz" -maxdepth 1 -name '*_fuzz' -perm -u+x | sort)
  [ -n "$programs" ] || { echo "no fuzz target in $build/tests/fuzz" >&2; exit 1; }
  echo "$programs" | xargs -P "${JOBS:-$(nproc)}" -n 1 tools/fuzz.sh "$build" "$seconds" || exit 1
  exit 0
fi

name=$(basename "$3" _fuzz)
found=$build/fuzz-found/$name
mkdir -p "$found"
if ! "$3" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -artifact_prefix="$found/" -verbosity=0 \
    -print_final_stats=1 ${FUZZ_SEED:+-seed=$FUZZ_SEED} "$found" "tests/fuzz/corpus/$name" >"$found.log" 2>&1; then
  cat "$found.log" >&2
  echo "fuzz $name failed; input in $found" >&2
  exit 1
fi
echo "fuzz $name: $seconds s, executions: $(sed -n 's/^stat::number_of_executed_units: *//p' "$found.log")"
