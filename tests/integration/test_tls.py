"""TLS on the listener (reloaded when the files change) and to engines (decision 3.18)."""

import shutil
import signal
import ssl
import time

import pytest
from support import world
from support.engine import DONE_EVENT, Engine, answer, content_event, stream
from support.router import SLOW, run_binary, wait_for
from support.slots import Slot
from support.tls import Authority
from support.wire import Conn, request_bytes


@pytest.fixture(name="authority", scope="module")
def _authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(name="files")
def _files(authority, tmp_path):
    cert, key = authority.issue("first", "DNS:localhost")
    files = tmp_path / "tls.crt", tmp_path / "tls.key"
    shutil.copy(cert, files[0])
    shutil.copy(key, files[1])
    return files


def ready(router, context):
    def check():
        assert router.process.poll() is None, router.stderr()
        try:
            with Conn(router.address, context, timeout=2) as conn:
                conn.send(request_bytes("GET", "/readyz"))
                return conn.read_response("GET").status == 200
        except OSError:
            return False
    wait_for(check, 15, "ready over TLS")


@pytest.fixture(name="made")
def _made(stack, authority, files):
    made = stack(flags=[f"--tls-cert={files[0]}", f"--tls-key={files[1]}"], wait_ready=False)
    ready(made.router, authority.client())
    return made


def test_requests_streams_and_keep_alive(made, authority):
    with Conn(made.router.address, authority.client()) as conn:
        for _ in range(3):
            conn.send(request_bytes("POST", "/v1/completions", {"model": "m-a", "prompt": "x"}))
            assert conn.read_response().status == 200
        made.engine.answers = [stream([content_event("a"), DONE_EVENT], gap_ms=20)]
        conn.send(request_bytes("POST", "/v1/chat/completions", {"model": "m-a", "stream": True, "messages": []}))
        assert conn.read_response().text == content_event("a") + DONE_EVENT
        made.engine.answers = [[{"send": "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5000000\r\n\r\n"},
                                {"send_repeat": "x", "count": 5000000}]]
        conn.send(request_bytes("POST", "/v1/completions", {"model": "m-a", "prompt": "y" * 1_000_000}))
        response = conn.read_response()
        assert (response.ended, len(response.body)) == ("complete", 5_000_000)


def test_only_http11_is_offered(made, authority):
    with Conn(made.router.address, authority.client(["h2", "http/1.1"])) as conn:
        assert conn.sock.selected_alpn_protocol() == "http/1.1"
        assert conn.sock.version() in ("TLSv1.2", "TLSv1.3")


def test_old_versions_are_refused(made, authority):
    with pytest.raises((ssl.SSLError, OSError)):
        Conn(made.router.address, authority.client(maximum=ssl.TLSVersion.TLSv1_1))


def test_clear_text_on_the_tls_port_does_no_harm(made, authority):
    with Conn(made.router.address) as conn:
        conn.send(request_bytes("GET", "/healthz"))
        assert conn.read_response("GET").status in (None, 400)
    with Conn(made.router.address, authority.client()) as conn:
        conn.send(request_bytes("GET", "/healthz"))
        assert conn.read_response("GET").status == 200


def test_client_that_leaves_over_tls(made, authority):
    made.engine.answers = [[{"hang": True}]]
    conn = Conn(made.router.address, authority.client())
    conn.send(request_bytes("POST", "/v1/completions", {"model": "m-a", "prompt": "x"}))
    made.engine.wait_requests(1)
    conn.close()
    made.engine.wait_peer_closed()


@pytest.mark.parametrize("extra", [b"\r\n", b"P" * 20000])
@pytest.mark.parametrize("how", ["close", "reset"])
def test_extra_bytes_over_tls_do_not_hide_the_end(made, authority, extra, how):
    made.engine.answers = [[{"hang": True}]]
    conn = Conn(made.router.address, authority.client())
    conn.send(request_bytes("POST", "/v1/completions", {"model": "m-a", "prompt": "x"}))
    made.engine.wait_requests(1)
    conn.send(extra)
    time.sleep(0.1)
    left = time.monotonic()
    getattr(conn, how)()
    assert made.engine.wait_peer_closed() - left < 1.0 * SLOW


