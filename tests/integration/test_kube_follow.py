"""A cluster is followed: objects come, change and go, seen through the router's own port."""

import re
import time

from support import engine, fake_kube, router
from support.kube_cluster import Cluster
from support.router import run_binary, wait_for


def test_objects_come_change_and_go(cluster):
    made = cluster()
    assert made.status() == 200
    made.kube.put("modelroutes", fake_kube.route("mr-b", "m-b", "ms-a"))
    made.wait_status(200, "m-b")
    made.kube.edit("modelroutes", "mr-b", lambda o: o["spec"].update(modelName="m-c"))
    made.wait_status(200, "m-c")
    assert made.status("m-b") == 404
    made.kube.delete("modelroutes", "mr-b")
    made.wait_status(404, "m-c")
    made.kube.delete("modelservers", "ms-a")
    made.wait_status(404)
    made.kube.put("modelservers", fake_kube.model_server("ms-a", "a"))
    made.wait_status(200)


def test_readiness_waits_for_the_whole_state(cluster):
    made = cluster(start=False)
    made.kube.fail = lambda verb, kind, query: (500, "InternalError") if kind == "pods" else None
    made.router.start(wait_ready=False)
    wait_for(lambda: made.kube.count(kind="pods") >= 2, 5, "pods asked for")
    assert made.router.get("/healthz").status == 200
    assert made.router.get("/readyz").status == 503
    assert made.router.metric("warmroute_kube_synced") == 0
    made.kube.fail = None
    wait_for(lambda: made.router.get("/readyz").status == 200, 10, "ready")
    assert made.status() == 200
    made.router.wait_metric("warmroute_kube_synced", 1)
    made.router.wait_metric("warmroute_kube_watches", 3)


def test_a_pod_serves_only_while_it_is_ready(cluster):
    made = cluster(2)
    made.wait_members(["a-1", "a-2"])
    set_ready = lambda value: lambda o: o["status"]["conditions"][0].update(status=value)
    made.kube.edit("pods", "a-1", set_ready("False"))
    made.wait_members(["a-2"])
    made.kube.edit("pods", "a-1", set_ready("True"))
    made.wait_members(["a-1", "a-2"])
    made.kube.edit("pods", "a-1", lambda o: o["metadata"].update(deletionTimestamp="2026-01-01T00:00:00Z"))
    made.wait_members(["a-2"])
    made.kube.delete("pods", "a-1")
    # evicted: the phase is Failed, and the address is gone
    made.kube.edit("pods", "a-2", lambda o: (o["status"].update(phase="Failed", reason="Evicted"),
                                             o["status"].pop("podIP"))[0])
    made.wait_members([])
    made.wait_status(503)
    made.kube.put("pods", fake_kube.pod("a-3", made.slot.ip(1), "a"))  # another name, the same address
    made.wait_members(["a-3"])
    made.wait_status(200)


def test_a_pod_created_again_under_its_name_is_another_one(cluster):
    made = cluster()
    assert made.status() == 200
    made.kube.put("pods", fake_kube.pod("a-1", made.slot.ip(2), "a", uid="second"))
    second = engine.Engine(made.slot.ip(2), answers=[engine.chat("second")])
    made.engines.append(second)
    wait_for(lambda: "second" in made.router.chat().text, 3, "answers of the second pod")
    made.kube.delete("pods", "a-1")
    made.kube.put("pods", fake_kube.pod("a-1", made.slot.ip(1), "a", uid="third"))
    wait_for(lambda: "from a-1" in made.router.chat().text, 3, "answers of the third pod")


def test_a_relabelled_pod_moves(cluster):
    made = cluster(2)
    made.kube.put("modelservers", fake_kube.model_server("ms-b", "b"))
    made.wait_members(["a-1", "a-2"])
    made.kube.edit("pods", "a-1", lambda o: o["metadata"]["labels"].update(app="b"))
    made.wait_members(["a-2"])
    made.wait_members(["a-1"], "ms-b")
    made.kube.edit("pods", "a-1", lambda o: o["metadata"]["labels"].update(app="nobody"))
    made.wait_members([], "ms-b")
    assert made.members() == ["a-2"]


def test_a_selector_that_changes_moves_its_watch_and_loses_no_request(cluster):
    made = cluster(2)
    made.kube.edit("pods", "a-1", lambda o: o["metadata"]["labels"].update(tier="gold"))
    made.wait_members(["a-1", "a-2"])
    made.kube.list_delay = 0.5  # the new list takes its time; the pod that both select serves on
    made.kube.edit("modelservers", "ms-a",
                   lambda o: o["spec"]["workloadSelector"].update(matchLabels={"tier": "gold"}))
    wait_for(lambda: made.status() == 200 and made.members() == ["a-1"], 3, "the narrower selector")
    for _ in range(20):
        assert made.status() == 200
    made.kube.list_delay = 0
    wait_for(lambda: any(q.get("labelSelector") == "tier=gold" for v, _, q in made.kube.requests if v == "watch"), 5,
             "the new watch")
    made.router.wait_metric("warmroute_kube_watches", 3)
    wait_for(lambda: made.kube.streams == 3, 5, "the old watch's end")


