"""The steps of http/dynamics.jsonl: what a running router does when its world changes.

Each record has a function of its name below, which does the recorded steps and checks what they observed; where
warmroute answers differently, the entry in deviations/http.yaml (dynamics) holds our values. Stage changes the world by
editing resource files; tests/cluster has one that changes it through an API server.
"""

import json
import os
import re
import signal
import socket
import threading
import time

import http_replay
import yaml
from support.engine import Engine, chat, chunk, content_event, DONE_EVENT, LAST_CHUNK, SSE_HEAD, vllm_metrics
from support.router import SLOW, Router, run_binary, wait_for
from support.slots import Slot
from support.wire import Conn, request_bytes

RECORDS = {r["name"]: r for r in http_replay.load("dynamics.jsonl")}
with open(os.path.join(http_replay.HERE, "deviations/http.yaml"), encoding="utf-8") as _file:
    _DEVIATIONS = yaml.safe_load(_file)
ENTRIES = {e["id"]: e for e in _DEVIATIONS["dynamics"]}
SKIPS = [s for s in _DEVIATIONS["skips"] if s["file"] == "dynamics"]
SKIPPED = {name for s in SKIPS for name in s["ids"]}
EVENT_GAP_MS = 60
FOLLOW = 5.0  # seconds within which an edited file must have its effect
STEPS = {}


def steps(function):
    STEPS[function.__name__.replace("_", "-")] = function
    return function


def stream_script():
    out = [{"send": SSE_HEAD}]
    for number in range(15):
        out += [chunk(content_event(str(number))), {"wait_ms": EVENT_GAP_MS}]
    return out + [chunk(DONE_EVENT), LAST_CHUNK]


class Stage:
    """One record with its own addresses: files, engines, router."""

    def __init__(self, name, slot):
        self.name, self.slot = name, slot
        self.record = http_replay.rewrite(RECORDS[name], slot)
        self.entry = json.loads(json.dumps(ENTRIES.get(name)).replace("127.0.1.", slot.prefix))
        self.objects = {}
        for text in self.record["world"]:
            doc = yaml.safe_load(text)
            self.objects[doc["metadata"]["name"]] = doc
        self.engines = {}
        self.router = None
        self.slow_answers = False

    def close(self):
        for engine in self.engines.values():
            engine.stop()

    def engine(self, last, **kw):
        ip = self.slot.ip(last)
        self.engines[ip] = Engine(ip, 8000, answers=[chat()], name=ip, on_request=self._script, **kw)
        return self.engines[ip]

    def _script(self, seen):
        if seen.body and json.loads(seen.body).get("stream") is True:
            return stream_script()
        return [{"wait_ms": 1000}, *chat()] if self.slow_answers else None

    def start(self, engines=(1,), objects=None, env=None, **kw):
        for last in engines:
            self.engine(last, metrics=vllm_metrics(kv=last / 100))
        files = {f"{n}.yaml": yaml.safe_dump(self.objects[n]) for n in (self.objects if objects is None else objects)}
        spec = self.record["router"]
        self.router = Router(files, http_replay.config_text(spec), ["--compat=kthena", *spec["flags"]],
                             {"METRICS_SCRAPE_INTERVAL": "1s", **spec["env"], **(env or {})}, slot=self.slot, **kw)
        return self.router

    def observed(self, step):
        return self.record["steps"][step]["observed"]

    def put(self, name, change=None):
        doc = self.objects[name]
        if change:
            change(doc)
        self.router.write_resource(f"{name}.yaml", yaml.safe_dump(doc))

    def remove(self, name):
        self.router.remove_resource(f"{name}.yaml")

    def terminate(self, name):
        """The pod is being deleted and still there."""
        self.put(name, lambda d: d["metadata"].update(deletionTimestamp="2026-01-01T00:00:00Z"))

    def replace(self, name, last):
        """The pod is deleted and made again under its name with another address."""
        ip = self.slot.ip(last)
        self.put(name, lambda d: d["status"].update(podIP=ip, podIPs=[{"ip": ip}]))

    def request(self, model="m-a", content="hello"):
        before = {ip: len(e.requests) for ip, e in self.engines.items()}
        answer = self.router.chat(model, content)
        asked = [ip for ip, e in self.engines.items() if len(e.requests) > before[ip]]
        return {"status": answer.status, "body": answer.text, "engine": asked[-1] if asked else None,
                "ended": answer.ended}

    def until(self, good, timeout=FOLLOW, **kw):
        last = {}

        def check():
            last.update(self.request(**kw))
            return good(last)

        try:
            wait_for(check, timeout, "the expected answer", 0.02)
        except AssertionError:
            raise AssertionError(f"last answer {last}") from None
        return last

    def check(self, got, wanted):
        if "answer" in wanted:
            wanted = wanted["answer"]
        for key in ("status", "engine", "ended"):
            assert got[key] == wanted[key], (key, got, wanted)
        if wanted["body"] != "<engine answer>":
            assert got["body"] == wanted["body"]

    def until_observed(self, step, **kw):
        """Requests until one is as recorded."""
        wanted = self.observed(step)["answer"]
        got = self.until(lambda a: a["status"] == wanted["status"] and a["engine"] == wanted["engine"]
                         and wanted["body"] in ("<engine answer>", a["body"]), **kw)
        self.check(got, wanted)


