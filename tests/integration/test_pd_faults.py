"""Prefill/decode: engines that say nothing, stop half-way or say too much."""

import gzip

import pytest
from support.engine import answer, chat
from support.pd import PREFILLED

GOOD = chat("decoded")
CONNECTORS = ["http", "nixl", "sglang"]
TOO_MUCH = 17 << 20  # the bound is 16 MiB


@pytest.fixture(name="two")
def _two(pairs):
    """Two groups; the second pair is asked when the first fails. A decode engine waits for its prefill engine."""
    def make(connector, flags):
        made = pairs(connector, ((1, 1), (1, 1)), flags=flags)
        made.d1a.answers = [[{"hang": True}]]
        made.d2a.answers = [GOOD]
        return made

    return make


def assert_second_pair_served(made, first_decode_asked):
    response = made.chat()
    assert (response.status, response.json()["choices"][0]["message"]["content"]) == (200, "decoded")
    line = made.log()
    assert (line["prefill_pod"], line["selected_pod"], line["upstream_attempts"]) == ("p2a", "d2a", 2)
    if not first_decode_asked:
        assert made.d1a.requests == []
    elif made.d1a.requests:  # may have been ended before it arrived
        made.d1a.wait_peer_closed()
    made.assert_settled()


@pytest.mark.parametrize("connector", CONNECTORS)
@pytest.mark.parametrize("down", ["p1a", "d1a"])
def test_a_black_hole_is_left_after_the_connect_time_out(two, holes, connector, down):
    made = two(connector, ["--connect-timeout=300ms"])
    engine = made.engines[down]
    engine.stop()
    holes(engine.address[0])
    assert_second_pair_served(made, connector == "sglang" and down == "p1a")


@pytest.mark.parametrize("connector", CONNECTORS)
def test_a_stall_in_the_body_of_the_prefill_answer(two, connector):
    made = two(connector, ["--stream-idle-timeout=300ms"])
    made.p1a.answers = [[{"send_bytes": PREFILLED[0]["send_bytes"][:-5]}, {"hang": True}]]
    assert_second_pair_served(made, connector == "sglang")
    made.p1a.wait_peer_closed()


def too_much():
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {TOO_MUCH + 2}\r\n\r\n"
    return [{"send": head + "{"}, {"send_repeat": " ", "count": TOO_MUCH}, {"send": "}"}]


@pytest.mark.parametrize("connector", ["nixl", "mooncake"])
def test_a_prefill_answer_beyond_its_bound_is_a_failure(two, connector):
    made = two(connector, [])
    made.p1a.answers = [too_much()]
    assert_second_pair_served(made, False)


@pytest.mark.parametrize("connector", ["http", "sglang"])
def test_a_prefill_answer_that_nobody_reads_is_not_kept(two, connector):
    made = two(connector, [])
    made.d1a.answers = [GOOD]
    before = made.router.rss_bytes()
    made.p1a.answers = [too_much()]
    assert made.chat().status == 200
    assert sorted(made.asked()) == ["d1a", "p1a"]
    assert made.router.rss_bytes() - before < TOO_MUCH / 2
    made.assert_settled()


@pytest.mark.parametrize("connector", ["nixl", "mooncake"])
def test_a_prefill_answer_that_unpacks_beyond_its_bound_is_a_failure(two, connector):
    made = two(connector, [])
    made.p1a.answers = [answer(gzip.compress(b"{" + b" " * TOO_MUCH + b"}"), headers=[("Content-Encoding", "gzip")])]
    assert_second_pair_served(made, False)


def test_a_prefill_answer_just_within_its_bound_is_used(two):
    made = two("nixl", [])
    body = PREFILLED[0]["send_bytes"].split(b"\r\n\r\n", 1)[1]
    made.p1a.answers = [answer(body + b" " * ((16 << 20) - len(body)))]
    made.d1a.answers = [GOOD]
    assert made.chat().status == 200
    assert made.asked() == ["p1a", "d1a"]
