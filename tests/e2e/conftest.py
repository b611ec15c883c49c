import os
import subprocess
import sys

import pytest

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, TESTS)

from support import router, slots, wire, world  # noqa: E402  pylint: disable=wrong-import-position


class Site:
    """A router before two mock engines: model demo (adapter lora-1), empty (no pods), quick (header time-out)."""

    def __init__(self):
        self.slot = slots.Slot()
        self.engines = [subprocess.Popen(
            [router.MOCK_ENGINE, f"--bind={self.slot.ip(n)}", "--port=8000", "--model=demo-real", "--lora=lora-1",
             f"--name=e-{n}", "--decode-tokens-per-second=200"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            for n in (1, 2)]
        for number in (1, 2):
            router.wait_for(lambda n=number: self._alive(n), 10, "mock engine")
        self.router = router.Router(world.join(
            world.model_server("ms", "a", model="demo-real"), world.pod("e-1", self.slot.ip(1), "a"),
            world.pod("e-2", self.slot.ip(2), "a"), world.route("mr", "demo", "ms", loras=("lora-1",)),
            world.model_server("ms-empty", "none"), world.route("mr-empty", "empty", "ms-empty"),
            world.model_server("ms-quick", "a", model="demo-real", timeout="400ms"),
            world.route("mr-quick", "quick", "ms-quick")), config=None, flags=["--max-body-bytes=1000000"],
            slot=self.slot)
        self.url = f"http://{self.router.host}:8080"

    def _alive(self, number):
        try:
            return self.control(number)
        except OSError:
            return None

    def control(self, number, **change):
        """State of an engine, after a change."""
        address = (self.slot.ip(number), 8000)
        data = wire.request_bytes("POST", "/control", change) if change else wire.request_bytes("GET", "/control")
        answer = wire.exchange(address, data, "POST")
        assert answer.status == 200, answer
        return answer.json()

    def faults(self, fault, count=1, **kw):
        """The next `count` requests of each engine misbehave."""
        for number in (1, 2):
            self.control(number, faults=[{"fault": fault, "count": count, **kw}])

    def close(self):
        self.router.stop()
        for engine in self.engines:
            engine.terminate()
            engine.wait(10)
        self.slot.release()


@pytest.fixture(scope="session", name="shared")
def _shared():
    site = Site()
    yield site
    site.close()


@pytest.fixture
def site(shared):
    for number in (1, 2):
        shared.control(number, faults=[], reset_counters=True)
    return shared
