"""Logs, metrics, debug pages (decisions 3.17, 6; spec 17 to 19)."""

import json
import re
import threading

import pytest
from support import world
from support.engine import DONE_EVENT, answer, content_event, stream
from support.router import metric_types, parse_metrics, wait_for
from support.wire import request_bytes


@pytest.fixture(name="made")
def _made(stack):
    return stack()


def test_json_access_log(made):
    assert made.router.chat(headers=[("x-request-id", "id-1")]).status == 200
    line = made.router.wait_log()[0]
    assert list(line) == ["timestamp", "method", "path", "protocol", "status_code", "model_name", "model_route",
                          "model_server", "selected_pod", "request_id", "backend_type", "backend_name",
                          "upstream_model", "upstream_status_code", "upstream_attempts", "input_tokens",
                          "output_tokens", "duration_total", "duration_request_processing",
                          "duration_upstream_processing", "duration_response_processing"]
    assert (line["model_name"], line["model_route"], line["model_server"], line["selected_pod"], line["request_id"],
            line["upstream_model"]) == ("m-a", "golden/mr-a", "golden/ms-a", "a-1", "id-1", "real-a")


def test_text_access_log(stack):
    made = stack(log_format="text")
    assert made.router.chat(headers=[("x-request-id", "id-1")]).status == 200
    line = made.router.wait_log()[0]
    assert re.fullmatch(
        r'\[\S+\] "POST /v1/chat/completions HTTP/1\.1" 200 model_name=m-a model_route=golden/mr-a '
        r"model_server=golden/ms-a selected_pod=a-1 request_id=id-1 backend_type=model_server "
        r"backend_name=golden/ms-a upstream_model=real-a upstream_status_code=200 upstream_attempts=1 tokens=9/2 "
        r"timings=\d+ms\(\d+\+\d+\+\d+\)", line), line


def test_access_log_can_be_turned_off(stack):
    made = stack(env={"ACCESS_LOG_ENABLED": "false"})
    response = made.router.chat()
    assert response.status == 200 and response.headers.get("x-request-id")
    assert made.router.log_lines() == [] and made.router.stdout() == ""


def test_only_v1_paths_are_logged(made):
    for path in ("/healthz", "/readyz", "/nowhere", "/v1/models"):
        made.router.get(path)
    assert [line["path"] for line in made.router.wait_log()] == ["/v1/models"]


@pytest.mark.parametrize("log_format", ["json", "text"])
def test_a_client_cannot_forge_a_log_line(stack, log_format):
    made = stack(log_format=log_format)
    made.router.chat('evil\n[2026] "GET / HTTP/1.1" 200\r\x1b[31m')
    made.router.post("/v1/chat%0A%0Dcompletions%1b[31m", {"model": "m-a", "prompt": "x"})
    lines = made.router.wait_log(2)
    with open(made.router.log_path, "rb") as file:
        raw = file.read()
    assert raw.count(b"\n") == 2 and b"\r" not in raw and b"\x1b" not in raw
    if log_format == "json":
        assert lines[0]["model_name"] == 'evil\n[2026] "GET / HTTP/1.1" 200\r\x1b[31m'
        assert lines[1]["path"] == "/v1/chat\n\rcompletions\x1b[31m"


def test_secrets_and_prompts_appear_nowhere(stack):
    made = stack(flags=["-v=9"])
    marker, secret = "MARKERPROMPT", "sk-SECRETTOKEN"
    auth = [("Authorization", f"Bearer {secret}"), ("Cookie", secret), ("api-key", secret)]
    made.router.chat(content=marker, headers=auth)
    made.router.chat("nope", content=marker, headers=auth)
    bodies = [made.router.post("/v1/chat/completions", b'{"model":"m-a","prompt":"' + marker.encode() + b'" x', auth)]
    made.engine.answers = [[{"reset": True}]]
    bodies.append(made.router.chat(content=marker, headers=auth))
    made.router.wait_log(4)
    texts = [made.router.stderr(), made.router.stdout(), made.router.metrics_text(), "\n".join(made.router.log_lines()),
             *(made.router.debug(f"/debug/config_dump/{kind}").text for kind in ("pods", "modelroutes", "modelservers")),
             *(b.text for b in bodies)]
    for text in texts:
        assert marker not in text and secret not in text


