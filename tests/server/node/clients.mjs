// The server at $ORRERY_URL through JavaScript's clients; run by node_clients_test.py.
import assert from 'node:assert/strict';
import {test} from 'node:test';

import {createOpenAICompatible} from '@ai-sdk/openai-compatible';
import {embedMany, generateObject, generateText, jsonSchema, streamText, tool} from 'ai';
import {Ollama} from 'ollama';
import OpenAI from 'openai';

const url = process.env.ORRERY_URL;
const model = process.env.ORRERY_MODEL;
const messages = [{role: 'user', content: 'What is the capital of France?'}];
const place = {
  type: 'object',
  properties: {city: {type: 'string', maxLength: 12}},
  required: ['city'],
  additionalProperties: false,
};
const tools = [{
  type: 'function',
  function: {name: 'get_weather', description: 'The weather.', parameters: place},
}];
const tooLong = [{role: 'user', content: 'word '.repeat(3000)}];

function assertPlace(value) {
  assert.deepEqual(Object.keys(value), ['city']);
  assert.equal(typeof value.city, 'string');
}

async function metric(name) {
  const text = await (await fetch(url + '/metrics')).text();
  return Number(text.match(new RegExp(`^${name}\\{[^}]*\\} (\\S+)$`, 'm'))[1]);
}

