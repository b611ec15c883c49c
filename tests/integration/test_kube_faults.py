"""Faults of the API server, seen through the router's port: each leads back to the right state, none empties it."""

import time

import pytest
from support import fake_kube
from support.router import SLOW, wait_for


def move_on(made, name="a-9"):
    """A change that the router must see in the end."""
    made.kube.put("pods", fake_kube.pod(name, made.slot.ip(1), "a", uid=f"u-{name}-{time.monotonic()}"))


def test_an_api_server_that_is_down_at_the_start_is_waited_for(cluster):
    made = cluster(start=False)
    made.kube.stop()
    made.router.start(wait_ready=False)
    made.router.wait_stderr("nothing is known yet")
    assert made.router.get("/readyz").status == 503
    assert made.status() == 404
    made.kube.start()
    wait_for(lambda: made.router.get("/readyz").status == 200, 15, "ready")
    made.wait_status(200)


def test_an_api_server_that_goes_down_later_takes_nothing_with_it(cluster):
    made = cluster(2)
    made.router.wait_metric("warmroute_kube_state_age_seconds", 0)
    made.kube.stop()
    made.router.wait_stderr("the last known state serves on: 2 objects")
    wait_for(lambda: made.router.metric("warmroute_kube_state_age_seconds") >= 1, 5, "the state's age")
    assert made.router.get("/readyz").status == 200
    for _ in range(20):
        assert made.status() == 200
    made.router.wait_metric("warmroute_kube_watches_connected", 0)
    made.kube.delete("pods", "a-1")
    made.kube.start()
    made.wait_members(["a-2"], timeout=15)
    made.router.wait_metric("warmroute_kube_state_age_seconds", 0)
    made.router.wait_stderr("is followed again")
    lines = [line for line in made.router.stderr().splitlines() if "serves on" in line]
    failures = made.router.metric("warmroute_kube_failures_total")
    assert 3 <= len(lines) <= 6 < failures  # not one for each try


@pytest.mark.parametrize("status", [401, 403, 429, 500, 503, 504])
def test_refusals_pass(cluster, status):
    made = cluster()
    made.kube.fail = lambda verb, kind, query: (status, "Refused", [("Retry-After", "1")] if status == 429 else [])
    made.kube.cut_watches()
    before = made.kube.count()
    wait_for(lambda: made.kube.count() >= before + 6, 20, "attempts")
    assert made.status() == 200
    move_on(made)
    made.kube.fail = None
    made.wait_members(["a-1", "a-9"], timeout=20)


def test_a_watch_that_lost_its_version_lists_again_and_compares(cluster):
    made = cluster(2)
    made.kube.stop()
    made.kube.delete("pods", "a-1")
    move_on(made)
    made.kube.compact()
    made.kube.start()
    made.wait_members(["a-2", "a-9"], timeout=15)
    # and while a stream is open: an ERROR event
    with made.kube.lock:
        made.kube.silent = True
    made.kube.delete("pods", "a-2")
    made.kube.compact()
    made.wait_members(["a-9"], timeout=15)


def test_a_silent_stream_is_begun_again(cluster):
    made = cluster(2, flags=["--kube-watch-silence=1s"])
    made.kube.bookmarks = None
    made.kube.silent = True
    made.kube.delete("pods", "a-1")
    made.router.wait_stderr("the stream was silent", timeout=10)
    made.kube.silent = False
    made.wait_members(["a-2"], timeout=10)


def test_a_deletion_that_is_never_told_is_found(cluster):
    made = cluster(2, flags=["--kube-relist=1s"])
    made.wait_members(["a-1", "a-2"])
    made.kube.delete("pods", "a-1", tell=False)
    made.wait_members(["a-2"], timeout=10)
    made.router.wait_metric("warmroute_kube_repaired_total", 1)
    assert made.kube.count("watch") == 3  # they went on


def test_an_api_server_that_lags_brings_nothing_old_back(cluster):
    made = cluster(2)
    made.kube.remember()
    made.kube.delete("pods", "a-1")
    made.wait_members(["a-2"])
    made.kube.lag(True)
    with made.kube.lock:
        made.kube.history = []
        made.kube.oldest = made.kube.version + 1
        made.kube.lock.notify_all()
    wait_for(lambda: made.router.metric("warmroute_kube_stale_total") >= 1, 10, "stale lists")
    assert made.members() == ["a-2"]
    made.kube.lag(False)
    with made.kube.lock:
        made.kube.version += 10
    move_on(made)
    made.wait_members(["a-2", "a-9"], timeout=15)


def test_a_stream_cut_in_the_middle_of_an_event(cluster):
    made = cluster()
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n40\r\n{\"type\":\"DELETED\",\"object\":{\"metadata\":"
    cuts = []

    def fail(verb, _kind, _query):
        if verb == "watch" and len(cuts) < 6:
            cuts.append(1)
            return head
        return None

    made.kube.fail = fail
    made.kube.cut_watches()
    move_on(made)
    made.wait_members(["a-1", "a-9"], timeout=15)
    assert made.status() == 200


def test_lists_come_in_pages_and_an_expired_page_begins_again(cluster):
    made = cluster(start=False)
    for number in range(600):
        made.kube.put("pods", fake_kube.pod(f"p-{number:03}", "127.0.0.1", "a", ready=False))
    expired = []

    def fail(verb, kind, query):
        if kind == "pods" and "continue" in query and not expired:
            expired.append(query)
            return (410, "Expired")
        return None

    made.kube.fail = fail
    made.router.start()
    assert expired
    pods = made.router.debug("/debug/config_dump/pods").json()["pods"]
    assert len(pods) >= 1
    limits = [query.get("limit") for verb, kind, query in made.kube.requests if (verb, kind) == ("list", "pods")]
    assert limits == ["250", "250", "0"]
    assert made.status() == 200


def test_pods_that_churn_leave_within_a_second(cluster):
    made = cluster(2)
    for round_number in range(30):
        gone = "a-1" if round_number % 2 == 0 else "a-2"
        made.kube.delete("pods", gone)
        until = time.monotonic() + SLOW
        stays = "a-2" if gone == "a-1" else "a-1"
        while made.members() != [stays]:
            assert time.monotonic() < until, "a deleted pod stayed for a second"
        assert f"from {stays}" in made.router.chat().text
        made.kube.put("pods", fake_kube.pod(gone, made.slot.ip(1 if gone == "a-1" else 2), "a", uid=f"u{round_number}"))
        made.wait_members(["a-1", "a-2"])