def test_metric_labels_never_come_from_the_client(made):
    assert made.router.chat("nope").status == 404
    made.router.chat(path="/v1/a")
    made.router.wait_log(2)
    before = len(made.router.metrics())
    for number in range(50):
        made.router.chat(f"junk-{number}")
        made.router.chat(path=f"/v1/junk/{number}")
        made.router.request(f"M{number}", "/v1/completions", b'{"model":"m-a","prompt":"x"}')
    samples = made.router.metrics()
    assert len(samples) <= before + 60
    assert not [labels for _, labels in samples if "junk" in str(labels)]
    assert {dict(labels)["path"] for (name, labels) in samples if name == "kthena_router_requests_total"} <= {
        "/v1/chat/completions", "/v1/completions", "other"}


def test_every_row_of_the_metrics_table(stack):
    made = stack(2)
    made.engines[0].answers = [answer("no", "500 X"), answer("ok")]
    made.engines[1].answers = [stream([content_event("a"), 'data: {"choices":[],"usage":{"prompt_tokens":3,'
                                       '"completion_tokens":2}}\n\n', DONE_EVENT])]
    assert made.router.chat(stream=True).status == 200
    assert made.router.chat("nope").status == 404
    made.router.wait_log(2)
    labels = dict(model="m-a", path="/v1/chat/completions", model_route="golden/mr-a", backend_type="model_server",
                  backend_name="golden/ms-a", upstream_model="real-a")
    metric = made.router.metric
    assert metric("kthena_router_requests_total", status_code="200", error_type="successful_request", **labels) == 1
    assert metric("kthena_router_requests_total", status_code="404", error_type="route_not_found", model="unknown",
                  model_route="none", backend_type="unresolved", backend_name="none", upstream_model="none") == 1
    assert metric("kthena_router_request_duration_seconds_count", status_code="200", **labels) == 1
    assert metric("kthena_router_tokens_total", token_type="input", **labels) == 9
    assert metric("kthena_router_tokens_total", token_type="output", **labels) == 2
    for plugin, kind in (("least-request", "filter"), ("least-request", "score"), ("least-latency", "score"),
                         ("gpu-usage", "score"), ("prefix-cache", "score")):
        assert metric("kthena_router_scheduler_plugin_duration_seconds_count", model="m-a", plugin=plugin,
                      type=kind) == 1
    text = made.router.metrics_text()
    types = metric_types(text)
    assert types["kthena_router_active_requests"] == "gauge"
    assert types["kthena_router_requests_total"] == "counter"
    for name, kind in types.items():
        if kind == "histogram":
            check_histogram(parse_metrics(text), name)


def check_histogram(samples, name):
    for (sample, labels), count in samples.items():
        if sample == name + "_count":
            buckets = sorted((float(dict(l)["le"]), v) for (n, l), v in samples.items()
                             if n == name + "_bucket" and set(l) - {("le", dict(l)["le"])} == set(labels))
            values = [v for _, v in buckets]
            assert values == sorted(values) and values[-1] == count and buckets[-1][0] == float("inf")


@pytest.mark.parametrize("request_bytes_, status", [
    (request_bytes("POST", "/v1/completions", b"{"), "400"),
    (request_bytes("POST", "/v1/completions", b'{"prompt":"x"}'), "400"),
])
def test_refused_while_parsing_is_counted(made, request_bytes_, status):
    made.router.send_raw(request_bytes_)
    made.router.wait_metric("kthena_router_requests_total", 1, model="unknown", error_type="request_parsing",
                            status_code=status, path="/v1/completions")


def test_relayed_engine_errors_in_log_and_metric(made):
    made.engine.answers = [answer("no", "422 X")]
    assert made.router.chat().status == 422
    line = made.router.wait_log()[0]
    assert line["error"] == {"type": "upstream_response", "message": "pod golden/a-1 returned HTTP 422"}
    assert line["error_origin"] == "upstream" and line["upstream_status_code"] == 422
    made.router.wait_metric("kthena_router_requests_total", 1, error_type="upstream_response", status_code="422")


def test_relayed_redirect_counts_as_upstream_response(made):
    made.engine.answers = [answer("", "302 Found", headers=[("Location", "/x")])]
    assert made.router.chat().status == 302
    assert made.router.wait_log()[0]["error"]["type"] == "upstream_response"


def test_model_list_is_logged_and_not_counted(made):
    assert made.router.get("/v1/models").status == 200
    assert made.router.wait_log()[0]["status_code"] == 200
    assert made.router.metric("kthena_router_requests_total") == 0


