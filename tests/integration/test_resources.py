"""Resources as files (decisions 1), followed while running; StaticPods; the incarnation rule (3.8)."""

import os
import threading
import time

import pytest
from support import world
from support.engine import DONE_EVENT, Engine, answer, chunk, content_event, SSE_HEAD, LAST_CHUNK
from support.router import SLOW, Router, wait_for
from support.wire import Conn, request_bytes

LONG = "the quick brown fox jumps over the lazy dog. " * 40


def follow(made, text, name="world.yaml"):
    made.router.write_resource(name, text)


def test_a_folder_of_files_with_several_documents(stack):
    made = stack(resources=lambda s: {"a.yaml": world.model_server("ms-a", "a"),
                                      "b.yml": world.join(world.pod("a-1", s.ip(1), "a"),
                                                          world.route("mr-a", "m-a", "ms-a")),
                                      "notes.txt": "not yaml: ["})
    assert made.router.chat().status == 200


def test_a_single_file(stack):
    made = stack(start=False)
    made.router.command[1] = f"--resources={os.path.join(made.router.resource_dir, 'world.yaml')}"
    made.router.start()
    assert made.router.chat().status == 200
    made.router.write_resource("world.yaml", world.simple(made.slot) + "---\n" + world.route("mr-b", "m-b", "ms-a"))
    wait_for(lambda: made.router.chat("m-b").status == 200, 5, "the new route")


def test_namespace_defaults(stack):
    made = stack(resources=lambda s: world.simple(s).replace(", namespace: golden", "").replace(
        "  namespace: golden\n", ""))
    assert made.router.chat().status == 200
    assert made.router.wait_log()[0]["model_server"] == "default/ms-a"


def test_routes_come_and_go(stack):
    made = stack()
    assert made.router.chat("m-new").status == 404
    follow(made, world.route("mr-new", "m-new", "ms-a"), "new.yaml")
    wait_for(lambda: made.router.chat("m-new").status == 200, 5)
    made.router.remove_resource("new.yaml")
    wait_for(lambda: made.router.chat("m-new").status == 404, 5)


def test_a_broken_file_leaves_the_last_good_state(stack):
    made = stack()
    follow(made, "kind: [")
    made.router.wait_stderr("world.yaml")
    wait_for(lambda: [v for (n, _), v in made.router.metrics().items() if "reload" in n or "resource" in n], 5,
             "a metric that says so")
    assert made.router.chat().status == 200
    follow(made, world.simple(made.slot) + "---\n" + world.route("mr-b", "m-b", "ms-a"))
    wait_for(lambda: made.router.chat("m-b").status == 200, 5)


def test_symlink_swap_of_a_mounted_configmap(stack, tmp_path):
    """..data -> ..2026_x, files are links through it; the swap is one rename."""
    made = stack(start=False)
    first, second = tmp_path / "..1", tmp_path / "..2"
    first.mkdir()
    second.mkdir()
    (first / "world.yaml").write_text(world.simple(made.slot))
    (second / "world.yaml").write_text(world.simple(made.slot) + "---\n" + world.route("mr-b", "m-b", "ms-a"))
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "world.yaml").symlink_to("..data/world.yaml")
    made.router.command[1] = f"--resources={tmp_path}"
    made.router.start()
    assert made.router.chat("m-b").status == 404
    (tmp_path / "..data_tmp").symlink_to("..2")
    os.rename(tmp_path / "..data_tmp", tmp_path / "..data")
    wait_for(lambda: made.router.chat("m-b").status == 200, 5)