def test_only_what_is_selected_is_asked_for(cluster):
    made = cluster()
    made.kube.put("modelservers", fake_kube.model_server("narrow", "", labels={"app": "a", "role": "x"}))
    made.kube.put("modelservers", fake_kube.model_server("same", "a"))
    made.kube.put("modelservers", fake_kube.model_server("far", "a", namespace="other"))
    made.router.wait_metric("warmroute_kube_watches_connected", 4)
    asked = {query.get("labelSelector") for _, kind, query in made.kube.requests if kind == "pods"}
    assert asked == {"app=a"}
    assert made.kube.streams == 4  # routes, servers, pods of two namespaces
    assert made.kube.count(kind="secrets") == 0


def test_many_selectors_of_a_namespace_share_a_watch(cluster):
    """And the start is not held up by the limit of requests a second."""
    made = cluster(start=False)
    for number in range(60):
        made.kube.put("modelservers", fake_kube.model_server(f"s-{number}", f"app-{number}"))
        made.kube.put("modelroutes", fake_kube.route(f"r-{number}", f"m-{number}", f"s-{number}"))
    made.kube.put("pods", fake_kube.pod("p-7", made.slot.ip(1), "app-7"))
    begun = time.monotonic()
    made.router.start()
    assert time.monotonic() - begun < 5 * router.SLOW
    made.router.wait_metric("warmroute_kube_watches_connected", 3)
    assert made.status() == 200 and made.status("m-7") == 200
    made.kube.list_delay = 0.3
    made.kube.put("pods", fake_kube.pod("p-x", made.slot.ip(1), "app-x"))
    made.kube.put("modelservers", fake_kube.model_server("s-x", "app-x"))
    made.kube.put("modelroutes", fake_kube.route("r-x", "m-x", "s-x"))
    wait_for(lambda: made.status("m-7") == 200 and made.status("m-x") == 200, 5, "the new server")
    assert made.members("s-7") == ["p-7"]  # while the list that holds both was read, and after
    made.router.wait_metric("warmroute_kube_watches", 3)


def test_an_object_that_cannot_be_used_keeps_its_last_version(cluster):
    made = cluster()
    made.kube.edit("modelservers", "ms-a", lambda o: o["spec"]["workloadPort"].update(port=70000))
    made.router.wait_stderr("ModelServer golden/ms-a: spec.workloadPort.port: must be between 1 and 65535, got 70000")
    assert made.router.metric("warmroute_kube_rejected_objects_total") == 1
    assert made.status() == 200
    made.kube.delete("modelservers", "ms-a")
    made.wait_status(404)


def test_ipv6_api_server_and_pod_address(starter):
    class Six(Cluster):
        def __init__(self):
            super().__init__(0, fill=False, start=False)
            self.kube.stop()
            self.kube = fake_kube.FakeKube(("::1", 0))
            self.write_kubeconfig()
            self.engines.append(engine.Engine("::1", 0, [engine.chat("six")]))
            self.kube.put("modelservers", fake_kube.model_server("ms-a", "a", self.engines[0].address[1]))
            self.kube.put("modelroutes", fake_kube.route("mr-a", "m-a", "ms-a"))
            self.kube.put("pods", fake_kube.pod("a-1", "::1", "a"))
            self.router.start()

    made = starter(Six)()
    assert "six" in made.router.chat().text


def test_without_anything_to_follow_the_start_ends_with_one_sentence(tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text(router.DEFAULT_CONFIG)
    common = (f"--config={config}", "--port=0", "--metrics-port=1", "--enable-webhook=false")
    code, _, err = run_binary(*common, env={"HOME": str(tmp_path)})
    assert code == 255
    assert re.search(r"nothing to follow: give --resources PATH .* run in a cluster, .* --kubeconfig", err)
    code, _, err = run_binary(*common, "--kubeconfig=/nonexistent")
    assert code == 255 and "kubeconfig /nonexistent: No such file or directory" in err


def test_check_reads_the_kubeconfig(tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text(router.DEFAULT_CONFIG)
    good = fake_kube.kubeconfig(tmp_path, "https://127.0.0.1:6443", {"token": "t"})
    code, out, _ = run_binary("--check", f"--config={config}", f"--kubeconfig={good}")
    assert (code, out) == (0, "configuration and resources are valid\n")
    bad = fake_kube.kubeconfig(tmp_path, "ftp://127.0.0.1", {"token": "secret-token"})
    code, _, err = run_binary("--check", f"--config={config}", f"--kubeconfig={bad}")
    assert code == 1
    assert "clusters[0].cluster.server: server ftp://127.0.0.1: must begin with https:// or http://" in err
    assert "secret-token" not in err
