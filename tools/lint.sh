#!/bin/sh
# Layers, bans, formatting of all files; clang-tidy on the files changed since BASE (default: the branch's start, else
# the last commit), because it takes minutes for everything. LINT_ALL=1 takes everything.
set -eu
cd "$(dirname "$0")/.."
python3 tools/check_layers.py
python3 tools/check_bans.py
git ls-files '*.cpp' '*.hpp' | xargs clang-format-16 --dry-run -Werror

if [ "${LINT_ALL:-0}" = 1 ]; then
  changed=$(git ls-files 'src/*.cpp' 'plugins/*.cpp' 'tools/*.cpp')
else
  base=${BASE:-$(git merge-base HEAD origin/main 2>/dev/null || echo HEAD)}
  [ "$(git rev-parse "$base")" != "$(git rev-parse HEAD)" ] || [ -n "$(git diff --name-only HEAD)" ] || base=HEAD~1
  changed=$(git diff --name-only --diff-filter=d "$base" -- 'src/*.cpp' 'plugins/*.cpp' 'tools/*.cpp')
fi
[ -n "$changed" ] || { echo "no changed source for clang-tidy"; exit 0; }
cmake --preset release >/dev/null
# shellcheck disable=SC2086 # a list of words
echo $changed | tr ' ' '\n' | xargs -n 1 -P "$(nproc)" clang-tidy-16 -p build/release --quiet
