"""Single measurements: what the load generator saw, and rows of samples with median and spread."""

import json
import statistics
import subprocess
import time

from proxies import MODEL, TOOLS, cpu_seconds, resident_bytes

CHAT_1K7 = {"prompt": 1500}
CHAT_100K = {"prompt": 100_000}
STREAM_EVENTS = 100


def generator(proxy, **plan):
    plan = {"port": proxy.port, "model": MODEL, **plan}
    return [str(TOOLS / "bench-load"), *(f"{key}={value}" for key, value in plan.items())]


def load(proxy, **plan):
    """One run of the load generator; its JSON. A run in which requests failed is no measurement."""
    done = subprocess.run(generator(proxy, pid=getattr(proxy, "pid", 0), **plan), capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"load generator on {proxy.name}: {done.stderr.strip()}")
    seen = json.loads(done.stdout)
    if hasattr(proxy, "forget_log"):
        proxy.forget_log()
    return seen


def checked(seen, what):
    done = seen["events"] or seen["requests"]
    if done == 0 or seen["failed"] > 0.001 * done:
        raise RuntimeError(f"{what}: {seen['failed']} of {done} failed ({seen['first_failure'] or 'no answer at all'})")
    return seen


class Holder:
    """A load generator that keeps its streams or idle connections up until it is let go."""

    def __init__(self, proxy, **plan):
        self.name = proxy.name
        self.process = subprocess.Popen(generator(proxy, hold=1, **plan), stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline() != "ready\n":
            raise RuntimeError(f"load generator on {proxy.name} ended early")

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.process.stdin.close()
        text = self.process.stdout.read()
        self.process.wait(30)
        failed = json.loads(text or '{"failed": 1, "first_failure": "the generator broke"}')
        if kind is None and failed["failed"]:  # fewer streams than the row says would look cheap
            raise RuntimeError(f"{self.name}: {failed['failed']} of those held failed ({failed['first_failure']})")


def cost_us(proxy, background=0.0, **plan):
    """CPU microseconds of the proxy per request, or per event for streams, and the requests per second."""
    seen = checked(load(proxy, **plan), proxy.name)
    if "events" in plan and not seen["events"]:
        raise RuntimeError(f"{proxy.name}: no events came back")
    cpu = seen["cpu_s"] - background * seen["seconds"]
    return cpu * 1e6 / (seen["events"] or seen["requests"]), seen["requests"] / seen["seconds"]


def background_cpu(proxy, seconds):
    """CPU seconds per second of a proxy that serves nobody."""
    before = cpu_seconds(proxy.pid)
    time.sleep(seconds)
    return (cpu_seconds(proxy.pid) - before) / seconds


def settled_rss(proxy, tries=20):
    """Resident bytes once they have stopped moving."""
    last = resident_bytes(proxy.pid)
    for _ in range(tries):
        time.sleep(0.25)
        now = resident_bytes(proxy.pid)
        if abs(now - last) < 65536:
            return now
        last = now
    return last


class Row:
    """Samples of one piece of work by who did it. `key` names the row in JSON and must stay."""

    # `limit` is a ratio (to nginx, or to the row's smallest step), `ceiling` a figure in the row's unit.
    def __init__(self, key, title, unit, digits=1, higher=False, limit=None, ceiling=None, note=None):
        self.key, self.title, self.unit, self.digits, self.higher = key, title, unit, digits, higher
        self.limit, self.ceiling, self.note = limit, ceiling, note
        self.samples = {}

    def add(self, who, value):
        self.samples.setdefault(who, []).append(value)

    def median(self, who):
        return statistics.median(self.samples[who])

    def ratio(self, who, to):
        """Median and ends of the ratios of each round: what disturbs the machine for a while disturbs both."""
        if to not in self.samples or who not in self.samples or min(self.samples[to]) <= 0:
            return None
        ratios = [mine / other for mine, other in zip(self.samples[who], self.samples[to])]
        return statistics.median(ratios), min(ratios), max(ratios)

    def to_json(self):
        return {"key": self.key, "title": self.title, "unit": self.unit, "digits": self.digits, "higher": self.higher,
                "limit": self.limit, "ceiling": self.ceiling, "note": self.note,
                "by": {who: {"median": statistics.median(values), "low": min(values), "high": max(values),
                             "samples": values} for who, values in self.samples.items()}}
