"""Start, readiness, --check, signals and draining (decisions 2, 3.6, 3.12)."""

import os
import re
import signal
import socket
import subprocess
import threading
import time

import pytest
from support import world
from support.engine import DONE_EVENT, answer, content_event, stream
from support.router import BINARY, DEFAULT_CONFIG, SLOW, Router, run_binary, wait_for
from support.slots import Slot
from support.wire import Conn, request_bytes


def statuses(router):
    return router.try_get("/healthz").status, router.try_get("/readyz").status


# start

def test_start_is_quick(stack):
    made = stack(4, start=False)
    started = time.monotonic()
    made.router.start()
    assert time.monotonic() - started < 2 * SLOW
    assert statuses(made.router) == (200, 200)
    assert made.router.get("/healthz").text == '{"message":"ok"}'
    assert made.router.get("/readyz").text == '{"message":"router is ready"}'


def test_ready_waits_for_the_first_scrapes_but_not_for_ever(stack):
    made = stack(2, start=False)
    made.engines[0].hang_scrapes = True
    made.router.start(wait_ready=False)
    wait_for(lambda: made.router.try_get("/healthz").status == 200, 5)
    early = made.router.try_get("/readyz")
    if time.monotonic() - made.router.started_at < 0.8:
        assert early.status == 503 and early.text == '{"message":"router is not ready"}'
    made.router.wait_ready()
    assert made.router.chat().status == 200


def test_without_config_the_charts_default_is_used_and_logged(stack):
    made = stack(config=None)
    assert made.router.chat().status == 200
    assert re.search("default", made.router.stderr())


def test_flags_are_logged(stack):
    made = stack(flags=["--workers=1"])
    made.router.wait_stderr("Flag: workers, Value: 1")
    made.router.wait_stderr("Flag: port, Value: 8080")


def start_fails(config, flags=(), env=None, resources=""):
    slot = Slot()
    router = Router(resources, config, flags, env, slot=slot, start=False)
    try:
        code, out, err = run_binary(*router.command[1:], env={**router.env})
    finally:
        router.stop(check=False)
        slot.release()
    assert code not in (0, -6, -11), (code, err)
    return out + err


def weights(text):
    return DEFAULT_CONFIG.replace("- name: prefix-cache\n          weight: 1", "- name: prefix-cache\n" + text)


@pytest.mark.parametrize("config, message", [
    (weights("          weight: 0"), 'failed to Load Scheduler: failed to Unmarshal Plugins: score plugin "prefix-cache"'
                                     " must set a weight greater than 0, got 0"),
    (weights(""), 'score plugin "prefix-cache" must set a weight greater than 0, got 0'),
    (weights("          weight: -3"), 'score plugin "prefix-cache" must set a weight greater than 0, got -3'),
    (weights("          weight: 0.5"), 'score plugin "prefix-cache" must set a weight greater than 0, got 0'),
    (DEFAULT_CONFIG.replace("0.5", "1.5"), "invalid least-latency plugin configuration: TTFTTPOTWeightFactor must be a "
                                           "finite value between 0 and 1, got 1.5"),
    ("scheduler: [", "failed to parse router config: failed to Unmarshal routerConfiguration"),
    (DEFAULT_CONFIG + "auth: {jwksUri: 'http://x/jwks'}\n", "is not supported by this build"),
    (DEFAULT_CONFIG.replace("        - name: gpu-usage", "        - name: kvcache-aware"),
     "kvcache-aware is not supported by this build"),
])
def test_config_errors_stop_the_start(config, message):
    assert message in start_fails(config)


def test_unknown_plugin_stops_the_start_and_lists_the_known_ones():
    text = start_fails(DEFAULT_CONFIG.replace("        - name: gpu-usage", "        - name: gpu-usag"))
    for name in ("gpu-usag", "least-request", "least-latency", "gpu-usage", "prefix-cache", "random", "lora-affinity"):
        assert name in text


@pytest.mark.parametrize("env", [{"ENABLE_FAIRNESS_SCHEDULING": "true"}, {"ENABLE_SESSION_BOOST": "true"}])
def test_features_of_later_stop_the_start(env):
    assert f"{list(env)[0]} is not supported by this build" in start_fails(DEFAULT_CONFIG, env=env)


@pytest.mark.parametrize("flags, message", [
    (["--no-such-flag"], "no-such-flag"),
    (["--metrics-port=0"], "invalid metrics port: 0"),
    (["--debug-port=70000"], "invalid debug port: 70000"),
    (["--enable-gateway-api-inference-extension"], "requires --enable-gateway-api to be enabled"),
    (["--tls-cert=/nonexistent", "--tls-key=/nonexistent"], "/nonexistent"),
    (["--compat=other"], "compat"),
])
def test_flag_errors_stop_the_start(flags, message):
    assert message in start_fails(DEFAULT_CONFIG, flags)


def test_missing_config_is_fatal_when_named():
    text = start_fails(None, ["--config=/nonexistent/config.yaml"])
    assert "failed to parse router config: failed to read config file /nonexistent/config.yaml" in text


