"""Objects written through the API and what the router makes of them, beyond the recorded dynamics."""

import pytest
from support import world
from support.cluster.control_plane import kubectl
from support.cluster.network import run
from support.cluster.stage import Stage, clear
from support.engine import Engine, chat
from support.router import wait_for

NAMESPACE = "follow"


@pytest.fixture(name="stage")
def _stage(plane, crds):
    stage = Stage(plane, NAMESPACE)
    yield stage
    stage.close()


def served_by(stage, router, last, timeout=5.0, model="m-a"):
    """Requests until one reaches that engine."""
    engine, number = stage.engines[last], iter(range(100000))

    def check():
        before = len(engine.requests)
        return router.chat(model, f"{next(number)}").status == 200 and len(engine.requests) > before
    wait_for(check, timeout, f"an answer of engine {last}", 0.02)


def never_served_by(stage, router, last, model="m-a"):
    before = len(stage.engines[last].requests)
    for number in range(30):
        assert router.chat(model, f"{number}").status == 200
    assert len(stage.engines[last].requests) == before


def test_kubectl_applies_and_deletes(stage):
    """What a person types: one apply, one delete."""
    router = stage.router()
    stage.engine(1)
    text = world.join(world.model_server("ms-a", "a", model="real-a", namespace=NAMESPACE),
                      world.route("mr-a", "m-a", "ms-a", NAMESPACE))
    stage.apply(world.pod("a-1", stage.slot.ip(1), "a", NAMESPACE))
    assert router.chat().status == 404
    kubectl(stage.plane, "apply", "-f", "-", data=text)
    stage.until_status(router, 200)
    kubectl(stage.plane, "delete", "-f", "-", data=text)
    stage.until_status(router, 404)


def test_selector_changes(stage):
    stage.simple()
    stage.engine(2)
    stage.apply(world.pod("b-2", stage.slot.ip(2), "b", NAMESPACE))
    router = stage.router()
    stage.until_status(router, 200)
    stage.patch("ModelServer", "ms-a", {"spec": {"workloadSelector": {"matchLabels": {"app": "b"}}}})
    served_by(stage, router, 2)
    wait_for(lambda: served_only(stage, router, 2), 5, "engine 1 out of rotation")
    stage.patch("ModelServer", "ms-a", {"spec": {"workloadSelector": {"matchLabels": {"app": "a"}}}})
    served_by(stage, router, 1)


def served_only(stage, router, last):
    others = {n: len(e.requests) for n, e in stage.engines.items() if n != last}
    for number in range(10):
        router.chat(content=str(number))
    return others == {n: len(e.requests) for n, e in stage.engines.items() if n != last}


def test_pod_relabelled_into_the_selection(stage):
    stage.simple()
    stage.engine(2)
    stage.apply(world.pod("late", stage.slot.ip(2), "other", NAMESPACE))
    router = stage.router()
    stage.until_status(router, 200)
    never_served_by(stage, router, 2)
    stage.patch("Pod", "late", {"metadata": {"labels": {"app": "a"}}})
    served_by(stage, router, 2)


def test_recreated_under_the_same_name_and_address(stage):
    """Another UID is another pod: what the prefix index knew of the old one is gone with it."""
    stage.simple()
    router = stage.router()
    stage.until_status(router, 200)
    router.chat(content="a prompt that is long enough to fill a block of sixty-four bytes, and then some")
    entries = "kthena_router_prefix_cache_entries"
    wait_for(lambda: router.metric(entries) > 0, 5, "something recorded")
    stage.delete("Pod", "a-1")
    stage.apply(world.pod("a-1", stage.slot.ip(1), "a", NAMESPACE))
    wait_for(lambda: router.metric(entries) == 0, 5, "nothing recorded")
    stage.until_status(router, 200)


def test_evicted_without_address(stage):
    """The node's eviction leaves a Failed pod behind that has no address any more."""
    stage.simple(2)
    router = stage.router()
    served_by(stage, router, 1)
    stage.patch("Pod", "a-1", {"status": {"phase": "Failed", "reason": "Evicted", "podIP": None, "podIPs": None,
                                          "conditions": None}}, "status")
    wait_for(lambda: served_only(stage, router, 2), 5, "the evicted pod out of rotation")
    never_served_by(stage, router, 1)


def test_namespaces_are_apart(stage, plane):
    """The same names and labels in another namespace are other pods; a whole namespace may go."""
    other = Stage(plane, "follow-other")
    try:
        stage.simple()
        other.engine(1)
        other.apply(world.pod("a-1", other.slot.ip(1), "a", other.namespace),
                    world.model_server("ms-a", "a", model="real-a", namespace=other.namespace),
                    world.route("mr-a", "m-other", "ms-a", other.namespace))
        router = stage.router()
        stage.until_status(router, 200)
        assert router.chat("m-other").status == 200
        assert len(other.engines[1].requests) == 1
        clear(plane.api, other.namespace)
        stage.until_status(router, 404, model="m-other")
        assert router.chat().status == 200
    finally:
        other.close()


def test_ipv6_pod(stage):
    run("ip", "address", "replace", "fd00:77::1/128", "dev", "lo", "nodad")
    engine = Engine("fd00:77::1", 8000, answers=[chat()], name="six")
    stage.engines[6] = engine
    try:
        stage.apply(world.pod("six", '"fd00:77::1"', "six", NAMESPACE),
                    world.model_server("ms-six", "six", model="real", namespace=NAMESPACE),
                    world.route("mr-six", "m-six", "ms-six", NAMESPACE))
        router = stage.router()
        stage.until_status(router, 200, model="m-six")
        assert engine.requests
    finally:
        run("ip", "address", "delete", "fd00:77::1/128", "dev", "lo", check=False)


def test_pods_of_others_are_not_watched(stage):
    """They are not even watched: only what a ModelServer selects is."""
    stage.simple()
    router = stage.router()
    stage.until_status(router, 200)
    events = router.metric("warmroute_kube_events_total")
    for number in range(200):
        stage.apply(world.pod(f"other-{number}", f"10.9.0.{1 + number}", "not-ours", NAMESPACE))
    stage.set_ready("a-1", False)
    stage.until_status(router, 503)
    assert router.metric("warmroute_kube_events_total") - events < 20
