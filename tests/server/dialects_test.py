#!/usr/bin/env python3
"""`orrery serve` as the clients of Anthropic, Ollama and llama.cpp see it."""

import json

import service

service.needs("anthropic", "ollama")
import anthropic  # noqa: E402
import ollama  # noqa: E402

MODEL = service.MODEL
QUESTION = [{"role": "user", "content": "What is the capital of France?"}]


class Dialects(service.ServedCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.claude = anthropic.Anthropic(base_url=cls.server.url, api_key="none", max_retries=0)
        cls.llama = ollama.Client(host=cls.server.url)

    def message(self, **fields):
        return {"model": MODEL, "messages": QUESTION, "max_tokens": 16,
                "extra_body": {"temperature": 0}, **fields}

    def test_messages(self):
        answer = self.claude.messages.create(**self.message())
        self.assertTrue(answer.content[0].text)
        self.assertIn(answer.stop_reason, ("end_turn", "max_tokens"))
        with self.claude.messages.stream(**self.message()) as stream:
            text = "".join(stream.text_stream)
            final = stream.get_final_message()
        self.assertEqual(text, answer.content[0].text)
        self.assertEqual(final.stop_reason, answer.stop_reason)
        self.assertEqual(final.usage.output_tokens, answer.usage.output_tokens)
        word = text.split()[2]
        stopped = self.claude.messages.create(**self.message(stop_sequences=[word]))
        self.assertEqual((stopped.stop_reason, stopped.stop_sequence), ("stop_sequence", word))
        self.assertEqual(stopped.content[0].text, text[:text.index(word)])

    def test_messages_count_their_tokens(self):
        counted = self.claude.messages.count_tokens(model=MODEL, messages=QUESTION,
                                                    system=[{"type": "text", "text": "Be brief."}])
        answer = self.claude.messages.create(**self.message(system="Be brief.", max_tokens=1))
        self.assertEqual(counted.input_tokens,
                         answer.usage.input_tokens + answer.usage.cache_read_input_tokens)

    def test_messages_are_refused(self):
        for fields in ({"messages": []}, {"max_tokens": 0}, {"extra_body": {"temperature": -1}},
                       {"messages": [{"role": "system", "content": "a"}]},
                       {"messages": [{"role": "user", "content": [{"type": "image"}]}]}):
            with self.assertRaises(anthropic.BadRequestError, msg=fields):
                self.claude.messages.create(**self.message(**fields))
        with self.assertRaises(anthropic.NotFoundError):
            self.claude.messages.create(**self.message(model="other"))

    def test_ollama_chat(self):
        options = {"temperature": 0, "num_predict": 16}
        answer = self.llama.chat(MODEL, messages=QUESTION, options=options)
        self.assertTrue(answer.message.content)
        self.assertTrue(answer.done)
        *parts, last = self.llama.chat(MODEL, messages=QUESTION, options=options, stream=True)
        self.assertEqual("".join(part.message.content for part in parts), answer.message.content)
        self.assertEqual([part.done for part in parts], [False] * len(parts))
        self.assertTrue(last.done)
        self.assertEqual(last.eval_count, answer.eval_count)
        self.assertEqual(last.done_reason, answer.done_reason)

    def test_ollama_generate(self):
        answer = self.llama.generate(MODEL, "One, two, three,", raw=True,
                                     options={"temperature": 0, "num_predict": 8})
        self.assertIn("four", answer.response)
        self.assertEqual(self.llama.generate(MODEL, "").done_reason, "load")
        text = "".join(part.response for part in self.llama.generate(
            MODEL + ":latest", "Hello", stream=True, options={"num_predict": 4}))
        self.assertTrue(text)

    def test_ollama_models(self):
        self.assertEqual([model.model for model in self.llama.list().models], [MODEL + ":latest"])
        self.assertIn("completion", self.llama.show(MODEL).capabilities)
        self.assertEqual(self.llama.ps().models[0].context_length, 2048)
        vectors = self.llama.embed(MODEL, ["a", "b"]).embeddings
        self.assertEqual(len(vectors), 2)
        with self.assertRaises(ollama.ResponseError) as caught:
            self.llama.chat("other", messages=QUESTION)
        self.assertEqual(caught.exception.status_code, 404)

    def test_ollama_manages_nothing(self):
        for path in ("/api/create", "/api/copy", "/api/push"):
            self.assertEqual(self.server.post(path, {"model": "a"})[0], 501)
        self.assertEqual(self.server.post("/api/pull", {"model": "a"})[0], 403)  # models_test.py
        for options in ({"num_ctx": -1}, {"num_ctx": 10 ** 6}, {"temperature": -1}, 5):
            status, _ = self.server.post("/api/chat", {"messages": QUESTION, "options": options})
            self.assertEqual(status, 400, options)

    def test_tokens_and_templates(self):
        _, tokens = self.server.post("/tokenize", {"content": "Hello, world"})
        _, text = self.server.post("/detokenize", tokens)
        self.assertEqual(text, {"content": "Hello, world"})
        for ids in ([-1], [10 ** 9], ["a"], 5):
            self.assertEqual(self.server.post("/detokenize", {"tokens": ids})[0], 400)
        _, prompt = self.server.post("/apply-template", {"messages": QUESTION})
        self.assertIn("What is the capital of France?", prompt["prompt"])
        _, _, props = self.server.request("GET", "/props")
        self.assertEqual(json.loads(props)["default_generation_settings"]["n_ctx"], 2048)

    def test_what_is_not_there_is_refused(self):
        for path, field in (("/v1/chat/completions", {"functions": [{"name": "a"}]}),
                            ("/api/chat", {"images": ["aaaa"]}),
                            ("/api/generate", {"suffix": "a"})):
            status, _ = self.server.post(path, {"messages": QUESTION, "max_tokens": 1, **field})
            self.assertEqual(status, 501, (path, field))


if __name__ == "__main__":
    service.main()