class Stream:
    """A stream in the background, with three events read before the constructor returns."""

    def __init__(self, stage):
        self.conn = Conn(stage.router.address)
        self.conn.send(request_bytes("POST", "/v1/chat/completions",
                                     {"model": "m-a", "stream": True,
                                      "messages": [{"role": "user", "content": "stream"}]}))
        self.status = int(self.conn.read_head()[0].split(" ")[1])
        self.events = [self.conn.read_event() for _ in range(3)]

    def finish(self):
        ended = "complete"
        try:
            while (event := self.conn.read_event()) != b"":
                self.events.append(event)
        except Exception:  # pylint: disable=broad-except
            ended = "truncated"
        self.conn.close()
        return {"status": self.status, "ended": ended, "events": len(self.events),
                "has_done": any(b"[DONE]" in e for e in self.events)}


def check_stream(stream, wanted):
    got = stream.finish()
    for key in ("status", "ended", "events", "has_done"):
        assert got[key] == wanted[key], (got, wanted)


def ready(value):
    def change(doc):
        doc["status"]["conditions"] = [{"type": "Ready", "status": str(value)}]
    return change


@steps
def pod_goes_notready_single(stage):
    stage.start()
    stage.check(stage.request(), stage.observed(0))
    stage.put("a-1", ready(False))
    stage.until_observed(2)
    stage.put("a-1", ready(True))
    stage.until_observed(4)


@steps
def pod_goes_notready_other_takes_over(stage):
    stage.start((1, 6))
    stage.check(stage.request(), stage.observed(0))
    stage.put("a-1", ready(False))
    stage.until_observed(2)
    stage.put("a-1", ready(True))
    wanted = stage.observed(4)["answer"]
    number = iter(range(10000))
    wait_for(lambda: stage.request(content=f"new {next(number)}")["engine"] == wanted["engine"], FOLLOW)


@steps
def pod_goes_notready_while_stream_runs(stage):
    stage.start()
    stream = Stream(stage)
    stage.put("a-1", ready(False))
    stage.check(stage.until(lambda a: a["status"] != 200), stage.observed(1))
    check_stream(stream, stage.observed(2))


@steps
def pod_deleted_while_stream_runs(stage):
    stage.start()
    stream = Stream(stage)
    stage.remove("a-1")
    stage.check(stage.until(lambda a: a["status"] != 200), stage.observed(1))
    check_stream(stream, stage.observed(2))


@steps
def pod_terminating_with_grace_period(stage):
    stage.start((1, 6))
    stage.terminate("a-1")
    stage.until_observed(1)


@steps
def pod_replaced_same_name_new_ip(stage):
    stage.start((1, 7))
    stage.check(stage.request(), stage.observed(0))
    stage.replace("a-1", 7)
    stage.until_observed(2)


@steps
def pod_replaced_while_stream_runs(stage):
    stage.start((1, 7))
    stream = Stream(stage)
    stage.replace("a-1", 7)
    stage.check(stage.until(lambda a: a["engine"] == stage.slot.ip(7)), stage.observed(1))
    check_stream(stream, stage.observed(2))


@steps
def pod_phase_failed(stage):
    stage.start()
    stage.put("a-1", lambda d: d["status"].update(phase="Failed"))
    stage.until_observed(1)


