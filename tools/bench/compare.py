#!/usr/bin/env python3
"""Compares two files that bench.py wrote: compare.py BEFORE AFTER

For each row: nginx-relative figures where both runs have nginx, else the medians; the change, and whether it lies
beyond the spread (the ranges of both runs do not meet). Exit code 1 when something became worse beyond the spread.
"""

import json
import statistics
import sys


def samples(row, who):
    """What is compared: ratios to nginx by round where there are any, since they survive a noisy machine."""
    mine = row["by"][who]["samples"]
    nginx = row["by"].get("nginx", {}).get("samples")
    if who != "nginx" and nginx and len(nginx) == len(mine) and min(nginx) > 0:
        return [a / b for a, b in zip(mine, nginx)], "× nginx"
    return mine, row["unit"]


def ends(values):
    """Of the spread; a single sample has none to show and is taken for ten per cent wide on either side."""
    if len(values) > 1:
        return min(values), max(values)
    return values[0] - abs(values[0]) * 0.1, values[0] + abs(values[0]) * 0.1


def judge(before, after, higher):
    """The change in per cent, and "", "better" or "WORSE" when the ranges do not meet."""
    was, now = statistics.median(before), statistics.median(after)
    change = (now / was - 1) * 100 if was > 0 and now > 0 else None  # differences may be negative
    (low, high), (new_low, new_high) = ends(before), ends(after)
    if high >= new_low and new_high >= low:
        return change, ""
    return change, "better" if (now > was) == higher else "WORSE"


def compare(before, after):
    """Lines of (title, who, was, now, unit, change, verdict); rows and members that only one run has are named."""
    old = {row["key"]: row for row in before["rows"]}
    lines = []
    for row in after["rows"]:
        if row["key"] not in old:
            lines.append((row["title"], "", None, None, "", None, "new"))
            continue
        was = old.pop(row["key"])
        for who in row["by"]:
            if who not in was["by"]:
                lines.append((row["title"], who, None, None, "", None, "new"))
                continue
            (first, unit), (second, second_unit) = samples(was, who), samples(row, who)
            if unit != second_unit:  # nginx was there once only
                first, second, unit = was["by"][who]["samples"], row["by"][who]["samples"], row["unit"]
            change, verdict = judge(first, second, row["higher"])
            lines.append((row["title"], who, statistics.median(first), statistics.median(second), unit, change, verdict))
    return lines + [(row["title"], "", None, None, "", None, "gone") for row in old.values()]


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    files = []
    for name in sys.argv[1:]:
        with open(name, encoding="utf-8") as file:
            files.append(json.load(file))
    before, after = files
    if before["machine"]["model"] != after["machine"]["model"] or before["quick"] != after["quick"]:
        print("different machines or lengths: only ratios compare\n")
    lines = compare(before, after)
    for title, who, was, now, unit, change, verdict in lines:
        figures = "" if was is None else f"{was:10.2f} -> {now:10.2f} {unit:8}"
        change = "" if change is None else f"{change:+7.1f} %"
        print(f"{title[:72]:72} {who:14} {figures:33} {change:10} {verdict}".rstrip())
    return 1 if any(line[-1] == "WORSE" for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
