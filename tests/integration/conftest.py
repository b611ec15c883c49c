import fcntl
import os
import sys
import tempfile

import pytest

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, TESTS)

from support import engine, router, slots, world  # noqa: E402  pylint: disable=wrong-import-position
from support.kube_cluster import Cluster  # noqa: E402  pylint: disable=wrong-import-position
from support.pd import Pairs  # noqa: E402  pylint: disable=wrong-import-position


class Stack:
    """One router and its scripted engines a-1, a-2, ... behind model m-a."""

    def __init__(self, count=1, answers=None, flags=(), env=None, config=router.DEFAULT_CONFIG, resources=None,
                 log_format="json", server=None, start=True, metrics=None, listen=True, wait_ready=True, tls=None, **kw):
        self.slot = slots.Slot()
        self.engines = []
        for number in range(1, count + 1):
            self.engines.append(engine.Engine(
                self.slot.ip(number), answers=answers, name=f"a-{number}", listen=listen, tls=tls,
                metrics=metrics[number - 1] if metrics else engine.vllm_metrics(kv=number / 100)))
        text = resources(self.slot) if callable(resources) else resources
        if text is None:
            text = world.simple(self.slot, count, server=server, **kw)
        self.router = router.Router(text, config, flags, env, log_format, self.slot, wait_ready, start)

    @property
    def engine(self):
        return self.engines[0]

    def asked(self):
        """Names of the engines that got requests, in order of arrival."""
        seen = sorted((s for e in self.engines for s in e.requests), key=lambda s: s.at)
        return [s.engine for s in seen]

    def close(self, check):
        try:
            self.router.stop(check)
        finally:
            for each in self.engines:
                each.stop()
            self.slot.release()


@pytest.fixture
def starter(request):
    """starter(kind) is a function that starts one of `kind`; all are closed, and checked unless the test failed."""
    made = []

    def of_kind(kind):
        def start(*args, **kw):
            made.append(kind(*args, **kw))
            return made[-1]
        return start

    yield of_kind
    failed = getattr(request.node, "failed_in_call", False)
    for each in made:
        each.close(check=not failed)


@pytest.fixture
def stack(starter):
    """stack(count, ...) starts one."""
    return starter(Stack)


@pytest.fixture
def pairs(starter):
    return starter(Pairs)


@pytest.fixture(name="holes")
def _holes():
    made = []

    def make(ip):
        made.append(engine.BlackHole(ip))

    yield make
    for hole in made:
        hole.close()


@pytest.fixture
def one_demo():
    """`make run` writes one file of resources and looks for free ports: never two at once on a machine."""
    with open(os.path.join(tempfile.gettempdir(), f"warmroute-test-demo-{os.getuid()}"), "w", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.fixture
def cluster(starter):
    """cluster(...) starts a router that follows a stand-in API server."""
    return starter(Cluster)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    if call.when == "call" and outcome.get_result().failed:
        item.failed_in_call = True
