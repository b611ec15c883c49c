// The official OpenAI client for Node, against WR_URL (test_openai_node.py starts everything).
import assert from 'node:assert/strict';
import { test } from 'node:test';
import OpenAI from 'openai';

const client = new OpenAI({ baseURL: process.env.WR_URL + '/v1', apiKey: 'sk-test', maxRetries: 0, timeout: 20000 });
const messages = [{ role: 'user', content: 'Say hello.' }];
const tools = [{ type: 'function', function: { name: 'get_weather', parameters: {
  type: 'object', properties: { city: { type: 'string' } }, required: ['city'] } } }];
const fault = (text) => ({ headers: { 'x-mock-fault': text } });

async function setFaults(text) {
  for (const url of process.env.WR_ENGINES.split(','))
    await fetch(url + '/control', { method: 'POST', body: JSON.stringify({ faults: [{ fault: text, count: 1 }] }) });
}

async function cancelled() {
  let sum = 0;
  for (const url of process.env.WR_ENGINES.split(',')) sum += (await (await fetch(url + '/control')).json()).cancelled;
  return sum;
}

async function until(check) {
  for (const end = Date.now() + 5000; Date.now() < end;) {
    if (await check()) return;
    await new Promise((done) => setTimeout(done, 20));
  }
  assert.fail('not within 5 s');
}

test('chat', async () => {
  const answer = await client.chat.completions.create({ model: 'demo', messages, max_tokens: 8 });
  assert.ok(answer.choices[0].message.content);
  assert.equal(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens);
  assert.ok(answer._request_id);
});

test('chat stream: the usage event that the router asked for is not seen', async () => {
  let text = '';
  for await (const chunk of await client.chat.completions.create({ model: 'demo', messages, max_tokens: 8, stream: true })) {
    assert.equal(chunk.choices.length, 1);
    text += chunk.choices[0].delta.content ?? '';
  }
  assert.ok(text);
});

test('chat stream with usage', async () => {
  let last;
  for await (const chunk of await client.chat.completions.create(
    { model: 'demo', messages, max_tokens: 8, stream: true, stream_options: { include_usage: true } })) last = chunk;
  assert.equal(last.usage.completion_tokens, 8);
});

test('stream helper', async () => {
  const stream = client.chat.completions.stream({ model: 'demo', messages });
  assert.ok((await stream.finalChatCompletion()).choices[0].message.content);
});

test('completions', async () => {
  assert.ok((await client.completions.create({ model: 'demo', prompt: 'Once', max_tokens: 5 })).choices[0].text);
  let text = '';
  for await (const chunk of await client.completions.create({ model: 'demo', prompt: 'Once', max_tokens: 5, stream: true }))
    text += chunk.choices[0].text;
  assert.ok(text);
});

test('tools round trip', async () => {
  const first = await client.chat.completions.create({ model: 'demo', messages, tools });
  const call = first.choices[0].message.tool_calls[0];
  assert.equal(call.function.name, 'get_weather');
  assert.ok('city' in JSON.parse(call.function.arguments));
  const second = await client.chat.completions.create({ model: 'demo', tools, max_tokens: 5, messages: [
    ...messages, first.choices[0].message, { role: 'tool', tool_call_id: call.id, content: 'sunny' }] });
  assert.ok(second.choices[0].message.content);
});

test('responses', async () => {
  const answer = await client.responses.create({ model: 'demo', input: 'hi', instructions: 'brief' });
  assert.ok(answer.output_text);
  const kinds = [];
  for await (const event of await client.responses.create({ model: 'demo', input: 'hi', stream: true }))
    kinds.push(event.type);
  assert.equal(kinds[0], 'response.created');
  assert.equal(kinds.at(-1), 'response.completed');
});

test('embeddings', async () => {
  const answer = await client.embeddings.create({ model: 'demo', input: ['a', 'b'] });
  assert.equal(answer.data.length, 2);
  assert.ok(answer.data[0].embedding.length > 1);
});

test('models', async () => {
  const ids = [];
  for await (const model of client.models.list()) ids.push(model.id);
  assert.deepEqual(ids, ['demo', 'empty', 'lora-1', 'quick']);
  assert.equal((await client.models.retrieve('demo')).id, 'demo');
});

for (const [model, kind, code] of [['nope', OpenAI.NotFoundError, 'route_not_found'],
  ['empty', OpenAI.InternalServerError, 'pod_discovery'], ['', OpenAI.BadRequestError, 'request_parsing']])
  test(`error of the router: ${code}`, async () => {
    await assert.rejects(client.chat.completions.create({ model, messages }), (error) => {
      assert.ok(error instanceof kind);
      assert.equal(error.code, code);
      assert.ok(error.requestID);
      return true;
    });
  });

for (const [status, kind] of [[400, OpenAI.BadRequestError], [401, OpenAI.AuthenticationError],
  [403, OpenAI.PermissionDeniedError], [422, OpenAI.UnprocessableEntityError], [429, OpenAI.RateLimitError],
  [500, OpenAI.InternalServerError]])
  test(`error of the engine: ${status}`, async () => {
    await assert.rejects(client.chat.completions.create({ model: 'demo', messages }, fault(`status=${status}`)), kind);
  });

test('client retries', async () => {
  await setFaults('status=503');
  assert.ok((await client.chat.completions.create({ model: 'demo', messages, max_tokens: 2 }, { maxRetries: 2 })).choices);
});

test('client time-out cancels the engine\'s request', async () => {
  const before = await cancelled();
  await assert.rejects(client.chat.completions.create({ model: 'demo', messages },
    { ...fault('delay=60000'), timeout: 400 }), OpenAI.APIConnectionTimeoutError);
  await until(async () => (await cancelled()) === before + 1);
});

test('leaving a stream cancels the engine\'s request', async () => {
  const before = await cancelled();
  const stream = await client.chat.completions.create({ model: 'demo', messages, max_tokens: 2000, stream: true });
  for await (const chunk of stream) {
    assert.ok(chunk);
    break;
  }
  await until(async () => (await cancelled()) === before + 1);
});

test('cut stream throws', async () => {
  await assert.rejects(async () => {
    for await (const chunk of await client.chat.completions.create(
      { model: 'demo', messages, max_tokens: 20, stream: true }, fault('reset=mid-stream'))) assert.ok(chunk);
  });
});