def test_no_request_is_lost_while_files_change(stack):
    made = stack(2)
    stop = threading.Event()
    bad = []

    def client():
        with Conn(made.router.address) as conn:
            while not stop.is_set():
                conn.send(request_bytes("POST", "/v1/completions", {"model": "m-a", "prompt": "x"}))
                response = conn.read_response()
                if response.status != 200:
                    bad.append(response)
                    return

    threads = [threading.Thread(target=client) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(8):
        extra = world.route(f"mr-{number}", f"m-{number}", "ms-a")
        follow(made, world.simple(made.slot, 2 if number % 2 else 1) + "---\n" + extra)
        wait_for(lambda n=number: made.router.chat(f"m-{n}").status == 200, 5)
    stop.set()
    for thread in threads:
        thread.join()
    assert not bad


def prefers(made, content, tries=4):
    """The pod that gets this prompt each time, or None."""
    names = set()
    for _ in range(tries):
        before = len(made.asked())
        assert made.router.chat(content=content).status == 200
        names.add(made.asked()[before:][-1])
    return names.pop() if len(names) == 1 else None


def warm(made, pod, content=LONG):
    """Sends the prompt until `pod` has it: the other engines refuse it meanwhile."""
    for engine in made.engines:
        engine.on_request = None if engine.name == pod else lambda _: answer("no", "503 X")
    assert made.router.chat(content=content).status == 200
    for engine in made.engines:
        engine.on_request = None
    made.router.wait_log(1)


def test_prefix_state_of_pods_that_stay_survives_an_edit(stack):
    made = stack(3)
    warm(made, "a-3")
    wait_for(lambda: prefers(made, LONG) == "a-3", 5, "affinity")
    follow(made, world.simple(made.slot, 3).replace("vLLM", "vLLM\n  trafficPolicy: {timeout: 30s}"))
    follow(made, world.route("mr-new", "m-new", "ms-a"), "new.yaml")
    wait_for(lambda: made.router.chat("m-new").status == 200, 5)
    assert prefers(made, LONG) == "a-3"
    entries = made.router.metric("kthena_router_prefix_cache_entries")
    assert entries > 0


def test_prefix_state_goes_with_the_pod(stack):
    made = stack(2)
    warm(made, "a-2")
    assert made.router.metric("kthena_router_prefix_cache_entries") > 0
    follow(made, world.simple(made.slot, 1))
    made.router.wait_metric("kthena_router_prefix_cache_entries", 0)
    made.router.wait_metric("kthena_router_prefix_cache_evictions_total", 0)
    follow(made, world.simple(made.slot, 2))
    wait_for(lambda: made.router.chat(content=f"{time.monotonic()}").status == 200, 5)
    assert made.router.metric("kthena_router_prefix_cache_entries") >= 0


def test_a_new_uid_is_a_new_incarnation(stack):
    def text(slot, uid):
        return world.join(world.model_server("ms-a", "a"), world.pod("a-1", slot.ip(1), "a", uid=uid),
                          world.route("mr-a", "m-a", "ms-a"))

    made = stack(resources=lambda s: text(s, "u1"))
    assert made.router.chat(content=LONG).status == 200
    wait_for(lambda: made.router.metric("kthena_router_prefix_cache_entries") > 0, 3)
    follow(made, text(made.slot, "u2"))
    made.router.wait_metric("kthena_router_prefix_cache_entries", 0)
    assert made.router.chat(content=LONG).status == 200


def test_nothing_is_recorded_for_an_incarnation_that_left(stack):
    gate = threading.Event()
    made = stack(1, answers=[[{"wait_for": gate}, *answer("late")]])
    got = []
    thread = threading.Thread(target=lambda: got.append(made.router.chat(content=LONG)))
    thread.start()
    made.engine.wait_requests(1)
    follow(made, world.join(world.model_server("ms-a", "a"), world.route("mr-a", "m-a", "ms-a")))
    wait_for(lambda: made.router.debug("/debug/config_dump/pods").json() == {"pods": None}, 5)
    gate.set()
    thread.join()
    assert got[0].text == "late"
    made.router.wait_log(1)
    assert made.router.metric("kthena_router_prefix_cache_entries") == 0


def test_a_pod_that_leaves_finishes_its_stream(stack):
    gate = threading.Event()
    made = stack(1, answers=[[{"send": SSE_HEAD}, chunk(content_event("a")), {"wait_for": gate}, chunk(DONE_EVENT),
                              LAST_CHUNK]])
    with made.router.connect() as conn:
        conn.send(request_bytes("POST", "/v1/chat/completions", {"model": "m-a", "stream": True, "messages": []}))
        conn.read_head()
        conn.read_event()
        follow(made, world.model_server("ms-a", "a"))
        wait_for(lambda: made.router.debug("/debug/config_dump/pods").json() == {"pods": None}, 5)
        gate.set()
        assert conn.read_event() == DONE_EVENT.encode() and conn.read_event() == b""


@pytest.mark.parametrize("change", [
    lambda s: world.pod("a-1", s.ip(1), "a", ready="False"),
    lambda s: world.pod("a-1", s.ip(1), "a", phase="Pending"),
    lambda s: world.pod("a-1", s.ip(1), "a", phase="Failed"),
    lambda s: world.pod("a-1", s.ip(1), "a", deleting=True),
    lambda s: world.pod("a-1", s.ip(1), "other"),
    lambda s: world.pod("a-1", s.ip(1), "a", namespace="elsewhere"),
])
def test_pods_that_are_not_routable(stack, change):
    made = stack(resources=lambda s: world.join(world.model_server("ms-a", "a"), change(s),
                                                world.route("mr-a", "m-a", "ms-a")))
    assert made.router.chat().status == 503


def test_pod_without_phase_and_conditions_counts_as_ready(stack):
    made = stack(resources=lambda s: world.join(
        world.model_server("ms-a", "a"), world.route("mr-a", "m-a", "ms-a"),
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: a-1, namespace: golden, labels: {{app: a}}}}\n"
        f"status: {{podIP: {s.ip(1)}}}\n"))
    assert made.router.chat().status == 200