@steps
def pod_label_no_longer_matches(stage):
    stage.start()
    stage.put("a-1", lambda d: d["metadata"]["labels"].update(app="gone"))
    assert "never_within_ms" in stage.observed(1)  # the recorded fault
    stage.check(stage.until(lambda a: a["status"] != 200), stage.entry["expect"])


@steps
def modelroute_edited_while_stream_runs(stage):
    stage.start((1, 2))
    stream = Stream(stage)
    stage.put("mr-a", lambda d: d["spec"]["rules"][0].update(targetModels=[{"modelServerName": "ms-b"}]))
    stage.check(stage.until(lambda a: a["engine"] == stage.slot.ip(2)), stage.observed(1))
    check_stream(stream, stage.observed(2))


@steps
def modelroute_lora_list_edited(stage):
    stage.start()
    stage.check(stage.request("lora-a1"), stage.observed(0))
    stage.put("mr-a", lambda d: d["spec"].update(loraAdapters=["lora-new"]))
    stage.until_observed(2, model="lora-new")
    stage.check(stage.request("lora-a1"), stage.observed(3))


@steps
def weights_distribution(stage):
    stage.start((1, 2))
    for model in ("m-w7030", "m-wdef"):
        counts = dict.fromkeys(stage.engines, 0)
        before = {ip: len(e.requests) for ip, e in stage.engines.items()}
        with Conn(stage.router.address) as conn:
            for number in range(400):
                conn.send(request_bytes("POST", "/v1/completions", {"model": model, "prompt": str(number)}))
                assert conn.read_response().status == 200
        for ip, engine in stage.engines.items():
            counts[ip] = len(engine.requests) - before[ip]
        share = 0.7 if model == "m-w7030" else 0.5
        assert abs(counts[stage.slot.ip(1)] / 400 - share) < 0.1, counts  # 4 standard deviations


@steps
def modelserver_deleted_while_stream_runs(stage):
    stage.start()
    stream = Stream(stage)
    stage.remove("ms-a")
    stage.until_observed(1)
    check_stream(stream, stage.observed(2))
    stage.put("ms-a")
    stage.until_observed(4)


@steps
def modelserver_model_edited(stage):
    stage.start()
    stage.put("ms-a", lambda d: d["spec"].update(model="real-new"))
    engine = stage.engines[stage.slot.ip(1)]
    stage.until(lambda _: json.loads(engine.requests[-1].body)["model"] == "real-new")


@steps
def modelserver_port_edited(stage):
    stage.start()
    stage.put("ms-a", lambda d: d["spec"].update(workloadPort={"port": 8009}))
    stage.until_observed(1)


@steps
def objects_created_route_first(stage):
    stage.start(objects=())
    stage.check(stage.request(), stage.observed(0))
    stage.put("mr-a")
    stage.until_observed(2)
    stage.put("ms-a")
    stage.until_observed(4)
    stage.put("a-1")
    stage.until_observed(6)


@steps
def engine_waiting_queue_grows_and_shrinks(stage):
    stage.start()
    engine = stage.engines[stage.slot.ip(1)]
    engine.metrics = vllm_metrics(waiting=50)
    stage.until_observed(1)
    engine.metrics = vllm_metrics(waiting=0)
    stage.until_observed(3)


def reads(stage):
    def status(address, path):
        try:
            return stage.router.get(path, address).status
        except OSError as error:
            return type(error).__name__

    router = stage.router
    return {"router /readyz": status(router.address, "/readyz"), "router /healthz": status(router.address, "/healthz"),
            "metrics": status(router.metrics_address, "/metrics"),
            "debug": status(router.debug_address, "/debug/config_dump/pods")}


def signal_while_stream_runs(stage, number, env=None):
    router = stage.start(env=env)
    assert reads(stage) == stage.observed(0)
    stream = Stream(stage)
    router.signal(number)
    wanted = stage.entry["expect"]
    wait_for(lambda: router.try_get("/readyz").status != 200, 2, "not ready any more", 0.002)
    check_stream(stream, wanted)
    assert router.wait_exit() == wanted["exit_code"]
    lines = [json.loads(line) for line in router.log_lines()]
    assert [line["status_code"] for line in lines] == [200] and "error" not in lines[0]


@steps
def sigint_while_stream_runs(stage):
    signal_while_stream_runs(stage, signal.SIGINT)


@steps
def sigterm_while_stream_runs_drain_timeout_10s(stage):
    signal_while_stream_runs(stage, signal.SIGTERM, {"WARMROUTE_DRAIN_DELAY": "200ms"})


