"""500 pods come and go while requests flow: none is sent to a pod that left more than a second before."""

import itertools
import random
import threading
import time

import pytest
from support import world
from support.cluster.crowd import Crowd
from support.cluster.stage import Stage
from support.wire import Conn, request_bytes

PODS = 500
STANDING = 40       # pods that are there at any time
GRACE = 1.0         # seconds from the acknowledged write to the last request


@pytest.fixture(name="stage")
def _stage(plane, crds):
    stage = Stage(plane, "churn")
    yield stage
    stage.close()


class Churn:
    """Makes pods and lets them leave by every kind of write, and keeps when each write was acknowledged."""

    def __init__(self, stage):
        self.stage = stage
        self.left = {}      # address: (time of acknowledgement, how)
        self._leave = itertools.cycle((self._delete, self._terminate, self._unready, self._relabel, self._fail))

    def come(self, number):
        self.stage.apply(world.pod(f"p-{number}", Crowd.address(number), "crowd", self.stage.namespace))

    def go(self, number):
        leave = next(self._leave)
        leave(f"p-{number}")
        self.left[Crowd.address(number)] = (time.monotonic(), leave.__name__)

    def _delete(self, name):
        self.stage.delete("Pod", name)

    def _terminate(self, name):
        self.stage.delete("Pod", name, gracePeriodSeconds=600)

    def _unready(self, name):
        self.stage.set_ready(name, False)

    def _relabel(self, name):
        self.stage.patch("Pod", name, {"metadata": {"labels": {"app": "other"}}})

    def _fail(self, name):
        self.stage.patch("Pod", name, {"status": {"phase": "Failed"}}, "status")


class Requests(threading.Thread):
    """One request after the other until stop(); `answers` counts by status."""

    def __init__(self, address):
        super().__init__(daemon=True)
        self._address, self._stop_it = address, threading.Event()
        self.answers = {}
        self.start()

    def run(self):
        with Conn(self._address) as conn:
            while not self._stop_it.wait(0.005):
                conn.send(request_bytes("POST", "/v1/completions", {"model": "m-a", "prompt": str(random.random())}))
                status = conn.read_response().status
                self.answers[status] = self.answers.get(status, 0) + 1

    def stop(self):
        self._stop_it.set()
        self.join()


def test_500_pods_churn_while_requests_flow(stage):
    crowd, churn = Crowd(), Churn(stage)
    try:
        for number in range(STANDING):
            churn.come(number)
        stage.apply(world.model_server("ms-a", "crowd", port=Crowd.PORT, namespace=stage.namespace),
                    world.route("mr-a", "m-a", "ms-a", stage.namespace))
        router = stage.router(env={"METRICS_SCRAPE_INTERVAL": "5s"})
        stage.until_status(router, 200)
        senders = [Requests(router.address) for _ in range(4)]
        for number in range(STANDING, PODS):
            churn.come(number)
            churn.go(number - STANDING)
        time.sleep(GRACE + 0.5)
        for sender in senders:
            sender.stop()
        sent = {}
        for address, at in crowd.requests:
            sent[address] = max(at, sent.get(address, 0))
        late = {address: (how, round(sent[address] - at, 3)) for address, (at, how) in churn.left.items()
                if address in sent and sent[address] > at + GRACE}
        assert late == {}
        answers = {}
        for sender in senders:
            for status, count in sender.answers.items():
                answers[status] = answers.get(status, 0) + count
        assert set(answers) == {200} and answers[200] > 1000, answers
        assert len(churn.left) == PODS - STANDING
        # The new ones were used, too.
        assert len(sent) > PODS * 0.8
    finally:
        crowd.stop()
