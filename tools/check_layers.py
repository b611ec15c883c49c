#!/usr/bin/env python3
"""Fails on an include that goes up or sideways in the layers, or on a library outside the folders it belongs to.

Usage: tools/check_layers.py [ROOT]. Prints each breach as FILE:LINE: text; exit code 1 when there is one.
"""

import pathlib
import re
import sys

LAYERS = [
    ["include"],
    ["base"],
    ["model"],
    ["http", "openai", "route", "prefix", "schedule"],
    ["pd"],
    ["config", "net", "metrics"],
    ["kube"],
    ["upstream", "proxy", "source", "scrape", "admin"],
    ["webhook", "status"],
    ["app"],
]
LEVEL = {folder: level for level, folders in enumerate(LAYERS) for folder in folders}
# Steps to the side that the design asks for; everything else goes strictly down.
SIDEWAYS = {("openai", "http"), ("proxy", "upstream")}

ASIO = {"net", "kube", "upstream", "proxy", "source", "scrape", "admin", "webhook", "status", "app"}
# Pattern of the header, the folders (or single files) that may include it.
LIBRARIES = [
    (r"boost/asio", ASIO | {"include/warmroute/plugin_prepare.hpp"}),
    (r"boost/beast/(http|core)", ASIO | {"http"}),
    (r"boost/beast", ASIO),
    (r"re2/", {"route"}),
    (r"zlib\.h", {"http"}),
    (r"yaml-cpp/", {"config"}),
    (r"prometheus/", {"metrics"}),
    (r"spdlog/fmt/", set(LEVEL)),  # the formatter alone
    (r"spdlog/", {"src/base/log.hpp", "src/base/log.cpp"}),
    (r"xxhash\.h", {"prefix", "openai"}),
    (r"CLI/", {"app"}),
    (r"openssl/", {"net"}),
    (r"simdjson", {"openai", "scrape", "config", "kube"}),
]
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def sources(root):
    for top in ("include", "src", "plugins"):
        for path in sorted((root / top).rglob("*")):
            if path.suffix in (".hpp", ".cpp") and not path.name.endswith("_test.cpp"):
                yield path


def folder_of(relative):
    parts = relative.parts
    if parts[0] == "src":
        return parts[1]
    return "include" if parts[0] == "include" else "plugins/" + (parts[1] if len(parts) > 2 else "")


def check_plugin(folder, header, root):
    own = folder.split("/")[1]
    if header.startswith("warmroute/") or header.startswith(own + "/") or "/" not in header:
        return None
    # base/characters.hpp: it estimates the length of a whole prompt as the prompt's reader counts it.
    if own == "prefix_cache" and (header.startswith("prefix/") or header == "base/characters.hpp"):
        return None
    if not own and (root / "plugins" / header).exists():  # the list of registrations names every plugin
        return None
    return "plugins include the contract in include/ and their own folder only"


def check_include(relative, quote, header, root):
    folder = folder_of(relative)
    for pattern, allowed in LIBRARIES:
        if re.match(pattern, header):
            if folder not in allowed and relative.as_posix() not in allowed:
                return f"only {', '.join(sorted(allowed))} may include it"
            return None
    if quote == "<" or header.startswith("warmroute/"):
        return None
    if folder.startswith("plugins/"):
        return check_plugin(folder, header, root)
    target = header.split("/")[0]
    if target == "plugins" or (root / "plugins" / header).exists():
        return None if folder == "app" else "only app knows the plugins"
    if target == folder or (folder, target) in SIDEWAYS:
        return None
    if target not in LEVEL:
        return "unknown folder; write includes from src/ on"
    if LEVEL[target] >= LEVEL[folder]:
        return f"{folder} (layer {LEVEL[folder]}) may not include {target} (layer {LEVEL[target]})"
    return None


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[1]).resolve()
    breaches = files = 0
    for path in sources(root):
        files += 1
        relative = path.relative_to(root)
        if relative.parts[0] == "src" and relative.parts[1] not in LEVEL:
            print(f"{relative}:1: folder {relative.parts[1]} has no layer")
            breaches += 1
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            found = INCLUDE.match(line)
            why = found and check_include(relative, found[1], found[2], root)
            if why:
                print(f"{relative}:{number}: {found[2]}: {why}")
                breaches += 1
    print(f"{files} files, {breaches} breaches")
    return 1 if breaches or not files else 0


if __name__ == "__main__":
    sys.exit(main())
