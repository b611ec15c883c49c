#!/usr/bin/env python3
"""Random faults of engines, clients and resources against one router; see README.md beside this file.

Usage: chaos.py [--requests N] [--seed S] [--clients N]. WR_BIN names the router. Exit code 1: something was wrong; the
seed and the history of the first requests concerned are printed.
"""

import argparse
import asyncio
import json
import os
import random
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from clients import Client  # noqa: E402  pylint: disable=wrong-import-position
from engines import Engine  # noqa: E402  pylint: disable=wrong-import-position
from plan import Plan  # noqa: E402  pylint: disable=wrong-import-position
from support import router as support, world as docs  # noqa: E402  pylint: disable=wrong-import-position
from support.slots import Slot  # noqa: E402  pylint: disable=wrong-import-position

SLOW = support.SLOW
PODS, STATICS = 5, 2
CONFIG = support.DEFAULT_CONFIG.replace("""\
  plugins:
    Filter:
      enabled:
        - least-request
""", """\
  - name: max-in-flight
    args: {maxInFlight: 10}
  plugins:
    Filter:
      enabled:
        - least-request
        - max-in-flight
""")
EVENTS = ["kill", "refuse", "black-hole", "remove-pod", "remove-pod", "touch"]


def flags():
    def span(milliseconds):
        return f"{int(milliseconds * SLOW)}ms"

    return ["--workers=3", f"--connect-timeout={span(300)}", f"--response-header-timeout={span(700)}",
            f"--stream-idle-timeout={span(900)}", f"--client-head-timeout={span(1500)}",
            f"--client-body-timeout={span(1500)}", "--client-idle-timeout=3s", f"--client-write-timeout={span(2000)}",
            "--upstream-idle-timeout=700ms", "--breaker-failures=4", "--breaker-open=50ms", "--breaker-open-max=1s",
            "--breaker-ramp=300ms", "--queue-length=60", "--queue-bytes=4MiB", f"--queue-timeout={span(800)}",
            "--max-buffered-bytes=64MiB"]


