"""The chart rolled out and upgraded under load: nothing is lost, nothing is cut."""

import pytest
from fleet import SMALL, ok
from support.cluster.load import Load
from support.helm import VALUES

MODEL = "deepseek-rollout"


@pytest.fixture(name="slow_engines", scope="module")
def _slow_engines(fleet):
    """Streams of theirs last for seconds."""
    fleet.add("slow-streams", 3, SMALL, arguments=["--decode-tokens-per-second=20"])
    fleet.wait("slow-streams", 3)
    fleet.target(MODEL, "slow-streams")
    yield
    fleet.clear_routes()
    fleet.remove("slow-streams")


def under_load(release, change, streams, tokens):
    """What Load saw while `change` replaced the router's only pod."""
    (before,) = release.pods()
    release.wait_serving()
    ok(release.address(), MODEL)
    load = Load(release.address(), MODEL, streams=streams, tokens=tokens, rate=40)
    try:
        load.wait_streams_open(streams)
        change()
        release.wait_available()
        assert before.done.wait(60), "the old pod is still there"
    finally:
        load.finish()
    assert load.failures == []
    assert load.streams_done == streams and load.short_done > 100
    assert before.last_code == 0, before.log()[-2000:]
    assert before not in release.pods()


def test_rollout_restart_under_load(release, slow_engines):
    """200 streams and short requests through the Service, while the pod is replaced."""
    under_load(release, release.restart, 200, 300)


def test_upgrade_with_the_values_of_an_existing_release(release, slow_engines):
    """The values file of kthena's chart, which also names its image: this node runs it by its name there."""
    under_load(release, lambda: release.upgrade("--values", VALUES / "existing-release.yaml"), 50, 200)
    (pod,) = release.pods()
    assert pod.pod["spec"]["containers"][0]["image"].startswith("ghcr.io/volcano-sh/kthena-router:")
