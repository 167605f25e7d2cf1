#!/usr/bin/env python3
"""`orrery serve` with the default model, as OpenAI's own client sees it."""

import json
import math
import threading

import service

service.needs("openai")
import openai  # noqa: E402

MODEL = service.MODEL
QUESTION = [{"role": "user", "content": "What is the capital of France?"}]


class Openai(service.ServedCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.client = openai.OpenAI(base_url=cls.server.url + "/v1", api_key="none", max_retries=0)

    def chat(self, **fields):
        return self.client.chat.completions.create(**{
            "model": MODEL, "messages": QUESTION, "temperature": 0, "max_tokens": 16, **fields})

    def test_chat(self):
        answer = self.chat()
        self.assertTrue(answer.choices[0].message.content)
        self.assertEqual(answer.choices[0].message.role, "assistant")
        self.assertIn(answer.choices[0].finish_reason, ("stop", "length"))
        self.assertEqual(answer.object, "chat.completion")
        self.assertEqual(answer.usage.total_tokens,
                         answer.usage.prompt_tokens + answer.usage.completion_tokens)

    def test_a_stream_says_the_same(self):
        whole = self.chat()
        chunks = list(self.chat(stream=True, stream_options={"include_usage": True}))
        self.assertEqual(len({chunk.id for chunk in chunks}), 1)
        *body, last = chunks
        self.assertEqual(last.choices, [])
        self.assertEqual(last.usage.completion_tokens, whole.usage.completion_tokens)
        self.assertEqual(body[0].choices[0].delta.role, "assistant")
        self.assertTrue(all(chunk.choices[0].delta.role is None for chunk in body[1:]))
        texts = [chunk.choices[0].delta.content for chunk in body[1:-1]]
        self.assertTrue(all(texts))
        self.assertEqual("".join(texts), whole.choices[0].message.content)
        reasons = [chunk.choices[0].finish_reason for chunk in body]
        self.assertEqual(reasons, [None] * (len(body) - 1) + [whole.choices[0].finish_reason])

    def test_stream_on_the_wire(self):
        status, headers, body = self.server.request(
            "POST", "/v1/chat/completions",
            {"messages": QUESTION, "max_tokens": 3, "stream": True})
        self.assertEqual(status, 200)
        self.assertEqual(headers["Content-Type"], "text/event-stream")
        events = body.decode().split("\n\n")
        self.assertEqual(events[-2:], ["data: [DONE]", ""])
        for event in events[:-2]:
            self.assertTrue(event.startswith("data: {"), event)
            self.assertNotIn("usage", json.loads(event[6:]))

    def test_several_answers_stops_and_seeds(self):
        fields = {"n": 3, "seed": 7, "temperature": 1.5, "max_tokens": 8}
        first, second = self.chat(**fields), self.chat(**fields)
        texts = [choice.message.content for choice in first.choices]
        self.assertEqual([choice.index for choice in first.choices], [0, 1, 2])
        self.assertEqual(texts, [choice.message.content for choice in second.choices])
        self.assertGreater(len(set(texts)), 1)
        whole = self.chat().choices[0].message.content
        word = whole.split()[2]
        stopped = self.chat(stop=[word])
        self.assertEqual(stopped.choices[0].message.content, whole[:whole.index(word)])
        self.assertEqual(stopped.choices[0].finish_reason, "stop")
        self.assertEqual(self.chat(max_tokens=1).choices[0].finish_reason, "length")

    def test_logprobs(self):
        for top in (None, 3):
            extra = {} if top is None else {"top_logprobs": top}
            choice = self.chat(logprobs=True, **extra).choices[0]
            entries = choice.logprobs.content
            self.assertEqual("".join(entry.token for entry in entries).strip(),
                             choice.message.content.strip())
            self.assertTrue(all(len(entry.top_logprobs) == (top or 0) for entry in entries))
            self.assertTrue(all(-50 < entry.logprob <= 0 for entry in entries))
        streamed = [entry for chunk in self.chat(logprobs=True, stream=True)
                    for entry in (chunk.choices[0].logprobs.content
                                  if chunk.choices[0].logprobs else [])]
        self.assertEqual([entry.token for entry in streamed], [entry.token for entry in entries])

    def test_logit_bias_bans(self):
        token = self.chat(logprobs=True).choices[0].logprobs.content[0].token
        _, _, body = self.server.request("POST", "/v1/completions", {"prompt": "The", "echo": True})
        self.assertIn("The", json.loads(body)["choices"][0]["text"])
        for bias in ({"-1": 1}, {"abc": 1}, {"1": "x"}, {str(10 ** 6): 1}, {"1": 1e39}):
            with self.assertRaises(openai.BadRequestError, msg=bias):
                self.chat(logit_bias=bias)
        banned = {str(i): -100 for i in range(4000)}
        self.assertNotEqual(self.chat(logit_bias=banned, max_tokens=1, logprobs=True)
                            .choices[0].logprobs.content[0].token, token)

    def test_a_second_turn_reuses_the_first(self):
        story = [{"role": "user", "content": "Tell me about the sea. " * 40}]
        first = self.chat(messages=story)
        turn = story + [{"role": "assistant", "content": first.choices[0].message.content},
                        {"role": "user", "content": "Go on."}]
        second = self.chat(messages=turn)
        self.assertGreater(second.usage.prompt_tokens_details.cached_tokens, 200)

    def test_completions(self):
        answer = self.client.completions.create(model=MODEL, prompt="One, two, three,",
                                                max_tokens=8, temperature=0, logprobs=2)
        choice = answer.choices[0]
        self.assertIn("four", choice.text)
        self.assertEqual("".join(choice.logprobs.tokens), choice.text)
        chunks = list(self.client.completions.create(model=MODEL, prompt="One, two, three,",
                                                     max_tokens=8, temperature=0, stream=True))
        self.assertEqual("".join(chunk.choices[0].text for chunk in chunks), choice.text)

    def test_models(self):
        self.assertEqual([model.id for model in self.client.models.list()], [MODEL])
        self.assertEqual(self.client.models.retrieve(MODEL).id, MODEL)
        self.assertEqual(self.chat(model="default").model, MODEL)
        for name in ("gpt-4", "../../etc/passwd", "x" * 100000, "a\0b"):
            with self.assertRaises(openai.NotFoundError) as caught:
                self.chat(model=name)
            self.assertEqual(caught.exception.code, "model_not_found")

    def test_embeddings(self):
        texts = ["The cat sat.", "Ein Satz."]
        plain = self.client.embeddings.create(model=MODEL, input=texts, encoding_format="float")
        packed = self.client.embeddings.create(model=MODEL, input=texts)  # base64 on the wire
        for one, other in zip(plain.data, packed.data):
            self.assertEqual(len(one.embedding), len(other.embedding))
            self.assertTrue(math.isclose(sum(x * x for x in one.embedding), 1, rel_tol=1e-3))
            self.assertTrue(all(math.isclose(a, b, abs_tol=1e-5)
                                for a, b in zip(one.embedding, other.embedding)))
        for bad in ("", [], [""], [-1], [10 ** 9], [[1], "a"], 5, {"a": 1}):
            with self.assertRaises(openai.BadRequestError, msg=bad):
                self.client.embeddings.create(model=MODEL, input=bad)

    def test_wrong_parameters_are_named(self):
        wrong = {"temperature": (-1, "1", 1e38), "top_p": (-0.1, 1.1), "min_p": (2,),
                 "top_k": (-2, 2 ** 31, 0.5), "max_tokens": (0, -2, 2 ** 31, "10", 1.5),
                 "n": (0, 17, 10 ** 6), "seed": (1.5, 2 ** 64), "top_logprobs": (-1, 21),
                 "stop": ("", ["a"] * 17, ["x" * 257], [1], 5), "stream": ("yes",),
                 "stream_options": (5,), "repeat_penalty": (-1, 0), "dry_base": (0.5,),
                 "dry_allowed_length": (-1,), "mirostat": (3,), "chat_template": ("{{ 1 }}",)}
        for name, values in wrong.items():
            for value in values:
                status, _, body = self.server.request(
                    "POST", "/v1/chat/completions",
                    {"messages": QUESTION, "logprobs": True, "max_tokens": 1, name: value})
                error = json.loads(body)["error"]
                self.assertEqual((status, error["param"]), (400, name), f"{name}={value}: {error}")
                self.assertEqual(error["type"], "invalid_request_error")

    def test_a_prompt_that_is_too_long(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.chat(messages=[{"role": "user", "content": "word " * 3000}])
        self.assertEqual(caught.exception.code, "context_length_exceeded")
        self.assertIn("exceeds the available context size", str(caught.exception))

    def test_many_at_once_answer_as_one_alone(self):
        alone = self.chat().choices[0].message.content
        answers = []
        threads = [threading.Thread(
            target=lambda: answers.append(self.chat().choices[0].message.content))
            for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(answers, [alone] * 8)

    def test_a_client_that_goes_away_is_forgotten(self):
        for stream in (True, False):
            before = self.server.metric("orrery_requests_cancelled_total")
            body = json.dumps({"messages": QUESTION, "stream": stream, "ignore_eos": True}).encode()
            head = ("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                    f"application/json\r\nContent-Length: {len(body)}\r\n\r\n").encode()
            with self.server.connect() as client:
                client.sendall(head + body)
                self.assertTrue(service.eventually(
                    lambda: self.server.metric("orrery_requests_running") == 1))
            self.assertTrue(service.eventually(
                lambda: self.server.metric("orrery_requests_cancelled_total") > before), stream)


if __name__ == "__main__":
    service.main()
