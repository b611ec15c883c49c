#!/usr/bin/env python3
"""docs/faults.md has every case once and docs/kubernetes-checklist.md every row; every test that they or
docs/threat-model.md name exists."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
# The case numbers of the collection; it has gaps.
CASES = [1, *range(3, 8), *range(9, 16), 17, 18, *range(21, 27), *range(29, 34), *range(35, 40), *range(41, 48),
         *range(50, 54), 55, 57, 59, 60, 61, 63, 64, 65, 67, 68, 70, *range(72, 78), *range(80, 83), *range(84, 91),
         92, 93, 94, 97, 98, 99, 101, 102, 103, 105, 106, 108, 109, 111, 113, 114, 115, 116, 117, 119,
         *range(120, 124), 125]
ROWS = range(1, 55)  # of the drop-in checklist
EXCUSES = ("Cannot arise:", "Not built:")


def exists(reference):
    path, name = reference.split("::", 1)
    file = ROOT / path if path.startswith("plugins/") else ROOT / "tests" / path
    if not file.is_file():
        return False
    text = file.read_text(encoding="utf-8")
    if path.endswith(".py"):
        return re.search(rf"^def {re.escape(name)}\(", text, re.MULTILINE) is not None
    return f'TEST_CASE("{name}"' in text


def check_table(file, word, numbers):
    """What is wrong with a table whose rows are `| number | what | tests or an excuse |`."""
    problems, seen = [], []
    for line in (ROOT / file).read_text(encoding="utf-8").splitlines():
        row = re.match(r"\| (\d+) \| (.+?) \| (.+) \|$", line)
        if not row:
            continue
        number, tests = int(row.group(1)), re.findall(r"`([^`]+::[^`]+)`", row.group(3))
        seen.append(number)
        if not tests and not row.group(3).startswith(EXCUSES):
            problems.append(f"{word} {number}: neither a test nor a reason")
        problems += [f"{word} {number}: no test {name}" for name in tests if not exists(name)]
        for fuzzer in re.findall(r"fuzzers? ((?:`\w+`(?: and )?)+)", row.group(3)):
            problems += [f"{word} {number}: no fuzzer {name}" for name in re.findall(r"`(\w+)`", fuzzer)
                         if not (ROOT / f"tests/fuzz/{name}_fuzz.cpp").is_file()]
    problems += [f"{word} {number} is missing" for number in numbers if number not in seen]
    problems += [f"{word} {number} is unknown" for number in seen if number not in numbers]
    problems += [f"{word} {number} stands there twice" for number in set(seen) if seen.count(number) > 1]
    return problems


def main():
    problems = check_table("docs/faults.md", "case", CASES)
    problems += check_table("docs/kubernetes-checklist.md", "row", ROWS)
    model = (ROOT / "docs/threat-model.md").read_text(encoding="utf-8")
    problems += [f"threat model: no test {name}" for name in re.findall(r"`([^`\n]+::[^`]+)`", model) if not exists(name)]
    print("\n".join(problems) if problems else f"{len(CASES)} cases and {len(ROWS)} rows, each with its tests")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
