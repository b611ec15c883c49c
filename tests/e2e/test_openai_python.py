"""The official OpenAI client for Python."""

import json
import time

import openai
import pytest
from support.router import SLOW, wait_for

HELLO = [{"role": "user", "content": "Say hello."}]
TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "Weather of a city", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]


@pytest.fixture(name="client")
def _client(site):
    with openai.OpenAI(base_url=site.url + "/v1", api_key="sk-test", max_retries=0, timeout=20) as client:
        yield client


def test_chat(client):
    answer = client.chat.completions.create(model="demo", messages=HELLO, max_tokens=8)
    assert answer.choices[0].message.role == "assistant" and answer.choices[0].message.content
    assert answer.choices[0].finish_reason in ("stop", "length")
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert answer.model == "demo-real"
    assert answer._request_id  # pylint: disable=protected-access


def test_chat_stream_without_usage_asked(client, site):
    chunks = list(client.chat.completions.create(model="demo", messages=HELLO, max_tokens=8, stream=True))
    assert "".join(c.choices[0].delta.content or "" for c in chunks)
    assert all(c.choices for c in chunks)  # the usage event that the router asked for is not seen
    assert all(c.usage is None for c in chunks)
    wait_for(lambda: json.loads(site.router.log_lines()[-1]).get("output_tokens"), 3)


def test_chat_stream_with_usage_asked(client):
    chunks = list(client.chat.completions.create(model="demo", messages=HELLO, max_tokens=8, stream=True,
                                                 stream_options={"include_usage": True}))
    assert chunks[-1].usage.completion_tokens == 8 and chunks[-1].choices == []


def test_stream_helper(client):
    with client.chat.completions.stream(model="demo", messages=HELLO) as stream:
        text = "".join(e.delta for e in stream if e.type == "content.delta")
        assert stream.get_final_completion().choices[0].message.content == text


def test_completions(client):
    answer = client.completions.create(model="demo", prompt="Once upon", max_tokens=5)
    assert answer.choices[0].text and answer.usage.completion_tokens == 5
    pieces = [c.choices[0].text for c in client.completions.create(model="demo", prompt="Once", max_tokens=5,
                                                                   stream=True)]
    assert "".join(pieces)


def test_completions_of_a_list_and_of_token_ids(client):
    assert client.completions.create(model="demo", prompt=["a", "b"], max_tokens=2).choices
    assert client.completions.create(model="demo", prompt=[1, 2, 3], max_tokens=2).choices


def test_tools_round_trip(client):
    first = client.chat.completions.create(model="demo", messages=HELLO, tools=TOOLS)
    call = first.choices[0].message.tool_calls[0]
    assert call.function.name == "get_weather" and "city" in json.loads(call.function.arguments)
    second = client.chat.completions.create(model="demo", tools=TOOLS, max_tokens=5, messages=[
        *HELLO, first.choices[0].message, {"role": "tool", "tool_call_id": call.id, "content": "sunny"}])
    assert second.choices[0].message.content


def test_tools_in_a_stream(client):
    name, arguments = "", ""
    for chunk in client.chat.completions.create(model="demo", messages=HELLO, tools=TOOLS, stream=True):
        for call in (chunk.choices[0].delta.tool_calls or []) if chunk.choices else []:
            name += call.function.name or ""
            arguments += call.function.arguments or ""
    assert name == "get_weather" and "city" in json.loads(arguments)


def test_responses(client):
    answer = client.responses.create(model="demo", input="Say hello.", instructions="Be brief.")
    assert answer.output_text and answer.usage.output_tokens > 0


def test_responses_stream(client):
    events = list(client.responses.create(model="demo", input=[{"role": "user", "content": "hi"}],
                                          stream=True))
    assert events[0].type == "response.created" and events[-1].type == "response.completed"
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta")


def test_embeddings(client):
    one = client.embeddings.create(model="demo", input="hello")
    two = client.embeddings.create(model="demo", input=["hello", "world"], encoding_format="float")
    assert len(one.data) == 1 and len(two.data) == 2 and len(two.data[0].embedding) > 1
    assert [round(x, 5) for x in one.data[0].embedding] == [round(x, 5) for x in two.data[0].embedding]


def test_models(client):
    assert [m.id for m in client.models.list()] == ["demo", "empty", "lora-1", "quick"]
    assert client.models.retrieve("demo").id == "demo"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("nope")


def test_adapter(client):
    assert client.chat.completions.create(model="lora-1", messages=HELLO, max_tokens=2).model == "lora-1"


def test_second_identical_request_goes_to_the_same_engine(client):
    messages = [{"role": "user", "content": f"{time.time()} " + "shared prefix " * 100}]
    engines = set()
    for _ in range(4):
        raw = client.chat.completions.with_raw_response.create(model="demo", messages=messages, max_tokens=2)
        engines.add(raw.headers["x-mock-engine"])
        time.sleep(0.05)
    assert len(engines) == 1
    assert raw.parse().usage.prompt_tokens_details.cached_tokens > 0