def test_series_of_pods_that_left_are_gone(stack):
    made = stack(2)
    assert made.router.chat().status == 200
    made.router.write_resource("world.yaml", world.simple(made.slot, 1))

    def gone():
        return not [1 for _, labels in made.router.metrics() if any(v in ("golden/a-2", "a-2") for _, v in labels)]

    wait_for(gone, 5, "series of the pod to go")


def test_metrics_listener_serves_metrics_only(made):
    router = made.router
    assert router.get("/metrics", router.metrics_address).headers.get("Content-Type").startswith("text/plain")
    assert router.get("/healthz", router.metrics_address).status == 404
    assert router.get("/metrics").status == 404
    exposed = made.router.try_get("/metrics")
    assert exposed.status == 404


def test_metrics_on_the_router_port(stack):
    made = stack(flags=["--expose-metrics-on-router-port"])
    answer_ = made.router.get("/metrics")
    assert answer_.status == 200 and "kthena_router_active_requests" in answer_.text


def test_process_metrics_and_no_go_metrics(made):
    names = {n for n, _ in made.router.metrics()}
    assert {"process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds", "process_max_fds",
            "process_start_time_seconds"} <= names
    assert not [n for n in names if n.startswith(("go_", "promhttp_"))]


def test_scraping_while_requests_run(stack):
    made = stack(2)
    stop = threading.Event()
    bad = []

    def scrape():
        last = {}
        while not stop.is_set():
            try:
                now = {k: v for k, v in made.router.metrics().items() if k[0].endswith("_total")}
            except AssertionError as error:
                bad.append(error)
                return
            bad.extend(k for k, v in last.items() if k[0].startswith("kthena") and now.get(k, 0) < v)
            last = now

    thread = threading.Thread(target=scrape)
    thread.start()
    with made.router.connect() as conn:
        for number in range(300):
            conn.send(request_bytes("POST", "/v1/completions", {"model": "m-a", "prompt": str(number)}))
            assert conn.read_response().status == 200
    stop.set()
    thread.join()
    assert not bad


def test_debug_pages(made):
    assert made.router.chat().status == 200
    pods = made.router.debug("/debug/config_dump/pods").json()["pods"]
    assert [(p["name"], p["namespace"], p["engine"], p["modelServers"]) for p in pods] == [
        ("a-1", "golden", "vLLM", ["golden/ms-a"])]
    assert set(pods[0]["metrics"]) == {"gpuCacheUsage", "requestWaitingNum", "requestRunningNum", "tpot", "ttft"}
    one = made.router.debug("/debug/config_dump/namespaces/golden/pods/a-1").json()
    assert one["podInfo"]["podIP"] == made.slot.ip(1)
    server = made.router.debug("/debug/config_dump/namespaces/golden/modelservers/ms-a").json()
    assert server["associatedPods"] == ["golden/a-1"]
    assert made.router.debug("/debug/config_dump/namespaces/golden/pods/none").json() == {"error": "Pod not found"}
    assert made.router.debug("/debug/config_dump/gateways").json() == {"gateways": None}
    assert made.router.debug("/debug/nowhere").status == 404


def test_debug_listener_is_on_loopback_only(made):
    with pytest.raises(OSError):
        made.router.get("/debug/config_dump/pods", (made.router.host, made.slot.debug_port))


def test_log_lines_have_klogs_form(made):
    lines = [line for line in made.router.stderr().splitlines() if line]
    assert lines
    assert all(re.match(r"[IWEF]\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ \S+\] ", line) or not line[0].isupper()
               for line in lines), lines[:5]


def test_times_in_the_access_log(made):
    made.engine.answers = [[{"wait_ms": 300}, *answer("ok")]]
    assert made.router.chat().status == 200
    line = made.router.wait_log()[0]
    assert 300 <= line["duration_total"] < 3000
    assert line["duration_upstream_processing"] >= 290
    assert line["duration_total"] >= line["duration_upstream_processing"]


def test_bad_lines_are_never_logged(made):
    """Requests that are refused before their path is known leave no line, and the next one does."""
    made.router.send_raw(b"GARBAGE\r\n\r\n", "GET")
    assert made.router.chat().status == 200
    lines = made.router.wait_log()
    assert len(lines) == 1 and json.dumps(lines[0])