def test_routes_without_timestamp_are_ordered_by_file_then_position(stack):
    made = stack(resources=lambda s: {
        "0.yaml": world.join(world.model_server("ms-a", "a", model="first"), world.model_server("ms-b", "a", model="b"),
                             world.pod("a-1", s.ip(1), "a")),
        "b.yaml": world.join(world.route("z", "m-a", "ms-a"), world.route("a", "m-a", "ms-b")),
        "c.yaml": world.route("c", "m-a", "ms-b")})
    for _ in range(3):
        assert made.router.chat().status == 200
        assert b'"first"' in made.engine.requests[-1].body


def test_unknown_fields_are_warnings_with_their_place(stack):
    made = stack(resources=lambda s: world.simple(s) + "  colour: red\n")
    assert made.router.chat().status == 200
    text = made.router.wait_stderr("colour")
    assert "world.yaml" in text


# StaticPods

def static(made_or_slot, *endpoints):
    return world.join(world.model_server("ms-a", "a", port=1), world.static_pods("box", "a", endpoints),
                      world.route("mr-a", "m-a", "ms-a"))


def test_static_pods_are_ready_from_the_start(stack):
    made = stack(2, resources=lambda s: static(s, f"{s.ip(1)}:8000", f"{s.ip(2)}:8000"))
    for number in range(10):
        assert made.router.chat(content=str(number)).status == 200
    names = {line["selected_pod"] for line in made.router.wait_log(10)}
    assert names <= {f"box-{made.slot.ip(n)}-8000" for n in (1, 2)}


def test_an_endpoint_without_port_uses_the_servers(stack):
    made = stack(resources=lambda s: world.join(world.model_server("ms-a", "a", port=8000),
                                                world.static_pods("box", "a", [s.ip(1)]),
                                                world.route("mr-a", "m-a", "ms-a")))
    assert made.router.chat().status == 200


def test_a_name_that_does_not_resolve_is_no_error(stack):
    made = stack(resources=lambda s: static(s, "no-such-host.invalid:8000", f"{s.ip(1)}:8000"))
    assert made.router.chat().status == 200