// `leave` goes away from an answer that has begun; its generation ends.
async function assertCancels(leave) {
  const before = await metric('orrery_requests_cancelled_total');
  await leave();
  for (let tries = 0; tries < 400; ++tries) {
    if (await metric('orrery_requests_cancelled_total') > before) return;
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
  assert.fail('the generation goes on');
}

const openai = new OpenAI({baseURL: url + '/v1', apiKey: 'none', maxRetries: 0});
const chat = (fields) => openai.chat.completions.create(
    {model, messages, temperature: 0, max_tokens: 24, ...fields});

test('openai: whole and streamed', async () => {
  const whole = await chat({});
  let text = '', usage;
  for await (const chunk of await chat({stream: true, stream_options: {include_usage: true}})) {
    text += chunk.choices[0]?.delta?.content ?? '';
    usage = chunk.usage ?? usage;
  }
  assert.ok(text);
  assert.equal(text, whole.choices[0].message.content);
  assert.equal(usage.completion_tokens, whole.usage.completion_tokens);
});

test('openai: responses', async () => {
  const ask = {model, input: messages[0].content, temperature: 0, max_output_tokens: 24};
  const whole = await openai.responses.create(ask);
  let text = '';
  for await (const event of await openai.responses.create({...ask, stream: true})) {
    if (event.type === 'response.output_text.delta') text += event.delta;
  }
  assert.ok(text);
  assert.equal(text, whole.output_text);
});

test('openai: tools and a schema', async () => {
  const asked = {tools, tool_choice: {type: 'function', function: {name: 'get_weather'}},
    max_tokens: 60};
  const [call] = (await chat(asked)).choices[0].message.tool_calls;
  assert.equal(call.function.name, 'get_weather');
  assertPlace(JSON.parse(call.function.arguments));
  const stream = openai.chat.completions.stream({model, messages, temperature: 0, ...asked});
  const [streamed] = (await stream.finalMessage()).tool_calls;
  assert.equal(streamed.function.arguments, call.function.arguments);
  const formed = await chat({max_tokens: 60, response_format: {
    type: 'json_schema', json_schema: {name: 'place', schema: place, strict: true}}});
  assertPlace(JSON.parse(formed.choices[0].message.content));
});

test('openai: embeddings', async () => {
  const {data} = await openai.embeddings.create({model, input: ['a', 'b']});
  assert.equal(data.length, 2);
  assert.equal(data[0].embedding.length, data[1].embedding.length);
});

test('openai: errors', async () => {
  await assert.rejects(chat({model: 'other'}), OpenAI.NotFoundError);
  await assert.rejects(chat({messages: tooLong}), OpenAI.BadRequestError);
});

test('openai: leaving', () => assertCancels(async () => {
  const stream = await chat({stream: true, max_tokens: 2000, ignore_eos: true});
  for await (const chunk of stream) {
    if (chunk.choices[0].delta.content) stream.controller.abort();
  }
}));

const ollama = new Ollama({host: url});
const options = {temperature: 0, num_predict: 24};

test('ollama: whole and streamed', async () => {
  const whole = await ollama.chat({model, messages, options});
  let text = '', last;
  for await (const part of await ollama.chat({model, messages, options, stream: true})) {
    text += part.message.content;
    last = part;
  }
  assert.ok(text);
  assert.equal(text, whole.message.content);
  assert.equal(last.done, true);
  const {response} = await ollama.generate({model, prompt: 'One, two, three,', raw: true, options});
  assert.match(response, /four/);
});

test('ollama: tools, a schema, embeddings', async () => {
  const formed = await ollama.chat({model, messages, format: place,
    options: {...options, num_predict: 60}});
  assertPlace(JSON.parse(formed.message.content));
  const called = await ollama.chat({model, messages, tools, options});
  assert.ok(called.message.content || called.message.tool_calls);
  const {embeddings} = await ollama.embed({model, input: ['a', 'b']});
  assert.equal(embeddings.length, 2);
});

test('ollama: errors', async () => {
  await assert.rejects(ollama.chat({model: 'other', messages}), {status_code: 404});
  await assert.rejects(ollama.chat({model, messages: tooLong}), {status_code: 400});
});

test('ollama: leaving', () => assertCancels(async () => {
  const stream = await ollama.chat({model, messages, stream: true,
    options: {num_predict: 2000, temperature: 1.5}});
  try {
    for await (const part of stream) {
      if (part.message.content) stream.abort();
    }
  } catch (error) {
    assert.equal(error.name, 'AbortError');
  }
}));

const provider = createOpenAICompatible({name: 'orrery', baseURL: url + '/v1',
  supportsStructuredOutputs: true, includeUsage: true});
const ask = {model: provider(model), messages, temperature: 0, maxOutputTokens: 24, maxRetries: 0};

test('ai: whole and streamed', async () => {
  const whole = await generateText(ask);
  const stream = streamText(ask);
  let text = '';
  for await (const part of stream.textStream) text += part;
  assert.ok(text);
  assert.equal(text, whole.text);
  assert.equal((await stream.usage).outputTokens, whole.usage.outputTokens);
});

test('ai: tools and a schema', async () => {
  const weather = tool({description: 'The weather.', inputSchema: jsonSchema(place)});
  const asked = {...ask, maxOutputTokens: 60, tools: {get_weather: weather},
    toolChoice: {type: 'tool', toolName: 'get_weather'}};
  const [call] = (await generateText(asked)).toolCalls;
  assert.equal(call.toolName, 'get_weather');
  assertPlace(call.input);
  const [streamed] = await streamText(asked).toolCalls;
  assert.deepEqual(streamed.input, call.input);
  const {object} = await generateObject({...ask, maxOutputTokens: 60, schema: jsonSchema(place)});
  assertPlace(object);
});

test('ai: embeddings', async () => {
  const {embeddings} = await embedMany({model: provider.textEmbeddingModel(model),
    values: ['a', 'b']});
  assert.equal(embeddings.length, 2);
});

test('ai: errors', async () => {
  await assert.rejects(generateText({...ask, model: provider('other')}), {statusCode: 404});
  await assert.rejects(generateText({...ask, messages: tooLong}), {statusCode: 400});
});

test('ai: leaving', () => assertCancels(async () => {
  const leaving = new AbortController();
  const stream = streamText({...ask, maxOutputTokens: 2000, abortSignal: leaving.signal,
    providerOptions: {orrery: {ignore_eos: true}}});
  for await (const part of stream.textStream) {
    if (part) leaving.abort();
  }
}));
