"""Rows beside the peers: the same work through each proxy, in front of the same engine, in turns."""

import types

from measure import (CHAT_100K, CHAT_1K7, STREAM_EVENTS, Holder, Row, checked, cost_us, load, settled_rss)
from proxies import DESCRIPTORS


def stream(rate):
    return {"prompt": 1500, "events": STREAM_EVENTS, "every_us": round(1e6 / rate)}


def costs(run, proxies):
    """CPU per request and per event. A proxy that fails at one of them is left out there, and named."""
    broken = set()
    for key, title, limit, plan in [
            ("chat_1k7", "CPU per chat request of 1.7 KB, 32 connections", 1.1, {**CHAT_1K7, "connections": 32}),
            ("chat_100k", "CPU per chat request with a prompt of 100 KB, 32 connections", 1.4,
             {**CHAT_100K, "connections": 32}),
            ("sse_64", "CPU per SSE event, 64 streams of 100 events/s", 1.0, {**stream(100), "connections": 64}),
            ("sse_256", "CPU per SSE event, 256 streams of 100 events/s", 1.0, {**stream(100), "connections": 256})]:
        row = Row(key, title, "µs", 2, limit=limit)
        for _ in range(run.rounds):
            for proxy in [proxy for proxy in proxies if (key, proxy.name) not in broken]:
                try:
                    row.add(proxy.name, cost_us(proxy, seconds=run.seconds, warm=run.warm, **plan)[0])
                except RuntimeError as failure:
                    broken.add((key, proxy.name))
                    row.samples.pop(proxy.name, None)
                    run.failed(title, failure)
        run.row(row)


def memory(run, stack, engine, names):
    """Resident memory added by open streams of one event a second, in fresh processes whose index is empty."""
    count = min(run.streams, (DESCRIPTORS - 256) // 2 - 32)
    row = Row("stream_memory", f"resident memory added by {count:,} streams of 1 event/s", "MiB", 1, limit=1.1,
              note=f"RLIMIT_NOFILE {DESCRIPTORS:,}")
    for name in names:
        proxy = stack.start(name, engine)
        before = settled_rss(proxy)
        try:
            with Holder(proxy, prompt=1500, events=1_000_000, every_us=1_000_000, connections=count, dial=2000):
                added = (settled_rss(proxy) - before) / 2**20
            row.add(name, added)
        except RuntimeError as failure:
            run.failed(row.title, failure)
        stack.end(proxy)
    run.row(row)


def throughput(run, stack, engine):
    """Requests per second by worker count; returns the lowest saturation with one worker."""
    lowest = None
    for workers in range(1, run.cpus + 1):
        row = Row(f"throughput_{workers}", f"requests/s, chat of 1.7 KB, 64 connections, workers: {workers}", "/s", 0,
                  higher=True)
        # sglang-router takes all processors whatever one says.
        names = [name for name in run.here if name != "sglang-router" or workers == run.cpus]
        proxies = [stack.start(name, engine, workers) for name in names]
        for _ in range(run.other_rounds):
            for proxy in proxies:
                row.add(proxy.name, cost_us(proxy, seconds=run.seconds, warm=run.warm, connections=64, **CHAT_1K7)[1])
        stack.end(*proxies)
        if lowest is None:
            lowest = min(row.median(name) for name in ("nginx", "warmroute") if name in names)
        run.row(row)
    return lowest


def latency(run, proxies, engine, saturation):
    """What each proxy adds to the time of an answer, open loop at one rate for all."""
    rate = round(saturation / 2)
    note = f"open loop, {rate:,} requests/s for all: half of the lowest saturation of nginx and warmroute"
    rows = {share: Row(f"latency_{share}", f"latency added, {share}", "µs", 0, limit=2.0 if share == "p99" else None,
                       note=note) for share in ("p50", "p99")}
    direct = types.SimpleNamespace(name="direct", port=engine.port)
    late = {}
    for _ in range(run.other_rounds):
        seen = {}
        for target in [direct, *proxies]:
            host = {"host": engine.hosts[0]} if target is direct else {}
            got = load(target, rate=rate, connections=64, seconds=run.latency_seconds, warm=run.warm, **CHAT_1K7, **host)
            seen[target.name] = got
            late[target.name] = max(late.get(target.name, 0), got["unanswered"] / max(1, got["requests"]))
        for name, got in seen.items():
            for share, row in rows.items():
                value = got[f"{share}_us"]
                row.add(name, value if name == "direct" else value - seen["direct"][f"{share}_us"])
    behind = [name for name, share in late.items() if share > 0.01]
    for row in rows.values():
        if behind:
            row.note += f"; could not keep up: {', '.join(behind)}"
        run.row(row)


def starts(run, stack, engine, names):
    row = Row("start_to_ready", "start to ready, 4 pods", "ms", 0, ceiling=300)
    for _ in range(run.other_rounds):
        for name in names:
            proxy = stack.start(name, engine)
            row.add(name, proxy.ready_s * 1e3)
            stack.end(proxy)
    run.row(row)


def mixed(run, stack, engine):
    """The gaps between events of 200 streams, alone and while 50 clients send 1 MB prompts."""
    gap = Row("mixed_gap", "p99 gap between events of 200 streams of 10 events/s: rise while 50 clients send 1 MB each 2 s",
              "ms", 2)
    alone = Row("alone_gap", "p99 gap between events of those streams alone", "ms", 2)
    steps = Row("longest_step", "longest step on a worker under that load (CPU time, in the process)", "ms", 3,
                ceiling=1)
    slow = Row("slow_steps", "steps above 1 ms under that load", "", 0)
    streams = {"prompt": 1500, "events": 1_000_000, "every_us": 100_000, "connections": 200, "dial": 2000}
    prompts = {"prompt": 1_000_000, "pool": 50, "connections": 50, "rate": 25}
    proxies = [stack.start("nginx", engine)] if "nginx" in run.here else []
    proxies.append(stack.start("warmroute", engine, variables={"WARMROUTE_STEP_TIMES": "true"}))
    for _ in range(run.other_rounds):
        for proxy in proxies:
            quiet = checked(load(proxy, seconds=run.mixed_seconds, warm=1, **streams), proxy.name)
            with Holder(proxy, warm=0, **prompts):
                loaded = checked(load(proxy, seconds=run.mixed_seconds, warm=1, **streams), proxy.name)
            alone.add(proxy.name, quiet["p99_us"] / 1e3)
            gap.add(proxy.name, (loaded["p99_us"] - quiet["p99_us"]) / 1e3)
    gap.ceiling = max(5.0, 2 * gap.median("nginx")) if "nginx" in run.here else 5.0  # as the target has it
    steps.add("warmroute", proxies[-1].metric("warmroute_worker_step_seconds_max") * 1e3)
    slow.add("warmroute", proxies[-1].metric("warmroute_worker_slow_steps_total"))
    stack.end(*proxies)
    for row in (alone, gap, steps, slow):
        run.row(row)