def test_unicode_and_odd_content(client, site):
    text = "日本語 \U0001f600 <&> \u2028 \" \\ \x00 é"
    raw = client.chat.completions.with_raw_response.create(
        model="demo", messages=[{"role": "user", "content": text}], max_tokens=1, seed=9007199254740993,
        extra_headers={"x-mock-echo": "1"})
    body = json.loads(json.loads(raw.content)["body"])
    assert body["messages"][0]["content"] == text and body["seed"] == 9007199254740993
    assert site


@pytest.mark.parametrize("model, error, code", [
    ("nope", openai.NotFoundError, "route_not_found"),
    ("empty", openai.InternalServerError, "pod_discovery"),
    ("", openai.BadRequestError, "request_parsing"),
])
def test_errors_of_the_router(client, model, error, code):
    with pytest.raises(error) as caught:
        client.chat.completions.create(model=model, messages=HELLO)
    assert caught.value.code == code and caught.value.type and caught.value.request_id
    assert caught.value.body["message"]


def test_too_large(client):
    with pytest.raises(openai.APIStatusError) as caught:
        client.chat.completions.create(model="demo", messages=[{"role": "user", "content": "x" * 1_100_000}])
    assert caught.value.status_code == 413 and caught.value.type == "invalid_request_error"


@pytest.mark.parametrize("status, error", [
    (400, openai.BadRequestError), (401, openai.AuthenticationError), (403, openai.PermissionDeniedError),
    (409, openai.ConflictError), (422, openai.UnprocessableEntityError), (429, openai.RateLimitError),
    (500, openai.InternalServerError),
])
def test_errors_of_the_engine(client, status, error):
    with pytest.raises(error) as caught:
        client.chat.completions.create(model="demo", messages=HELLO, extra_headers={"x-mock-fault": f"status={status}"})
    assert caught.value.status_code == status


def test_only_time_outs_are_504(client):
    with pytest.raises(openai.InternalServerError) as caught:
        client.chat.completions.create(model="quick", messages=HELLO,
                                       extra_headers={"x-mock-fault": "stall=before-headers"})
    assert caught.value.status_code == 504 and caught.value.type == "timeout_error"


def test_failing_engine_is_not_seen(client):
    for number in (1, 2):
        for _ in range(3):
            client.chat.completions.create(model="demo", messages=[{"role": "user", "content": str(time.time())}],
                                           max_tokens=1, extra_headers={"x-mock-fault": f"status=503;only=e-{number}"})


def test_client_retries(client, site):
    site.faults("status=503")
    answer = client.with_options(max_retries=2).chat.completions.create(model="demo", messages=HELLO, max_tokens=2)
    assert answer.choices
    site.faults("status=429;retry-after=1")
    started = time.monotonic()
    assert client.with_options(max_retries=1).chat.completions.create(model="demo", messages=HELLO, max_tokens=2)
    assert time.monotonic() - started >= 0.9  # Retry-After was passed on


def test_client_time_out_cancels_the_engines_request(client, site):
    before = sum(site.control(n)["cancelled"] for n in (1, 2))
    with pytest.raises(openai.APITimeoutError):
        client.with_options(timeout=0.4).chat.completions.create(
            model="demo", messages=HELLO, extra_headers={"x-mock-fault": "delay=60000"})
    wait_for(lambda: sum(site.control(n)["cancelled"] for n in (1, 2)) == before + 1, 3 * SLOW, "cancelled")


def test_leaving_a_stream_cancels_the_engines_request(client, site):
    before = sum(site.control(n)["cancelled"] for n in (1, 2))
    stream = client.chat.completions.create(model="demo", messages=HELLO, max_tokens=2000, stream=True)
    next(iter(stream))
    stream.close()
    wait_for(lambda: sum(site.control(n)["cancelled"] for n in (1, 2)) == before + 1, 3 * SLOW, "cancelled")


def test_cut_stream_raises(client):
    with pytest.raises(Exception) as caught:
        for _ in client.chat.completions.create(model="demo", messages=HELLO, max_tokens=20, stream=True,
                                                extra_headers={"x-mock-fault": "reset=mid-stream"}):
            pass
    assert isinstance(caught.value, openai.APIError) or "incomplete" in str(caught.value) or "peer" in str(caught.value)


def test_connection_refused(site):
    client = openai.OpenAI(base_url=site.url.replace(":8080", ":8081") + "/v1", api_key="x", max_retries=0)
    with pytest.raises(openai.APIConnectionError):
        client.models.list()


def test_async_client(site):
    import asyncio

    async def run():
        async with openai.AsyncOpenAI(base_url=site.url + "/v1", api_key="x", max_retries=0) as client:
            async def one(number):
                text = ""
                async for chunk in await client.chat.completions.create(
                        model="demo", messages=[{"role": "user", "content": str(number)}], max_tokens=5, stream=True):
                    text += chunk.choices[0].delta.content or ""
                return text

            return await asyncio.gather(*(one(n) for n in range(20)))

    assert all(asyncio.run(run()))
