#!/usr/bin/env python3
"""Where warmroute's time goes under one of the bench's loads: top functions and system calls per unit of work.

Functions come from `perf` where the machine has hardware counters (kernel and user, sampled), else from `valgrind
--tool=callgrind` (user instructions, counted exactly whatever else the machine does) with a `perf` run by the clock
beside it for the kernel's part. System calls come from `strace -c`. What is missing is named.
"""

import argparse
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from measure import CHAT_100K, CHAT_1K7, checked, load
from beside import stream
from proxies import BUILD, Engine, Stack

# Unit of work, what the generator sends, what the router holds.
LOADS = {
    "chat": ("request", {**CHAT_1K7, "connections": 32}, {}),
    "chat100k": ("request", {**CHAT_100K, "connections": 32}, {}),
    "sse": ("event", {**stream(100), "connections": 64}, {}),
    "routes": ("request", {**CHAT_1K7, "connections": 32, "models": 1000}, {"routes": 1000}),
    "pods": ("request", {**CHAT_1K7, "connections": 32}, {"pods": 1000}),
}


def units(seen, unit):
    return seen["events" if unit == "event" else "requests"]


def counters():
    """Whether the machine counts instructions for us."""
    if not shutil.which("perf"):
        return False
    done = subprocess.run(["perf", "stat", "-x,", "-e", "instructions", "true"], capture_output=True, text=True)
    return done.returncode == 0 and "not supported" not in done.stderr and "not counted" not in done.stderr


def shorten(name):
    name = re.sub(r"std::(__cxx11::)?basic_string<char, std::char_traits<char>, std::allocator<char> ?>", "string", name)
    name = name.replace("std::basic_string_view<char, std::char_traits<char> >", "string_view")
    name = re.sub(r"\[/\S*/([^/\]]+)\]", r"[\1]", name.replace("???:", ""))
    return name if len(name) <= 110 else name[:107] + "..."


def perf(stack, engine, unit, plan, holds, seconds, event):
    proxy = stack.start("warmroute", engine, **holds)
    load(proxy, seconds=0.2, warm=1, **plan)
    data = stack.folder / "perf.data"
    recorder = subprocess.Popen(["perf", "record", "-q", "-e", event, "-F", "4000", "-o", data, "-p", str(proxy.pid)])
    time.sleep(0.3)
    seen = checked(load(proxy, seconds=seconds, warm=0, **plan), "the load")
    recorder.send_signal(signal.SIGINT)
    recorder.wait()
    report = subprocess.run(["perf", "report", "-i", data, "--stdio", "--percent-limit", "0.7", "--sort", "dso,symbol"],
                            capture_output=True, text=True).stdout
    stack.end(proxy)
    print(f"\nCPU {seen['cpu_s'] * 1e6 / units(seen, unit):.2f} µs per {unit}; top functions by {event}, kernel and user:")
    print("\n".join(shorten(re.sub(r"[\s-]+$", "", line)) for line in report.splitlines() if re.match(r"\s+\d+\.\d+%", line)))


def callgrind(stack, engine, unit, plan, holds, seconds):
    # valgrind of Debian 12 cannot read the debug information that clang 16 writes; names are enough here.
    plain = stack.folder / "warmroute"
    subprocess.run(["objcopy", "--strip-debug", BUILD / "warmroute", plain], check=True)
    out = stack.folder / "callgrind.out"
    wrapper = ["valgrind", "-q", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={out}"]
    proxy = stack.start("warmroute", engine, wrapper=wrapper, binary=plain, **holds)

    def control(*what):
        subprocess.run(["callgrind_control", *what, str(proxy.pid)], capture_output=True, check=True)

    load(proxy, seconds=0.2, warm=2, **plan)
    before = proxy.metric("warmroute_attempts_total")
    control("-i", "on")
    seen = checked(load(proxy, seconds=seconds, warm=0, **plan), "the load")
    control("-i", "off")
    control("-d")
    done = units(seen, unit) if unit == "event" else proxy.metric("warmroute_attempts_total") - before
    dump = max(stack.folder.glob("callgrind.out.*"), key=lambda path: path.stat().st_mtime)
    text = subprocess.run(["callgrind_annotate", "--threshold=90", dump], capture_output=True, text=True).stdout
    stack.end(proxy)
    found = re.findall(r"^ *([\d,]+) \( *([\d.]+)%\)  (.+)$", text, re.M)
    total = next(int(count.replace(",", "")) for count, _, name in found if "PROGRAM TOTALS" in name)
    print(f"\n{total / done:,.0f} user instructions per {unit}; top functions:")
    for count, share, name in [line for line in found if "PROGRAM TOTALS" not in line[2]][:30]:
        print(f"{int(count.replace(',', '')) / done:10,.1f} {float(share):6.2f}%  {shorten(name)}")


def system_calls(stack, engine, unit, plan, holds, seconds):
    """strace slows the router down, so more is waiting at each wait: its count is a lower bound, the others hold."""
    proxy = stack.start("warmroute", engine, **holds)
    load(proxy, seconds=0.2, warm=1, **plan)
    out = stack.folder / "strace.txt"
    tracer = subprocess.Popen(["strace", "-c", "-f", "-q", "-p", str(proxy.pid), "-o", out])
    time.sleep(0.5)
    seen = checked(load(proxy, seconds=seconds, warm=0, **plan), "the load")
    tracer.send_signal(signal.SIGINT)
    tracer.wait()
    stack.end(proxy)
    print(f"\nsystem calls per {unit} ({units(seen, unit):,} {unit}s):")
    rows = re.findall(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$", out.read_text(), re.M)
    for count, name in sorted(rows, key=lambda row: -int(row[0])):
        if name != "total" and int(count) / units(seen, unit) >= 0.005:
            print(f"{int(count) / units(seen, unit):10.2f}  {name}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--load", choices=[*LOADS, "all"], default="all",
                        help="all: chat, chat100k and sse")
    parser.add_argument("--seconds", type=float, default=5)
    options = parser.parse_args()
    chosen = {name: LOADS[name] for name in (["chat", "chat100k", "sse"] if options.load == "all" else [options.load])}
    has_counters = counters()
    for name, (unit, plan, holds) in chosen.items():
        print(f"=== {name}: " + ", ".join(f"{key} {value}" for key, value in {**plan, **holds}.items()), flush=True)
        with tempfile.TemporaryDirectory() as folder, Stack(folder) as stack:
            engine = Engine(stack, holds.get("pods", 4))
            if shutil.which("perf"):
                perf(stack, engine, unit, plan, holds, options.seconds, "cycles" if has_counters else "cpu-clock")
            else:
                print("perf is missing: apt-get install linux-perf")
            if not has_counters:
                if shutil.which("valgrind"):
                    callgrind(stack, engine, unit, plan, holds, options.seconds)
                else:
                    print("no hardware counters, and valgrind is missing: apt-get install valgrind")
            if shutil.which("strace"):
                system_calls(stack, engine, unit, plan, holds, options.seconds)
            else:
                print("strace is missing: apt-get install strace")
    return 0


if __name__ == "__main__":
    sys.exit(main())
