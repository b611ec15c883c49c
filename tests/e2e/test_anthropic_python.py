"""The official Anthropic client for Python, on /v1/messages."""

import anthropic
import pytest
from support.router import SLOW, wait_for

HELLO = [{"role": "user", "content": "Say hello."}]
TOOLS = [{"name": "get_weather", "description": "Weather", "input_schema": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}]


@pytest.fixture(name="client")
def _client(site):
    with anthropic.Anthropic(base_url=site.url, api_key="sk-test", max_retries=0, timeout=20) as client:
        yield client


def test_message(client):
    answer = client.messages.create(model="demo", max_tokens=6, system="Be brief.", messages=HELLO)
    assert answer.content[0].text and answer.usage.output_tokens > 0
    assert answer.stop_reason in ("end_turn", "max_tokens")


def test_stream(client):
    with client.messages.stream(model="demo", max_tokens=6, messages=HELLO) as stream:
        text = "".join(stream.text_stream)
        assert text == stream.get_final_message().content[0].text
    kinds = [e.type for e in client.messages.create(model="demo", max_tokens=6, messages=HELLO, stream=True)]
    assert kinds[0] == "message_start" and kinds[-1] == "message_stop"


def test_usage_is_counted(client, site):
    before = site.router.metric("kthena_router_tokens_total", token_type="output", path="/v1/messages")
    client.messages.create(model="demo", max_tokens=6, messages=HELLO)
    list(client.messages.create(model="demo", max_tokens=6, messages=HELLO, stream=True))
    wait_for(lambda: site.router.metric("kthena_router_tokens_total", token_type="output", path="/v1/messages")
             == before + 12, 3)


def test_tools_round_trip(client):
    first = client.messages.create(model="demo", max_tokens=50, messages=HELLO, tools=TOOLS)
    call = next(b for b in first.content if b.type == "tool_use")
    assert call.name == "get_weather" and "city" in call.input and first.stop_reason == "tool_use"
    second = client.messages.create(model="demo", max_tokens=5, tools=TOOLS, messages=[
        *HELLO, {"role": "assistant", "content": first.content},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "sunny"}]}])
    assert second.content[0].type == "text"


def test_count_tokens(client):
    assert client.messages.count_tokens(model="demo", messages=HELLO).input_tokens > 0


@pytest.mark.parametrize("model, status, kind", [
    ("nope", 404, "not_found_error"), ("empty", 503, "overloaded_error"), ("", 400, "invalid_request_error")])
def test_errors_of_the_router(client, model, status, kind):
    with pytest.raises(anthropic.APIStatusError) as caught:
        client.messages.create(model=model, max_tokens=6, messages=HELLO)
    error = caught.value
    assert error.status_code == status
    assert error.body["type"] == "error" and error.body["error"]["type"] == kind
    if status == 404:
        assert isinstance(error, anthropic.NotFoundError)
    if status == 400:
        assert isinstance(error, anthropic.BadRequestError)


@pytest.mark.parametrize("status, error", [
    (401, anthropic.AuthenticationError), (422, anthropic.UnprocessableEntityError), (429, anthropic.RateLimitError),
    (500, anthropic.InternalServerError)])
def test_errors_of_the_engine(client, status, error):
    with pytest.raises(error):
        client.messages.create(model="demo", max_tokens=6, messages=HELLO,
                               extra_headers={"x-mock-fault": f"status={status}"})


def test_client_retries(client, site):
    site.faults("status=503")
    assert client.with_options(max_retries=2).messages.create(model="demo", max_tokens=2, messages=HELLO).content


def test_client_time_out_cancels(client, site):
    before = sum(site.control(n)["cancelled"] for n in (1, 2))
    with pytest.raises(anthropic.APITimeoutError):
        client.with_options(timeout=0.4).messages.create(model="demo", max_tokens=2, messages=HELLO,
                                                         extra_headers={"x-mock-fault": "delay=60000"})
    wait_for(lambda: sum(site.control(n)["cancelled"] for n in (1, 2)) == before + 1, 3 * SLOW, "cancelled")


def test_cut_stream_raises(client):
    with pytest.raises(Exception) as caught:
        for _ in client.messages.create(model="demo", max_tokens=20, messages=HELLO, stream=True,
                                        extra_headers={"x-mock-fault": "reset=mid-stream"}):
            pass
    assert isinstance(caught.value, anthropic.APIError) or "peer" in str(caught.value)
