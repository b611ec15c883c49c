"""Groups of prefill and decode pods: pairs, changes while running, prefix affinity, the threshold; and scenarios 3 to 5
of the project's end-to-end tests with mock engines in both roles of every connector."""

import json
import subprocess
import threading

import pytest
from support import router as routers
from support.engine import Engine, answer, chat, content_event, stream
from support.pd import CONNECTORS, pod, route, server, text
from support.router import MOCK_ENGINE, Router, wait_for
from support.slots import Slot
from support.wire import exchange, request_bytes

PREFIX_ONLY = """\
scheduler:
  pluginConfig:
  - name: prefix-cache
    args: {blockSizeToHash: 16}
  plugins:
    Score:
      enabled:
      - {name: prefix-cache, weight: 1}
"""
LONG = " ".join(f"word{n}" for n in range(60))


# Scheduling

def test_pairs_never_cross_groups(pairs):
    made = pairs("nixl", ((2, 2), (2, 2), (1, 3)))
    for number in range(30):
        made.forget()
        assert made.chat(f"prompt {number}").status == 200
        prefill, decode = made.asked()
        assert (prefill[0], decode[0]) == ("p", "d")
        assert prefill[1] == decode[1]


def test_decode_pods_without_a_prefill_pod_take_no_place(pairs):
    made = pairs("http", ((0, 6), (1, 1)))
    assert made.chat().status == 200
    assert made.asked() == ["p2a", "d2a"]


@pytest.mark.parametrize("groups, message", [
    (((1, 0),), "no decode pod found"), (((0, 1),), "no valid prefill-decode pod pairs found"),
    (((1, 0), (0, 1)), "no valid prefill-decode pod pairs found")])
def test_what_is_missing_is_said(pairs, groups, message):
    made = pairs("http", groups)
    response = made.chat()
    assert (response.status, response.error["code"]) == (503, "scheduling")
    assert response.error["message"] == "can't schedule to target pod: " + message
    assert made.asked() == []


def test_the_other_prefill_pod_of_a_group_takes_over(pairs):
    made = pairs("http", ((2, 1),))
    made.p1a.stop()
    assert made.chat().status == 200
    assert made.asked() == ["p1b", "d1a"]
    assert made.log()["prefill_pod"] == "p1b"


def test_retry_attempts_limit_the_pairs(pairs):
    made = pairs("http", ((1, 1), (1, 1), (1, 1)), trafficPolicy={"retry": {"attempts": 1, "retryInterval": "10ms"}})
    for name in ("d1a", "d2a", "d3a"):
        made.engines[name].answers = [answer("no", "503 X")]
    assert made.chat().status == 503
    assert made.asked() == ["p1a", "d1a", "p2a", "d2a"]


def test_both_pods_are_remembered_for_the_prefix(pairs):
    made = pairs("http", ((2, 2), (2, 2)), config=PREFIX_ONLY)
    assert made.chat(LONG).status == 200
    first = made.asked()
    for _ in range(10):
        made.forget()
        assert made.chat(LONG).status == 200
        assert made.asked() == first


# Groups while running

def test_roles_are_explained_apart(pairs):
    made = pairs("http", ((1, 1), (1, 1)))
    for name in ("d1a", "d2a"):
        made.engines[name].answers = [chat("decoded")]
    made.chat("x" * 2000)
    body = {"model": "m", "messages": [{"role": "user", "content": "x" * 2000}]}
    request = request_bytes("POST", "/debug/explain", body)
    said = exchange(made.router.debug_address, request, "POST").json()
    assert "plugins" not in said
    for role, warm in (("prefill", "p1a"), ("decode", "d1a")):
        pods = {pod["pod"]: pod for pod in said[f"{role}Plugins"]["prefix-cache"]["pods"]}
        assert set(pods) == {f"golden/{role[0]}{number}a" for number in "12"}
        assert (pods[f"golden/{warm}"]["score"], pods[f"golden/{warm}"]["topKPosition"]) == (100, 1)