def test_first_request_over_tls_at_the_end_of_the_drain(stack, authority, files):
    made = stack(flags=[f"--tls-cert={files[0]}", f"--tls-key={files[1]}", "--drain-delay=0s"], wait_ready=False)
    ready(made.router, authority.client())
    with Conn(made.router.address, authority.client()) as conn:
        made.router.signal(signal.SIGTERM)
        made.router.wait_stderr("draining: ")  # the listener is closed
        conn.send(request_bytes("POST", "/v1/completions", {"model": "m-a", "prompt": "x"}))
        assert conn.read_response().status == 200
    assert made.router.wait_exit() == 0


def serial(address, authority):
    with Conn(address, authority.client()) as conn:
        return conn.sock.getpeercert()["serialNumber"]


def test_certificate_is_reloaded(made, authority, files):
    before = serial(made.router.address, authority)
    with Conn(made.router.address, authority.client()) as old:
        cert, key = authority.issue("second", "DNS:localhost")
        shutil.copy(cert, files[0])
        shutil.copy(key, files[1])
        wait_for(lambda: serial(made.router.address, authority) != before, 10, "the new certificate", 0.1)
        old.send(request_bytes("GET", "/healthz"))
        assert old.read_response("GET").status == 200


def test_broken_certificate_leaves_the_last_good_one(made, authority, files):
    before = serial(made.router.address, authority)
    files[0].write_text("garbage")
    wait_for(lambda: "tls" in made.router.stderr().lower() or "certificate" in made.router.stderr().lower(), 10)
    assert serial(made.router.address, authority) == before


def test_flags_must_come_together(files):
    for flag in (f"--tls-cert={files[0]}", f"--tls-key={files[1]}"):
        code, _, err = run_binary(flag, "--resources=/nonexistent")
        assert code != 0 and "tls-cert and tls-key must be specified together" in err


def https_stack(stack, authority, flags, san=None, names=None):
    slot = Slot()
    tls = authority.server("engine", san or f"IP:{slot.ip(1)}", names.append if names is not None else None)
    engine = Engine(slot.ip(1), answers=[answer("secret")], tls=tls)
    made = stack(0, flags=flags, resources=world.join(
        world.model_server("ms-a", "a", protocol="https"), world.pod("a-1", slot.ip(1), "a"),
        world.route("mr-a", "m-a", "ms-a")))
    made.engines.append(engine)
    return made


def test_https_engine_with_a_trusted_certificate(stack, authority):
    made = https_stack(stack, authority, [f"--upstream-ca={authority.cert}", "--workers=1"])
    for _ in range(3):
        assert made.router.chat().text == "secret"
    assert len({s.connection for s in made.engine.requests}) == 1
    made.engine.answers = [stream([content_event("a"), DONE_EVENT], gap_ms=10)]
    assert made.router.chat(stream=True).text == content_event("a") + DONE_EVENT


def test_https_engine_that_is_not_trusted(stack, authority):
    made = https_stack(stack, authority, [])
    assert made.router.chat().status == 503 and made.asked() == []


def test_https_engine_with_a_wrong_name(stack, authority):
    made = https_stack(stack, authority, [f"--upstream-ca={authority.cert}"], san="DNS:other.test")
    assert made.router.chat().status == 503 and made.asked() == []


def test_https_engine_without_verification(stack, authority):
    made = https_stack(stack, authority, ["--upstream-insecure"], san="DNS:other.test")
    assert made.router.chat().text == "secret"


def test_https_to_a_clear_text_engine_never_speaks_clear_text(stack, authority):
    made = stack(server=world.model_server("ms-a", "a", protocol="https"),
                 flags=["--upstream-insecure", "--connect-timeout=700ms"])
    assert made.router.chat().status in (503, 504) and made.asked() == []  # the handshake is part of connecting


def test_https_engine_by_name_gets_sni(stack, authority):
    names = []
    slot = Slot()
    tls = authority.server("named", "DNS:localhost", names.append)
    engine = Engine("127.0.0.1", 0, answers=[answer("named")], tls=tls)
    made = stack(0, flags=[f"--upstream-ca={authority.cert}"], resources=world.join(
        world.model_server("ms-a", "a", protocol="https"),
        world.static_pods("box", "a", [f"localhost:{engine.address[1]}"]), world.route("mr-a", "m-a", "ms-a")))
    made.engines.append(engine)
    wait_for(lambda: made.router.chat().status == 200, 5, "a pod")
    assert made.router.chat().text == "named"
    assert names and set(names) <= {"localhost"}
    slot.release()
