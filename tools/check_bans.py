#!/usr/bin/env python3
"""Fails on constructs that the design bans, with the reason. A line with `// allowed: REASON` is exempt.

Usage: tools/check_bans.py [ROOT].
"""

import pathlib
import re
import sys

BANS = [
    (r"\bdetached\b", "nobody hears how the coroutine ended: use TaskGroup::spawn", {"src/net"}),
    (r"\bco_spawn\b", "use TaskGroup::spawn", {"src/net"}),
    (r"\buse_future\b", "a future blocks a worker", {"src/net"}),
    (r"\bstd::j?thread\b(?!::)", "threads belong to net, the loggers and the reader of files",
     {"src/net", "src/base", "src/metrics/access_log.cpp", "src/source/files.cpp"}),
    (r"\b(enable_)?shared_from_this\b", "state lives in the frame of the coroutine that needs it", set()),
    (r"\bstd::cout\b|\bprintf\(", "log through base/log.hpp", {"src/app", "src/base", "tools/mock-engine", "tools/bench"}),
    (r"\busing namespace std;", "names stay qualified", set()),
]
COMMENT = re.compile(r"^\s*(//|\*|/\*)")


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[1]).resolve()
    breaches = files = 0
    for top in ("include", "src", "plugins", "tools"):
        for path in sorted((root / top).rglob("*")):
            if path.suffix not in (".hpp", ".cpp") or path.name.endswith("_test.cpp"):
                continue
            files += 1
            relative = path.relative_to(root)
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                if COMMENT.match(line) or "// allowed: " in line:
                    continue
                code = line.split("//")[0]
                for pattern, why, allowed in BANS:
                    if re.search(pattern, code) and not any(relative.is_relative_to(a) for a in allowed):
                        print(f"{relative}:{number}: {why}")
                        breaches += 1
    print(f"{files} files, {breaches} breaches")
    return 1 if breaches or not files else 0


if __name__ == "__main__":
    sys.exit(main())