def test_pods_join_change_and_leave_groups(pairs):
    made = pairs("http", ((1, 1),))
    assert made.chat().status == 200
    made.add("p2a", "g2", "prefill")
    made.add("d2a", "g2", "decode")
    for name in ("p1a", "d1a"):
        del made.pods[name]
    made.rewrite()
    wait_for(lambda: (made.forget(), made.chat(), made.asked())[2] == ["p2a", "d2a"], 10, "the new group")
    made.forget()
    # the decode pod changes its group: there is no pair any more, and none with its old partner
    made.pods["d2a"] = pod("d2a", made.d2a.address[0], "g3", "decode")
    made.rewrite()
    wait_for(lambda: made.chat().status == 503, 10, "no pair")
    # its partner follows
    made.pods["p2a"] = pod("p2a", made.p2a.address[0], "g3", "prefill")
    made.rewrite()
    wait_for(lambda: made.chat().status == 200, 10, "the moved pair")
    # roles are swapped
    made.pods["d2a"] = pod("d2a", made.d2a.address[0], "g3", "prefill")
    made.pods["p2a"] = pod("p2a", made.p2a.address[0], "g3", "decode")
    made.rewrite()
    wait_for(lambda: (made.forget(), made.chat(), made.asked())[2] == ["d2a", "p2a"], 10, "swapped roles")
    made.assert_settled()


def test_requests_under_way_keep_their_pods(pairs):
    made = pairs("http", ((1, 1),))
    gate = threading.Event()
    made.d1a.answers = [stream([content_event("one")], end=False) + [{"wait_for": gate}] +
                        stream([content_event("two")])[1:], chat()]
    with made.router.connect() as conn:
        conn.send(request_bytes("POST", "/v1/chat/completions",
                                '{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}]}'))
        made.d1a.wait_requests(1)
        for name in ("p1a", "d1a"):
            del made.pods[name]
        made.rewrite()
        wait_for(lambda: made.chat().status == 503, 10, "an empty server")
        gate.set()
        response = conn.read_response("POST")
    assert (response.status, response.ended) == (200, "complete")
    assert content_event("two") in response.text
    made.assert_settled()


# The threshold

def alone(made, content):
    made.forget()
    assert made.chat(content).status == 200
    return made.asked() == ["d1a"]


@pytest.mark.parametrize("connector", ["http", "lmcache", "nixl", "mooncake"])
def test_decode_pod_that_holds_the_prompt_works_alone(pairs, connector):
    made = pairs(connector, ((1, 1),), config=PREFIX_ONLY + "pdThresholdTokens: 20\n")
    made.d1a.answers = [chat("decoded")]
    assert not alone(made, LONG)  # nobody has it yet
    assert alone(made, LONG)
    assert sorted("prefill_pod" in line for line in made.router.wait_log(2)) == [False, True]
    assert alone(made, LONG + " and a little more")
    assert not alone(made, LONG + " " + LONG)  # more than the threshold is missing
    assert made.router.metric("warmroute_pd_decode_alone_total") == 2
    body = json.loads(made.d1a.requests[0].body)
    assert "max_tokens" not in body
    made.assert_settled()


def test_failed_decode_alone_tries_the_next_pair(pairs):
    made = pairs("http", ((1, 1), (1, 1)), config=PREFIX_ONLY + "pdThresholdTokens: 20\n")
    assert made.chat(LONG).status == 200
    first = made.asked()[-1]
    made.engines[first].answers = [answer("no", "503 X")]
    made.forget()
    assert made.chat(LONG).status == 200
    other = {"d1a": ["p2a", "d2a"], "d2a": ["p1a", "d1a"]}[first]
    assert made.asked() == [first, *other]


def test_threshold_is_off_by_default_and_never_for_sglang(pairs):
    made = pairs("http", ((1, 1),), config=PREFIX_ONLY)
    assert not alone(made, LONG) and not alone(made, LONG)
    other = pairs("sglang", ((1, 1),), config=PREFIX_ONLY + "pdThresholdTokens: 1000\n")
    assert not alone(other, LONG) and not alone(other, LONG)


def test_check_accepts_groups_and_the_threshold(tmp_path):
    resources, config = tmp_path / "r.yaml", tmp_path / "c.yaml"
    resources.write_text(text([server("nixl"), pod("p", "127.0.0.1", "g", "prefill"), route()]), encoding="utf-8")
    config.write_text(PREFIX_ONLY + "pdThresholdTokens: 64\n", encoding="utf-8")
    code, out, err = routers.run_binary("--check", f"--resources={resources}", f"--config={config}")
    assert (code, err) == (0, ""), out
    config.write_text(PREFIX_ONLY + "pdThresholdTokens: many\n", encoding="utf-8")
    assert routers.run_binary("--check", f"--resources={resources}", f"--config={config}")[0] != 0


# Mock engines in both roles