def test_access_log_that_cannot_be_opened_is_fatal():
    text = start_fails(DEFAULT_CONFIG, env={"ACCESS_LOG_OUTPUT": "/nonexistent/access.log"})
    assert "failed to create access logger: failed to open access log file /nonexistent/access.log" in text


def test_ports_in_use_are_fatal():
    slot = Slot()
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind((slot.ip(200), 8080))
        other.listen()
        router = Router("", slot=slot, start=False)
        code, out, err = run_binary(*router.command[1:], env=router.env)
        router.stop(check=False)
    slot.release()
    assert code != 0 and "address already in use" in (out + err).lower()


def test_misspelled_argument_is_named_in_a_warning(stack):
    made = stack(config=DEFAULT_CONFIG.replace("blockSizeToHash: 64", "blockSizeToHsh: 32"))
    made.router.wait_stderr("blockSizeToHsh")


@pytest.mark.parametrize("flags", [["-v=4"], ["-v", "4"], ["--v=4"], ["--v", "4"], ["--logtostderr", "-v=4"],
                                   ["--logtostderr=true", "--stderrthreshold=INFO", "--v=4"],
                                   ["--alsologtostderr=false", "--vmodule=x=1", "--skip_headers=false", "-v=4"],
                                   ["--enable-webhook=false", "--expose-metrics-on-router-port", "-v=4"]])
def test_klog_forms_of_flags(stack, flags):
    made = stack(flags=flags)
    assert made.router.chat().status == 200
    made.router.wait_stderr("ScorePlugin: prefix-cache")


def test_version_and_help():
    code, out, _ = run_binary("--version")
    assert code == 0 and re.search(r"\d+\.\d+\.\d+", out)
    code, out, _ = run_binary("--help")
    assert code == 0
    for flag in ("--port", "--resources", "--config", "--compat", "--drain-delay", "--workers", "--tls-cert",
                 "--bind-address", "--check", "--debug-port", "--v"):
        assert flag in out


def test_variables_of_our_flags(stack):
    made = stack(env={"WARMROUTE_WORKERS": "1", "WARMROUTE_MAX_BODY_BYTES": "100"})
    made.router.wait_stderr("Flag: workers, Value: 1")
    assert made.router.post("/v1/completions", b'{"model":"m-a","prompt":"' + b"x" * 200 + b'"}').status == 413


def test_invalid_variables_are_warned_about_and_ignored(stack):
    made = stack(env={"METRICS_SCRAPE_INTERVAL": "soon", "DRAIN_TIMEOUT": "-5s"})
    made.router.wait_stderr("METRICS_SCRAPE_INTERVAL")
    made.router.wait_stderr("DRAIN_TIMEOUT")


# --check

def check(tmp_path, resources, config=DEFAULT_CONFIG, flags=()):
    folder = tmp_path / "res"
    folder.mkdir(exist_ok=True)
    (folder / "a.yaml").write_text(resources)
    (tmp_path / "config.yaml").write_text(config)
    code, out, err = run_binary("--check", f"--resources={folder}", f"--config={tmp_path / 'config.yaml'}", *flags)
    return code, out + err


GOOD = world.join(world.model_server("ms-a", "a"), world.pod("a-1", "10.0.0.1", "a"), world.route("mr-a", "m-a", "ms-a"))


def test_check_of_good_files(tmp_path):
    code, text = check(tmp_path, GOOD)
    assert code == 0, text


@pytest.mark.parametrize("resources, message, line", [
    (GOOD.replace("workloadPort: {port: 8000}", "workloadPort: {port: 80000}"), "port", 8),
    (GOOD.replace("  workloadPort: {port: 8000}\n", "  workloadPort: {port: 8000}\n  colour: red\n"), "colour", 9),
    (GOOD.replace("inferenceEngine: vLLM", "inferenceEngine: other"), "inferenceEngine", 5),
    ("kind: [", "", 1),
    (GOOD + "---\nkind: ModelRoute\napiVersion: networking.serving.volcano.sh/v1alpha1\nmetadata: {name: x}\n"
            "spec: {}\n", "", None),
    (GOOD + "---\n" + world.route("mr-rl", "m-rl", "ms-a") + "  rateLimit: {inputTokensPerUnit: 10, unit: hour}\n",
     "rateLimit", None),
])
def test_check_says_what_is_wrong_and_where(tmp_path, resources, message, line):
    code, text = check(tmp_path, resources)
    assert code != 0 and message in text, text
    if line:
        assert re.search(rf"a\.yaml:{line}(:\d+)?\b", text), text


def test_check_of_a_bad_config(tmp_path):
    code, text = check(tmp_path, GOOD, weights("          weight: 0"))
    assert code != 0 and "must set a weight greater than 0, got 0" in text


# signals