class World:
    """What engines, clients and the checks share."""

    def __init__(self, args):
        self.args = args
        self.slow = SLOW
        self.patience = 30 * SLOW
        self.plans = {}
        self.violations = []
        self.extra = 0
        self.done = 0
        self.kinds = {}
        self.slot = Slot()
        self.engines = [Engine(self, f"e-{n}", self.slot.ip(n)) for n in range(1, PODS + STATICS + 1)]
        self.present = set(range(1, PODS + 1))
        self.router = None

    # bookkeeping

    def plan(self, number):
        plan = Plan(self.args.seed, number)
        self.plans[plan.id] = plan
        return plan

    def extra_plan(self):
        """A pipelined request: numbered behind all others, and nothing but normal itself."""
        self.extra += 1
        plan = self.plan(self.args.requests + self.extra)
        plan.client = "normal"
        return plan

    def settle(self, plan):
        """The request is over; engines may still notice that, so it is forgotten a little later."""
        self.done += 1
        asyncio.get_running_loop().call_later(5 * SLOW, self.plans.pop, plan.id, None)

    def count(self, answer, attempt):
        by = "engine" if attempt else "router " + json.loads(answer.body)["error"]["code"]
        kind = f"{answer.status} {by} {answer.ended}"
        self.kinds[kind] = self.kinds.get(kind, 0) + 1

    def violation(self, plan, text):
        if plan is not None:
            plan.note(time.monotonic(), f"WRONG: {text}")
        self.violations.append((plan, text))

    # resources

    def resources(self):
        pods = [docs.pod(f"p-{n}", self.slot.ip(n), "a") for n in sorted(self.present)]
        statics = docs.static_pods("s", "a", [f"{self.slot.ip(PODS + n)}:8000" for n in range(1, STATICS + 1)])
        return docs.join(docs.model_server("ms-a", "a"),
                         docs.model_server("ms-b", "a", retry={"attempts": 1, "retryInterval": "5ms"}), *pods, statics,
                         docs.route("mr-a", "m-a", "ms-a"), docs.route("mr-b", "m-b", "ms-b"))

    # the storm

    async def disturb(self):
        """Kills, black holes, pods that come and go. One engine always stays as it is."""
        rng = random.Random(f"{self.args.seed}/events")
        while True:
            await asyncio.sleep(rng.uniform(0.05, 0.25) * min(SLOW, 2))
            event, number = rng.choice(EVENTS), rng.randrange(2, PODS + STATICS + 1)
            engine, pause = self.engines[number - 1], rng.uniform(0.03, 0.3)
            if event == "kill":
                await engine.kill()
                await asyncio.sleep(pause)
                await engine.start()
            elif event == "refuse":
                await engine.close_listener()
                await asyncio.sleep(pause)
                await engine.start()
            elif event == "black-hole":
                await engine.black_hole()
                await asyncio.sleep(pause)
                await engine.start()
            elif event == "remove-pod" and number <= PODS:
                self.present.discard(number)
                self.router.write_resource("world.yaml", self.resources())
                await asyncio.sleep(pause)
                self.present.add(number)
                self.router.write_resource("world.yaml", self.resources())
            else:
                self.router.write_resource("world.yaml", self.resources() + "# touched\n")

    async def work(self, numbers):
        client = Client(self)
        for number in numbers:
            if self.violations or self.router.process.poll() is not None:
                break
            plan = self.plan(number)
            await client.run(plan)
            self.settle(plan)
        client.drop()

    async def storm(self):
        numbers = iter(range(self.args.requests))
        disturber = asyncio.ensure_future(self.disturb())
        workers = [asyncio.ensure_future(self.work(numbers)) for _ in range(self.args.clients)]
        progress = asyncio.ensure_future(self.progress())
        await asyncio.gather(*workers)
        for task in (disturber, progress):
            task.cancel()
        for engine in self.engines:
            await engine.start()

    async def progress(self):
        began = time.monotonic()
        while True:
            await asyncio.sleep(10)
            print(f"  {self.done} requests after {time.monotonic() - began:.0f} s", flush=True)

    # afterwards

    async def blocking(self, call, *args):
        return await asyncio.get_running_loop().run_in_executor(None, call, *args)

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.router.process.pid}/fd"))

    def left_over(self):
        """What should be zero and is not."""
        values = self.router.metrics()
        out = {}
        for (name, labels), value in values.items():
            if value != 0 and name in ("kthena_router_active_requests", "kthena_router_active_downstream_requests",
                                       "kthena_router_active_upstream_requests", "warmroute_buffered_request_bytes",
                                       "warmroute_queue_waiting", "warmroute_client_connections"):
                out[f"{name}{dict(labels)}"] = value
        for pod in self.router.debug("/debug/pods").json()["pods"]:
            if pod["inFlight"] != 0:
                out[f"inFlight of {pod['name']}"] = pod["inFlight"]
        for engine in self.engines:
            if engine.in_flight != 0:
                out[f"requests of engine {engine.name}"] = engine.in_flight
        return out

    async def settled(self, descriptors):
        deadline = time.monotonic() + 15 * SLOW
        while True:
            left = await self.blocking(self.left_over)
            now = self.descriptors()
            if now > descriptors:
                left["open descriptors"] = f"{now} instead of {descriptors}"
            if not left:
                return
            if time.monotonic() > deadline:
                self.violation(None, f"left over at the end: {left}")
                return
            await asyncio.sleep(0.1)

    async def run(self):
        for engine in self.engines:
            await engine.start()
        self.router = support.Router(self.resources(), CONFIG, flags(), {"METRICS_SCRAPE_INTERVAL": "500ms"},
                                     slot=self.slot, start=False)
        await self.blocking(self.router.start)
        await asyncio.sleep(1)
        descriptors = max([self.descriptors() for _ in range(5)]) + 2 * len(self.engines)  # scrapes come and go
        began = time.monotonic()
        await self.storm()
        took = time.monotonic() - began
        alive = self.router.process.poll() is None
        if not alive:
            self.violation(None, f"the router ended with {self.router.process.returncode}")
        elif not self.violations:
            await self.settled(descriptors)
        await self.blocking(self.stop, alive)
        return took

    def stop(self, alive):
        tail = self.router.log_tail()
        try:
            self.router.stop(check=alive)
        except AssertionError as error:
            self.violation(None, str(error))
        if self.violations:
            print(tail)
        self.slot.release()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clients", type=int, default=96)
    args = parser.parse_args()
    print(f"chaos: {args.requests} requests, seed {args.seed}", flush=True)
    world = World(args)
    took = asyncio.run(world.run())
    for kind, count in sorted(world.kinds.items(), key=lambda item: -item[1]):
        print(f"  {count:7} {kind}")
    print(f"{world.done} requests in {took:.1f} s")
    for plan, text in world.violations[:5]:
        print(f"\nWRONG: {text}")
        if plan is not None:
            print(plan.history())
    if world.violations:
        print(f"\n{len(world.violations)} violations; again with: make chaos REQUESTS={args.requests} SEED={args.seed}")
        return 1
    print("all well")
    return 0


if __name__ == "__main__":
    sys.exit(main())
