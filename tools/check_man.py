#!/usr/bin/env python3
"""Fails when a man page and its program's --help name different options.

Usage: tools/check_man.py PROGRAM PAGE [OPTION...]; each OPTION may be missing from the page.
"""

import pathlib
import re
import subprocess
import sys


def main():
    program, page, *exempt = sys.argv[1:]
    text = subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout
    told = set(re.findall(r"^ +(?:-\w,? *)?--([A-Za-z][\w-]*)", text, re.MULTILINE)) - {"help", "version"} - set(exempt)
    manual = pathlib.Path(page).read_text(encoding="utf-8").replace("\\-", "-")
    named = set(re.findall(r"^\.TP\n\.B[IR]? \"?--([\w-]+)", manual, re.MULTILINE)) - {"help", "version"}
    for option in sorted(told - named):
        print(f"{page}: --{option} is missing")
    for option in sorted(named - told):
        print(f"{page}: --{option} is unknown to {program}")
    print(f"{len(told)} options")
    return 0 if told and told == named else 1


if __name__ == "__main__":
    sys.exit(main())