def slow_stream(made):
    """A stream of about a second; the first event has been read."""
    made.engine.answers = [stream([content_event(str(n)) for n in range(10)] + [DONE_EVENT], gap_ms=100)]
    conn = made.router.connect()
    conn.send(request_bytes("POST", "/v1/chat/completions", {"model": "m-a", "stream": True, "messages": []}))
    conn.read_head()
    conn.read_event()
    return conn


def read_all(conn):
    events = []
    while (event := conn.read_event()) != b"":
        events.append(event)
    return events


@pytest.mark.alone
def test_sigterm_drains(stack):
    made = stack(flags=["--drain-delay=700ms"])
    conn = slow_stream(made)
    idle = made.router.connect()
    idle.send(request_bytes("GET", "/healthz"))
    assert idle.read_response("GET").status == 200
    signalled = time.monotonic()
    made.router.signal(signal.SIGTERM)
    wait_for(lambda: made.router.try_get("/readyz").status == 503, 2, "not ready", 0.002)
    assert made.router.try_get("/healthz").status == 200
    made.engine.on_request = lambda _: answer("served")
    late = made.router.chat()
    assert (late.status, late.text, late.headers.get("Connection")) == (200, "served", "close")
    assert time.monotonic() - signalled < 0.7 * SLOW
    assert read_all(conn)[-1] == DONE_EVENT.encode()
    assert idle.wait_end(3) == "closed"
    assert made.router.wait_exit() == 0
    assert time.monotonic() - signalled >= 0.7
    with pytest.raises(OSError):
        made.router.connect()
    lines = made.router.log_lines()
    assert len(lines) == 2 and all('"status_code":200' in line for line in lines)


def test_sigint_skips_the_drain_delay(stack):
    made = stack(flags=["--drain-delay=20s"])
    conn = slow_stream(made)
    signalled = time.monotonic()
    made.router.signal(signal.SIGINT)
    assert read_all(conn)[-1] == DONE_EVENT.encode()
    assert made.router.wait_exit() == 0
    assert time.monotonic() - signalled < 5 * SLOW


def test_drain_timeout_ends_what_still_runs(stack):
    made = stack(env={"DRAIN_TIMEOUT": "500ms"}, flags=["--drain-delay=0s"])
    made.engine.answers = [[{"hang": True}]]
    conn = made.router.connect()
    conn.send(request_bytes("POST", "/v1/completions", {"model": "m-a", "prompt": "x"}))
    made.engine.wait_requests(1)
    signalled = time.monotonic()
    made.router.signal(signal.SIGTERM)
    made.router.wait_exit()
    assert 0.4 < time.monotonic() - signalled < 4 * SLOW
    conn.close()


def test_second_signal_ends_at_once(stack):
    made = stack(flags=["--drain-delay=30s"])
    made.engine.answers = [[{"hang": True}]]
    conn = made.router.connect()
    conn.send(request_bytes("POST", "/v1/completions", {"model": "m-a", "prompt": "x"}))
    made.engine.wait_requests(1)
    made.router.signal(signal.SIGTERM)
    wait_for(lambda: made.router.try_get("/readyz").status == 503, 3)
    again = time.monotonic()
    made.router.signal(signal.SIGTERM)
    made.router.wait_exit(5)
    assert time.monotonic() - again < 2 * SLOW
    conn.close()


def test_sigterm_while_starting():
    slot = Slot()
    router = Router("", slot=slot, start=False)
    router.start(wait_ready=False)
    router.signal(signal.SIGTERM)
    try:
        router.wait_exit(10)
    finally:
        router.stop(check=False)
        slot.release()
    assert router.exit_code in (0, -signal.SIGTERM)  # before the handler is there the signal itself ends it


def test_sighup_reopens_the_access_log(stack):
    made = stack()
    assert made.router.chat().status == 200
    made.router.wait_log()
    os.rename(made.router.log_path, made.router.log_path + ".1")
    made.router.signal(signal.SIGHUP)
    wait_for(lambda: os.path.exists(made.router.log_path), 5, "the new file")
    assert made.router.chat().status == 200
    assert len(made.router.wait_log()) == 1


def test_runs_under_the_old_name(tmp_path):
    link = tmp_path / "kthena-router"
    link.symlink_to(BINARY)
    done = subprocess.run([str(link), "--version"], check=False, stdout=subprocess.PIPE)
    assert done.returncode == 0


def test_pipe_as_access_log_is_never_in_the_way(stack):
    """stdout is a pipe that nobody reads."""
    made = stack(start=False, env={"ACCESS_LOG_OUTPUT": "stdout"})
    read, write = os.pipe()
    with open(made.router.stderr_path, "ab") as err:
        made.router.process = subprocess.Popen(made.router.command, env=made.router.env, stdout=write, stderr=err)
    os.close(write)
    made.router.wait_ready()

    def client():
        with Conn(made.router.address) as conn:
            for _ in range(100):
                conn.send(request_bytes("POST", "/v1/completions", {"model": "m-a", "prompt": "x"}))
                assert conn.read_response().status == 200

    threads = [threading.Thread(target=client) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    os.close(read)