def test_names_are_looked_up(stack):
    engine = Engine("127.0.0.1", 0, answers=[answer("by name")])
    made = stack(0, resources=lambda s: static(s, f"localhost:{engine.address[1]}"))
    made.engines.append(engine)
    wait_for(lambda: made.router.chat().text == "by name", 5)


def test_static_pod_leaves_after_failed_connects_and_comes_back(stack):
    made = stack(2, resources=lambda s: static(s, f"{s.ip(1)}:8000", f"{s.ip(2)}:8000"),
                 env={"METRICS_SCRAPE_INTERVAL": "500ms"})
    dead = made.engines[0]
    dead.stop()

    def pods():
        body = made.router.debug("/debug/config_dump/namespaces/golden/modelservers/ms-a").json()
        return body.get("associatedPods", [])

    def leaves():
        assert made.router.chat(content=str(time.monotonic())).status == 200
        return len(pods()) == 1

    wait_for(leaves, 12, "the dead pod to leave", 0.1)
    dead.start()
    wait_for(lambda: len(pods()) == 2, 12, "the pod to come back", 0.1)
    wait_for(lambda: made.router.chat(content=str(time.monotonic())).status == 200 and dead.requests, 8)


def test_health_probes_take_a_static_pod_out(stack):
    made = stack(2, resources=lambda s: static(s, f"{s.ip(1)}:8000", f"{s.ip(2)}:8000"))
    made.engines[0].health = 404  # counts as alive
    made.engines[1].health = 503
    def gone():
        body = made.router.debug("/debug/config_dump/namespaces/golden/modelservers/ms-a").json()
        return body.get("associatedPods") == [f"golden/box-{made.slot.ip(1)}-8000"]
    wait_for(gone, 15, "the unhealthy pod to leave", 0.1)
    assert made.router.chat().status == 200


def test_reordering_endpoints_keeps_their_prefix_state(stack):
    made = stack(2, resources=lambda s: static(s, f"{s.ip(1)}:8000", f"{s.ip(2)}:8000"))
    warm(made, "a-2")
    entries = made.router.metric("kthena_router_prefix_cache_entries")
    assert entries > 0
    follow(made, static(made.slot, f"{made.slot.ip(2)}:8000", f"{made.slot.ip(1)}:8000") +
           "---\n" + world.route("mr-b", "m-b", "ms-a"))
    wait_for(lambda: made.router.chat("m-b").status == 200, 5)
    assert made.router.metric("kthena_router_prefix_cache_entries") >= entries
    assert prefers(made, LONG) == "a-2"


def test_engine_restart_is_a_new_incarnation(stack):
    made = stack(1, resources=lambda s: static(s, f"{s.ip(1)}:8000"), env={"METRICS_SCRAPE_INTERVAL": "200ms"})
    made.engine.extra_metrics = "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds 1000\n"
    made.engine.wait_scrapes(2)
    assert made.router.chat(content=LONG).status == 200
    wait_for(lambda: made.router.metric("kthena_router_prefix_cache_entries") > 0, 3)
    made.engine.extra_metrics = made.engine.extra_metrics.replace("1000", "2000")
    made.router.wait_metric("kthena_router_prefix_cache_entries", 0)


def test_config_changes_on_disk_are_said(stack):
    made = stack()
    with open(made.router.config_path, "a", encoding="utf-8") as file:
        file.write("# touched\nother: 1\n")
    made.router.wait_stderr("configuration changed on disk; restart to apply", 10)


def test_many_routes_and_pods_load(stack):
    text = [world.model_server("ms-a", "a")] + [world.route(f"mr-{n}", f"m-{n}", "ms-a") for n in range(1000)]
    made = stack(1, resources=lambda s: world.join(*text, world.pod("a-1", s.ip(1), "a")))
    assert time.monotonic() - made.router.started_at < 6 * SLOW
    assert made.router.chat("m-999").status == 200
    assert len(made.router.get("/v1/models").json()["data"]) == 1000


def test_empty_folder(stack):
    with Router("") as router:
        assert router.get("/v1/models").json() == {"object": "list", "data": []}
        assert router.chat().status == 404