class Cell:
    """Mock engines of a connector, two of each role in one group, and the router."""

    def __init__(self, connector, labels=None, extra_pods=(), roles=None, selector=None):
        self.slot = Slot()
        self.processes, pods = {}, list(extra_pods(self.slot) if extra_pods else [])
        dialect = "sglang" if connector == "sglang" else "vllm"
        for number, (name, role) in enumerate((("p1", "prefill"), ("p2", "prefill"), ("d1", "decode"),
                                               ("d2", "decode")), 1):
            ip = self.slot.ip(number)
            self.processes[name] = subprocess.Popen(
                [MOCK_ENGINE, "--bind", ip, "--port", "8000", "--name", name, "--model", "real-pd", "--engine", dialect,
                 "--pd-role", role, "--pd-connector", connector], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                text=True)
            assert self.processes[name].stdout.readline().startswith("listening on")
            pods.append(pod(name, ip, "group-0", role, extra=labels))
        self.ips = {name: self.slot.ip(n) for n, name in enumerate(self.processes, 1)}
        self.router = Router(text([server(connector, roles=roles, selector=selector), *pods, route()]), slot=self.slot)

    def state(self, name):
        return exchange((self.ips[name], 8000), request_bytes("GET", "/control"), "GET").json()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            self.router.stop(check=kind is None)
        finally:
            errors = {}
            for name, process in self.processes.items():
                process.terminate()
                errors[name] = process.communicate(timeout=10)[1]
            self.slot.release()
            if kind is None:
                assert errors == {name: "" for name in errors}


def ok(cell, **members):
    response = cell.router.chat("m", "hello", max_tokens=16, **members)
    assert response.status == 200, response
    assert "error" not in response.text.lower()
    return response


def test_scenario_3_pd_vllm():
    with Cell("http") as cell:
        ok(cell, stream=False)
        line = cell.router.wait_log()[0]
        assert (line["prefill_pod"][0], line["selected_pod"][0]) == ("p", "d")


def test_scenario_4_pd_multi_node():
    """Workers carry the role's labels but not the entry's; they are plain web servers and must never be asked."""
    entry = {"modelserving.volcano.sh/entry": "true"}
    workers = []

    def extra(slot):
        for number, role in enumerate(("prefill", "decode"), 50):
            workers.append(Engine(slot.ip(number), answers=[answer("nginx", "200 OK", "text/html")], name=f"w{number}"))
        return [pod(w.name, w.address[0], "group-0", role) for w, role in zip(workers, ("prefill", "decode"))]

    with Cell("http", labels=entry, extra_pods=extra, roles=entry, selector={"app": "x", **entry}) as cell:
        for _ in range(10):
            ok(cell, stream=False)
        assert [w.requests for w in workers] == [[], []]
    for worker in workers:
        worker.stop()


def test_scenario_5_pd_sglang():
    with Cell("sglang") as cell:
        ok(cell, stream=False)
        line = cell.router.wait_log()[0]
        assert (line["prefill_pod"][0], line["selected_pod"][0]) == ("p", "d")


@pytest.mark.parametrize("connector", CONNECTORS)
def test_mock_engines_play_both_roles(connector):
    with Cell(connector) as cell:
        for number in range(4):
            ok(cell, stream=number % 2 == 1)
        answers = [cell.router.chat("m", f"other {n}", max_tokens=3).json() for n in range(4)]
        assert [a["usage"]["completion_tokens"] for a in answers] == [3] * 4
        states = {name: cell.state(name) for name in cell.processes}
        assert sum(states[n]["finished"] for n in ("p1", "p2")) == sum(states[n]["finished"] for n in ("d1", "d2")) == 8
        assert all(s["protocol_errors"] == 0 and s["in_flight"] == 0 for s in states.values())


@pytest.mark.parametrize("connector", CONNECTORS)
def test_mock_engines_refuse_what_breaks_the_protocol(connector):
    """Without a router in between: an ordinary request is no prefill request, a made-up one no decode request."""
    with Cell(connector) as cell:
        body = {"model": "real-pd", "messages": [{"role": "user", "content": "x"}]}
        refused = exchange((cell.ips["p1"], 8000), request_bytes("POST", "/v1/chat/completions", body), "POST")
        assert (refused.status, "protocol error" in refused.text) == (400, True)
        body["kv_transfer_params"] = {"do_remote_prefill": True, "remote_engine_id": "p1", "seal": 1 << 63}
        refused = exchange((cell.ips["d1"], 8000), request_bytes("POST", "/v1/chat/completions", body), "POST")
        assert (refused.status, "protocol error" in refused.text) == (400, True)
        for name in ("p1", "d1"):
            assert cell.state(name)["protocol_errors"] == 1
            cell.processes[name].terminate()
            assert "protocol error" in cell.processes[name].communicate(timeout=10)[1]
            cell.processes.pop(name)
