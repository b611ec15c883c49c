"""`warmroute healthcheck`: what an image's health check runs."""

import shutil
import signal
import socket
import time

import pytest
from support.router import SLOW, run_binary, wait_for
from support.slots import Slot
from support.tls import Authority


def check(router, *more):
    """With the router's own flags, as a container's check finds them."""
    flags = [flag for flag in router.command[1:] if flag.startswith(("--bind-address", "--port", "--tls"))]
    return run_binary("healthcheck", *flags, *more)


@pytest.fixture(name="silent")
def _silent():
    """A port that takes connections and never answers."""
    slot = Slot()
    with socket.socket() as listener:
        listener.bind((slot.ip(1), 8080))
        listener.listen()
        yield slot.ip(1)
    slot.release()


def test_healthy_from_the_start_and_in_the_drain(stack):
    made = stack(1, flags=["--drain-delay=2s"])
    assert check(made.router) == (0, "", "")
    made.router.signal(signal.SIGTERM)
    wait_for(lambda: made.router.try_get("/readyz").status == 503, 5, "drain")
    assert check(made.router) == (0, "", "")
    assert made.router.wait_exit() == 0
    assert check(made.router)[0] == 1


def test_unhealthy_when_nobody_listens(stack):
    made = stack(1)
    assert check(made.router, "--port=8079") == (1, "", "unhealthy: connect: Connection refused\n")


def test_unhealthy_after_two_seconds_of_silence(silent):
    started = time.monotonic()
    code, out, err = run_binary("healthcheck", f"--bind-address={silent}")
    assert (code, out, err) == (1, "", "unhealthy: no complete answer in time\n")
    assert 1.9 <= time.monotonic() - started < 2 + 3 * SLOW


def test_over_tls(stack, tmp_path):
    """The certificate is not for the loopback address, and nobody vouches for it here."""
    files = tmp_path / "tls.crt", tmp_path / "tls.key"
    for made, file in zip(Authority(tmp_path).issue("router", "DNS:router.example.com"), files):
        shutil.copy(made, file)
    made = stack(1, flags=[f"--tls-cert={files[0]}", f"--tls-key={files[1]}"], wait_ready=False)
    wait_for(lambda: check(made.router)[0] == 0, 10, "healthy over TLS")
    plain = run_binary("healthcheck", f"--bind-address={made.router.host}")
    assert plain[0] == 1 and plain[2].startswith("unhealthy: ")


@pytest.mark.parametrize("flags, told", [
    (["--port=http"], "unhealthy: invalid port: http\n"),
    (["--no-such-flag"], "unknown flag: --no-such-flag"),
    (["--tls-cert=/x"], "tls-cert and tls-key must be specified together"),
    (["now"], "unexpected argument: now"),
])
def test_wrong_flags(flags, told):
    code, out, err = run_binary("healthcheck", *flags)
    assert (code, out) == (1, "") and told in err
