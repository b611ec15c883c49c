"""Nothing that was sent is lost at the end of the drain delay (decision 3.6)."""

import errno
import signal
import socket
import threading
import time

import pytest
from support.engine import answer
from support.router import SLOW
from support.wire import Conn, request_bytes

ASK = request_bytes("POST", "/v1/completions", {"model": "m-a", "prompt": "x"})


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("workers", [1, 2])
def test_no_request_on_a_new_connection_is_lost(stack, number, workers):
    made = stack(flags=["--drain-delay=300ms", f"--workers={workers}"])
    made.engine.on_request = lambda _: answer("served")
    outcomes, stop = [], threading.Event()

    def client():
        while not stop.is_set():
            try:
                conn = Conn(made.router.address, timeout=5 * SLOW)
            except OSError as refused:
                outcomes.append(errno.errorcode.get(refused.errno, "time-out"))
                time.sleep(0.01)
                continue
            with conn:
                try:
                    conn.send(ASK)
                except OSError as failed:
                    outcomes.append(f"sending: {failed}")
                    continue
                response = conn.read_response()
                outcomes.append(response.status if response.ended == "complete" else response.ended)

    threads = [threading.Thread(target=client) for _ in range(8)]
    for thread in threads:
        thread.start()
    time.sleep(0.2)
    made.router.signal(number)
    assert made.router.wait_exit() == 0
    time.sleep(0.2)
    stop.set()
    for thread in threads:
        thread.join()
    assert set(outcomes) == {200, "ECONNREFUSED"}, {each: outcomes.count(each) for each in set(outcomes)}
    assert outcomes.count(200) > 20


def test_connections_that_wait_to_be_accepted_are_served(stack):
    """The router is stopped while they come in, so that the drain finds some of them in the queue."""
    made = stack(flags=["--drain-delay=0s"])
    made.engine.on_request = lambda _: answer("served")
    made.router.signal(signal.SIGSTOP)
    conns = [made.router.connect() for _ in range(20)]
    for conn in conns:
        conn.send(ASK)
    made.router.signal(signal.SIGTERM)
    made.router.signal(signal.SIGCONT)
    for conn in conns:
        response = conn.read_response()
        assert (response.status, response.text) == (200, "served")
        conn.close()
    assert made.router.wait_exit() == 0


@pytest.mark.parametrize("delay", [0.02, 0.4])
def test_the_first_request_of_a_connection_may_come_a_little_late(stack, delay):
    for _ in range(5):  # a machine that is slower than the grace proves nothing
        made = stack(flags=["--drain-delay=0s"])
        conn = made.router.connect()
        made.router.wait_metric("warmroute_client_connections", 1)
        made.router.signal(signal.SIGTERM)
        signalled = time.monotonic()
        made.router.wait_stderr("draining: ")  # the listener is closed
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(made.router.address)
        time.sleep(delay)
        conn.send(ASK)
        if time.monotonic() - signalled > 0.9:
            continue
        assert conn.read_response().status == 200
        conn.close()
        break
    else:
        pytest.fail("the machine never came to it in time")
    assert made.router.wait_exit() == 0


def test_a_connection_without_any_request_does_not_hold_the_exit(stack):
    made = stack(flags=["--drain-delay=0s"])
    conn = made.router.connect()
    made.router.wait_metric("warmroute_client_connections", 1)
    signalled = time.monotonic()
    made.router.signal(signal.SIGTERM)
    assert conn.wait_end(3 * SLOW) == "closed"
    assert made.router.wait_exit() == 0
    assert time.monotonic() - signalled < 2.5 * SLOW
    conn.close()


def test_a_request_that_waits_on_an_idle_connection_is_served(stack):
    made = stack(flags=["--drain-delay=0s"])
    made.engine.on_request = lambda _: answer("served")
    conn = made.router.connect()
    conn.send(ASK)
    assert conn.read_response().status == 200
    made.router.signal(signal.SIGSTOP)
    conn.send(ASK)
    made.router.signal(signal.SIGTERM)
    made.router.signal(signal.SIGCONT)
    assert conn.read_response().status == 200
    assert conn.wait_end() == "closed"
    conn.close()
    assert made.router.wait_exit() == 0