@steps
def sigterm_while_non_stream_request_runs(stage):
    stage.slow_answers = True
    router = stage.start(env={"WARMROUTE_DRAIN_DELAY": "200ms"})
    got = []
    thread = threading.Thread(target=lambda: got.append(router.chat()))
    thread.start()
    stage.engines[stage.slot.ip(1)].wait_requests(1)
    router.signal(signal.SIGTERM)
    thread.join()
    wanted = stage.entry["expect"]
    assert (got[0].status, got[0].ended) == (wanted["status"], wanted["ended"])
    assert router.wait_exit() == wanted["exit_code"]


@steps
def router_starts_before_objects(stage):
    router = stage.start(objects=())
    assert reads(stage) == stage.observed(1)
    stage.check(stage.request(), stage.observed(2))
    models = router.get("/v1/models")
    assert {"status": models.status, "body": models.text} == stage.observed(3)
    for name in ("ms-a", "a-1", "mr-a"):
        stage.put(name)
    stage.until_observed(5)


@steps
def config_empty(stage):
    stage.start()
    assert reads(stage) == stage.observed(1)["readers"]
    stage.check(stage.request(), stage.entry["expect"])


@steps
def config_unknown_plugins(stage):
    router = stage.start()
    assert reads(stage) == stage.observed(1)["readers"]
    stage.check(stage.request(), stage.observed(1)["request"])
    for name in ("no-such-filter", "no-such-score"):
        router.wait_stderr(f"Failed to get plugin {name}.")


def fails_to_start(stage, message):
    spec = stage.record["router"]
    path = os.path.join(stage.slot_dir, "config.yaml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(http_replay.config_text(spec))
    code, out, err = run_binary(f"--config={path}", f"--resources={stage.slot_dir}", "--compat=kthena",
                                f"--bind-address={stage.slot.ip(200)}", f"--debug-port={stage.slot.debug_port}",
                                *stage.extra_flags, *spec["flags"], env=spec["env"])
    wanted = stage.entry["expect"] if stage.entry else stage.observed(1)
    text = "\n".join(line for line in (out + err).splitlines() if "] Flag: " not in line)
    assert re.search(message, text), text
    assert code == wanted["exit_code"], text


@steps
def config_least_latency_factor_out_of_range(stage):
    text = stage.observed(1)["last_message"][1].split("] ", 1)[1]
    fails_to_start(stage, re.escape(text))


@steps
def config_unknown_flag(stage):
    fails_to_start(stage, re.escape("--no-such-flag"))


@steps
def config_fairness_and_session_boost(stage):
    text = stage.observed(1)["last_message"][0].split("] ", 1)[1]
    fails_to_start(stage, re.escape(text))


@steps
def config_port_in_use(stage):
    with socket.socket() as other:
        other.bind((stage.slot.ip(200), 0))
        other.listen()
        stage.extra_flags = [f"--port={other.getsockname()[1]}"]
        fails_to_start(stage, r"(?i)listen failed: .*address already in use")


@steps
def router_starts_with_hanging_engine(stage):
    stage.engine(50).hang_scrapes = True
    started = time.monotonic()
    stage.start()
    assert time.monotonic() - started < stage.entry["expect"]["ready_within_s"] * SLOW
    stage.check(stage.request(), stage.observed(4))


@steps
def hanging_engine_blocks_other_updates(stage):
    stage.start(objects=("ms-a", "a-1", "mr-a"))
    stage.engine(50).hang_scrapes = True
    for name in ("ms-h", "h-1", "mr-h"):
        stage.put(name)
    stage.put("a-1", ready(False))
    stage.until_observed(2, timeout=stage.entry["expect"]["within_s"])


@steps
def hanging_engine_delays_metrics_of_others(stage):
    stage.engine(50).hang_scrapes = True
    stage.start()
    stage.engines[stage.slot.ip(1)].metrics = vllm_metrics(waiting=50)
    stage.until_observed(1, timeout=stage.entry["expect"]["within_s"])


def run_steps(stage, tmp_path):
    """Plays one record on its stage and takes the stage down."""
    stage.slot_dir, stage.extra_flags = str(tmp_path), []
    try:
        STEPS[stage.name](stage)
    except BaseException:
        if stage.router:
            stage.router.stop(check=False)
            stage.router = None
        raise
    finally:
        if stage.router:
            stage.router.stop()
        stage.close()
