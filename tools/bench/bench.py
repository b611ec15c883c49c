#!/usr/bin/env python3
"""What warmroute costs, beside nginx, HAProxy and sglang-router in front of the same stand-in engines, in one run.

Prints tables in Markdown and writes the same as JSON (--json, build/bench.json); compare.py compares two such files.
Ratios hold on a noisy machine, absolute figures only on the one they were taken on. What could not be installed or
measured is named.
"""

import argparse
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import time

import beside
import growth
import table
from proxies import DESCRIPTORS, PEERS, ROOT, TOOLS, Engine, Stack, absent

GROUPS = ["costs", "latency", "memory", "starts", "mixed", "routes", "pods", "connections", "streams", "index",
          "workers"]


class Run:
    """How long and how often, and the rows so far."""

    def __init__(self, quick, names, cpus):
        self.here, self.cpus = names, cpus
        self.rounds = 3 if quick else 5
        self.other_rounds = 1 if quick else 5  # of what takes longer, and of the growth rows
        self.seconds = 0.4 if quick else 3.0
        self.warm = 0.2 if quick else 1.0
        self.latency_seconds = 1.0 if quick else 5.0
        self.mixed_seconds = 2.0 if quick else 10.0
        self.streams = 1000 if quick else 10_000
        self.rows, self.failures = [], []

    def row(self, row):
        self.rows.append(row)
        print(f"{time.strftime('%H:%M:%S')} {row.title}: " +
              ", ".join(f"{who} {table.spread(row, who)}" for who in row.samples), file=sys.stderr, flush=True)

    def failed(self, title, failure):
        self.failures.append(f"{title}: {failure}")
        print(f"bench: {title}: {failure}", file=sys.stderr, flush=True)


def machine():
    model = next((line.split(":")[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
                  if line.startswith("model name")), platform.machine())
    probe = subprocess.run([TOOLS / "bench-probe"], capture_output=True, text=True, check=True).stdout.strip()
    return {"processors": len(os.sched_getaffinity(0)), "model": model, "kernel": platform.release(),
            "memory_latency_ns": float(probe), "descriptors": DESCRIPTORS, "load": os.getloadavg()[0]}


def attempt(run, stack, title, step, *arguments):
    """A group that cannot be measured is named at the end and what it started is ended; the others go on."""
    before = list(stack.processes)
    try:
        return step(run, *arguments)
    except (RuntimeError, OSError, SystemExit, subprocess.SubprocessError) as failure:
        run.failed(title, failure)
        stack.stop([process for process in stack.processes if process not in before])
        return None


def start_all(run, stack, engine):
    """One of each; a peer that does not start is left out from here on."""
    proxies = []
    for name in list(run.here):
        proxy = attempt(run, stack, name, lambda _, name=name: stack.start(name, engine))
        if proxy is None:
            run.here.remove(name)
        else:
            proxies.append(proxy)
    return proxies


def measure(run, stack, groups):
    engine = Engine(stack, 4)
    saturation = None
    if "latency" in groups:
        saturation = attempt(run, stack, "throughput", beside.throughput, stack, engine)
    if {"costs", "latency"} & set(groups):
        proxies = start_all(run, stack, engine)
        if "costs" in groups:
            attempt(run, stack, "costs", beside.costs, proxies)
        if saturation:
            attempt(run, stack, "latency", beside.latency, proxies, engine, saturation)
        stack.end(*proxies)
    for group, step, arguments in [
            ("memory", beside.memory, (stack, engine, run.here)), ("starts", beside.starts, (stack, engine, run.here)),
            ("mixed", beside.mixed, (stack, engine)), ("routes", growth.routes, (stack, engine)),
            ("pods", growth.pods, (stack,)), ("connections", growth.connections, (stack, engine)),
            ("streams", growth.streams, (stack, engine)), ("index", growth.index, (stack, engine)),
            ("workers", growth.workers, (stack, engine))]:
        if group in groups:
            attempt(run, stack, group, step, *arguments)


def report(run, where, missing):
    """The tables and what is to be said about them, as Markdown."""
    lines = [f"{where['processors']} × {where['model']}, Linux {where['kernel']}, random memory read "
             f"{where['memory_latency_ns']:.0f} ns, {run.rounds} rounds; median (lowest–highest).", ""]
    peers = [row for row in run.rows if "nginx" in row.samples or row.key in ("start_to_ready",)]
    grown = [row for row in run.rows if row.key.startswith("growth")]
    rest = [row for row in run.rows if row not in peers and row not in grown]
    for rows, made in [(peers, table.beside(peers, [*run.here, *missing], missing)), (grown, table.growth(grown)),
                       (rest, table.alone(rest))]:
        if rows:
            lines += [*made, ""]
    lines += table.notes(run.rows) + [f"- {name} is missing: {why}" for name, why in missing.items()]
    lines += [f"- not measured: {failure}" for failure in run.failures]
    lines += [f"- above its limit: {miss}" for miss in table.misses(run.rows)]
    if where["load"] > 0.5:
        lines.append(f"- the machine was not quiet at the start (load {where['load']:.1f}): take ratios with care")
    return "\n".join(lines) + "\n"


def into_readme(text):
    """Puts the report between the two marks of README's performance chapter."""
    readme = ROOT / "README.md"
    begin, end = "<!-- make bench: begin -->\n", "<!-- make bench: end -->\n"
    before, rest = readme.read_text(encoding="utf-8").split(begin)
    readme.write_text(before + begin + text + end + rest.split(end)[1], encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="within two minutes: less time per figure, fewer streams")
    parser.add_argument("--json", type=pathlib.Path, default=ROOT / "build" / "bench.json")
    parser.add_argument("--only", default=",".join(GROUPS), help="groups of rows, of " + ",".join(GROUPS))
    parser.add_argument("--readme", action="store_true", help="put the tables into README.md, too")
    parser.add_argument("--rounds", type=int, help="instead of 5")
    options = parser.parse_args()
    groups = options.only.split(",")
    if unknown := set(groups) - set(GROUPS):
        parser.error(f"unknown groups: {', '.join(sorted(unknown))}")
    missing = absent()
    run = Run(options.quick, [*(name for name in PEERS if name not in missing), "warmroute"],
              len(os.sched_getaffinity(0)))
    if options.rounds:
        run.rounds = run.other_rounds = options.rounds
    where = machine()
    with tempfile.TemporaryDirectory() as folder, Stack(folder) as stack:
        measure(run, stack, groups)
    text = report(run, where, missing)
    print(text)
    if options.readme:
        into_readme(text)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps({"machine": where, "quick": options.quick, "missing": missing,
                                        "failures": run.failures, "rows": [row.to_json() for row in run.rows]},
                                       indent=1) + "\n")
    return 1 if run.failures else 0


if __name__ == "__main__":
    sys.exit(main())
