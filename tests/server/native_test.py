#!/usr/bin/env python3
"""`orrery serve` as llama.cpp's own clients see it: completions, slots that are saved, adapters."""

import json
import math
import os
import pathlib
import struct
import sys
import tempfile
import unittest

import service

PROMPT = "The capital of France is"
LONG = "Once upon a time there was a small town by the sea. " * 12


def events(body):
    """The objects of a stream; there is no [DONE]."""
    parts = body.decode().split("\n\n")
    assert parts[-1] == "", parts[-1]
    return [json.loads(part[6:]) for part in parts[:-1] if not part.startswith(":")]


class Case(unittest.TestCase):
    arguments = ()

    @classmethod
    def setUpClass(cls):
        cls.server = service.Server(*cls.arguments)

    @classmethod
    def tearDownClass(cls):
        code = cls.server.stop()
        assert code == 0, code

    def post(self, path, body, expected=200, server=None):
        status, _, answer = (server or self.server).request("POST", path, body)
        self.assertEqual(status, expected, answer[:500])
        return json.loads(answer)

    def complete(self, prompt=PROMPT, **fields):
        return self.post("/completion",
                         {"prompt": prompt, "n_predict": 8, "temperature": 0, **fields})

    def refused(self, field, **fields):
        error = self.post("/completion", {"prompt": PROMPT, "n_predict": 1, **fields}, 400)["error"]
        self.assertEqual(error["param"], field, fields)


class Completions(Case):
    def test_an_answer(self):
        answer = self.complete(return_tokens=True)
        self.assertIn("Paris", answer["content"])
        tokens = self.post("/tokenize", {"content": PROMPT, "add_special": True})["tokens"]
        self.assertEqual(answer["tokens_evaluated"], len(tokens))
        self.assertEqual((answer["tokens_predicted"], len(answer["tokens"])), (8, 8))
        self.assertEqual(self.post("/detokenize", {"tokens": answer["tokens"]})["content"],
                         answer["content"])
        self.assertEqual((answer["stop"], answer["stop_type"], answer["truncated"]),
                         (True, "limit", False))
        self.assertEqual(answer["prompt"], PROMPT)
        self.assertEqual(answer["generation_settings"]["n_predict"], 8)
        self.assertEqual(answer["generation_settings"]["temperature"], 0)
        self.assertEqual(answer["timings"]["predicted_n"], 8)
        # All but the last token of the answer, which nothing has followed.
        self.assertEqual(answer["tokens_cached"], len(tokens) + 7)
        self.assertEqual(self.complete()["tokens"], [])

    def test_a_stream_says_the_same(self):
        whole = self.complete(return_tokens=True)
        _, headers, body = self.server.request(
            "POST", "/completion", {"prompt": PROMPT, "n_predict": 8, "temperature": 0,
                                    "stream": True, "timings_per_token": True})
        self.assertEqual(headers["Content-Type"], "text/event-stream")
        *chunks, last = events(body)
        self.assertEqual([chunk["stop"] for chunk in chunks], [False] * len(chunks))
        self.assertTrue(all(chunk["content"] for chunk in chunks))
        self.assertTrue(all(chunk["timings"]["predicted_n"] for chunk in chunks))
        self.assertEqual("".join(chunk["content"] for chunk in chunks) + last["content"],
                         whole["content"])
        self.assertEqual(sum([chunk["tokens"] for chunk in chunks], []) + last["tokens"],
                         whole["tokens"])
        for name in ("stop", "stop_type", "tokens_predicted", "tokens_evaluated", "tokens_cached"):
            self.assertEqual(last[name], whole[name], name)

    def test_how_it_ends(self):
        word = self.complete()["content"].split()[0]
        stopped = self.complete(stop=[word])
        self.assertEqual((stopped["stop_type"], stopped["stopping_word"]), ("word", word))
        self.assertNotIn(word, stopped["content"])
        chat = "<|im_start|>user\nSay yes.<|im_end|>\n<|im_start|>assistant\n"
        ended = self.complete(chat, n_predict=64, grammar='root ::= "yes"')
        self.assertEqual((ended["content"], ended["stop_type"]), ("yes", "eos"))
        nothing = self.complete(n_predict=0)
        self.assertEqual((nothing["content"], nothing["tokens_predicted"]), ("", 0))
        cut = self.complete("a\n", n_predict=400, ignore_eos=True, t_max_predict_ms=1,
                            logit_bias=[["\n", 50]])
        self.assertEqual(cut["stop_type"], "limit")
        self.assertLess(cut["tokens_predicted"], 400)

    def test_prompts_of_every_form(self):
        ids = self.post("/tokenize", {"content": PROMPT})["tokens"]
        text = self.complete()["content"]
        self.assertEqual(self.complete(ids)["content"], text)
        cut = len(self.post("/tokenize", {"content": "The capital"})["tokens"])
        self.assertEqual(self.complete(ids[:cut] + [" of France is"])["content"], text)
        for prompts in ([PROMPT, PROMPT], [ids, PROMPT], [ids, ids]):
            answers = self.complete(prompts)
            self.assertEqual([(a["index"], a["content"]) for a in answers], [(0, text), (1, text)])
        _, _, body = self.server.request("POST", "/completion", {
            "prompt": [PROMPT, PROMPT], "n_predict": 4, "temperature": 0, "stream": True})
        for index in (0, 1):
            mine = [event for event in events(body) if event["index"] == index]
            self.assertTrue(text.startswith("".join(event["content"] for event in mine)))
            self.assertEqual([event["stop"] for event in mine].count(True), 1)

    def test_probabilities(self):
        answer = self.complete(n_probs=3, n_predict=4, return_tokens=True)
        tokens = answer["completion_probabilities"]
        self.assertEqual([token["id"] for token in tokens], answer["tokens"])
        for token in tokens:
            best = token["top_logprobs"]
            self.assertEqual(len(best), 3)
            self.assertEqual(best[0]["id"], token["id"])  # greedy
            self.assertLessEqual(sum(math.exp(other["logprob"]) for other in best), 1.0001)
        drawn = self.complete(n_probs=8, n_predict=4, temperature=1, top_k=4, top_p=1, min_p=0,
                              post_sampling_probs=True)
        for token in drawn["completion_probabilities"]:
            self.assertEqual(len(token["top_probs"]), 4)
            self.assertAlmostEqual(sum(other["prob"] for other in token["top_probs"]), 1, 4)
            self.assertIn(token["id"], [other["id"] for other in token["top_probs"]])

    def test_settings(self):
        self.assertEqual(self.complete(json_schema={"const": 7})["content"], "7")
        first, second = (self.complete(temperature=2, seed=5)["content"] for _ in range(2))
        self.assertEqual(first, second)
        told = self.complete(temperature=2)
        again = self.complete(temperature=2, seed=told["generation_settings"]["seed"])
        self.assertEqual(told["content"], again["content"])
        fields = ["content", "generation_settings/n_predict", "nothing"]
        self.assertEqual(self.complete(response_fields=fields)
                         ["generation_settings/n_predict"], 8)
        self.assertEqual(len(self.complete(response_fields=fields)), 2)
        only = self.complete(samplers=["top_k"], top_k=1, temperature=1.5, repeat_penalty=9)
        self.assertEqual(only["content"], self.complete()["content"])
        self.refused("samplers", samplers=["temperature", "top_k"])
        banned = self.complete(logit_bias=[[" Paris", False]])["content"]
        self.assertNotIn("Paris", banned)

    def test_what_is_computed_again(self):
        self.complete(LONG, n_predict=1)
        self.assertGreater(self.complete(LONG, n_predict=1)["timings"]["cache_n"], 64)
        fresh = self.complete(LONG, n_predict=1, cache_prompt=False)
        self.assertEqual(fresh["timings"]["cache_n"], 0)
        _, _, body = self.server.request("POST", "/completion", {
            "prompt": "Other words. " + LONG, "n_predict": 1, "stream": True,
            "return_progress": True})
        progress = [e["prompt_progress"] for e in events(body) if "prompt_progress" in e]
        self.assertEqual(progress[-1]["processed"], progress[-1]["total"])

    def test_what_is_refused(self):
        for prompt in ("", [], [[]], [-1], [1.5], [10 ** 9], {"a": 1}, None, [[[1]]], ["a"] * 17):
            error = self.post("/completion", {"prompt": prompt}, 400)["error"]
            self.assertEqual(error["code"], "invalid_prompt", prompt)
        for field, value in (("n_predict", -2), ("n_predict", "x"), ("n_probs", 65),
                             ("id_slot", 1.5), ("response_fields", "content"), ("stop", [""]),
                             ("lora", [{"id": 0, "scale": 1}]), ("lora", 1), ("stream", 1),
                             ("dry_sequence_breakers", [""]), ("t_max_predict_ms", "x")):
            self.refused(field, **{field: value})
        error = self.post("/completion", {"prompt": "a " * 3000}, 400)["error"]
        self.assertEqual((error["type"], error["n_ctx"]), ("exceed_context_size_error", 2048))
        self.assertEqual(self.post("/infill", {"input_prefix": "a", "input_suffix": "b"}, 501)
                         ["error"]["code"], "not_supported")

    def test_no_model_pretends_to_rank(self):
        body = {"query": "What is a cat?", "documents": ["An animal.", "A ship."]}
        for path in ("/v1/rerank", "/v1/reranking", "/rerank", "/reranking"):
            self.assertEqual(self.post(path, body, 501)["error"]["type"], "not_supported_error")
        for wrong in ({"query": "a"}, {"documents": ["a"]}, {"query": "a", "documents": []},
                      {"query": 1, "documents": ["a"]}, {"query": "a", "documents": "a"},
                      {"query": "", "documents": ["a"]}, {"query": "a", "texts": [1]}):
            self.post("/v1/rerank", wrong, 400)
        self.post("/v1/rerank", {**body, "model": "none"}, 404)


class Slots(Case):
    folder = tempfile.TemporaryDirectory()
    arguments = ("--session-dir", folder.name, "--max-running", "2")

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.folder.cleanup()

    def act(self, slot, action, expected=200, server=None, **body):
        return self.post(f"/slots/{slot}?action={action}", body, expected, server)

    def test_slots_tell_numbers_alone(self):
        answer = self.complete(LONG, id_slot=3)
        self.assertEqual(answer["id_slot"], 3)
        _, _, body = self.server.request("GET", "/slots")
        slots = json.loads(body)
        self.assertEqual([slot["id"] for slot in slots], list(range(18)))
        self.assertEqual(slots[3]["n_past"], answer["tokens_cached"])
        self.assertFalse(slots[3]["is_processing"])
        self.assertNotIn("Once upon", body.decode())
        _, _, body = self.server.request("GET", "/props")
        self.assertEqual(json.loads(body)["total_slots"], 18)

    def test_what_was_saved_comes_back(self):
        said = self.complete(LONG, id_slot=1)
        saved = self.act(1, "save", filename="story")
        self.assertEqual((saved["id_slot"], saved["filename"]), (1, "story"))
        self.assertEqual(saved["n_saved"], said["tokens_cached"])
        self.assertGreater(saved["n_written"], 1 << 20)
        # Another process, whose cache is empty.
        other = service.Server(*self.arguments)
        try:
            restored = self.act(0, "restore", filename="story", server=other)
            self.assertEqual(restored["n_restored"], saved["n_saved"])
            body = {"prompt": LONG, "n_predict": 8, "temperature": 0, "id_slot": 0}
            answer = self.post("/completion", body, server=other)
            self.assertEqual(answer["content"], said["content"])
            self.assertEqual(answer["timings"]["prompt_n"], 1)
            # Further on from there.
            body["prompt"] = LONG + said["content"]
            further = self.post("/completion", body, server=other)
            self.assertLess(further["timings"]["prompt_n"], 12)
            self.assertEqual(further["content"],
                             self.complete(body["prompt"], cache_prompt=False)["content"])
            self.assertGreater(self.act(0, "erase", server=other)["n_erased"], 100)
            again = self.post("/completion", {**body, "prompt": LONG}, server=other)
            self.assertEqual(again["timings"]["cache_n"], 0)
        finally:
            self.assertEqual(other.stop(), 0)

    def test_beside_running_streams(self):
        self.complete(LONG, id_slot=2)
        text = {"prompt": PROMPT, "n_predict": 200, "temperature": 0, "ignore_eos": True,
                "stream": True, "id_slot": 5}
        with self.server.connect() as client:
            data = json.dumps(text).encode()
            client.sendall(b"POST /completion HTTP/1.1\r\nHost: localhost\r\n"
                           b"Content-Type: application/json\r\nConnection: close\r\n"
                           b"Content-Length: %d\r\n\r\n%s" % (len(data), data))
            rest = b""
            while b'"content"' not in rest:  # it has its place
                rest += client.recv(4096)
            self.assertEqual(self.act(5, "erase", 409)["error"]["code"], "slot_in_use")
            self.assertGreater(self.act(2, "save", filename="beside")["n_saved"], 100)
            for _ in range(3):  # also while its pages are those of the file
                self.assertGreater(self.act(2, "restore", filename="beside")["n_restored"], 100)
                self.assertGreater(self.act(2, "save", filename="beside")["n_saved"], 100)
            while part := client.recv(65536):
                rest += part
        self.assertIn(b'"stop":true', rest)
        text["stream"] = False
        self.complete(PROMPT, id_slot=5)

    def test_what_is_refused(self):
        for slot in (18, -1, "x", 10 ** 12):
            self.act(slot, "erase", 404)
        for name in ("", "../x", "a/b", ".hidden", "x" * 65, "a.tmp", "a\0b"):
            self.assertEqual(self.act(0, "save", 400, filename=name)["error"]["code"],
                             "invalid_value", name)
        self.act(0, "save", 400)
        self.act(0, "dance", 400)
        self.act(4, "restore", 404, filename="never")
        path = pathlib.Path(self.folder.name) / "text"
        path.write_text("no session " * 1000)
        self.act(4, "restore", 409, filename="text")
        self.act(4, "save", 409, filename="text")
        self.assertTrue(path.read_text().startswith("no session"))
        (pathlib.Path(self.folder.name) / "link").symlink_to("text")
        self.act(4, "save", 409, filename="link")

    def test_a_damaged_file(self):
        self.complete(LONG, id_slot=6)
        self.act(6, "save", filename="damaged")
        path = pathlib.Path(self.folder.name) / "damaged"
        data = bytearray(path.read_bytes())
        data[512:1104] = bytes(592)  # both slots of the file's head
        path.write_bytes(data)
        self.assertEqual(self.act(6, "restore", 409, filename="damaged")["error"]["code"],
                         "session_mismatch")


class Keys(Case):
    folder = tempfile.TemporaryDirectory()
    arguments = ("--api-key", "one", "--api-key", "two", "--session-dir", folder.name)

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.folder.cleanup()

    def ask(self, key, method, path, body=None):
        status, _, answer = self.server.request(method, path, body, {"x-api-key": key})
        return status, json.loads(answer)

    def test_slots_and_sessions_stay_with_their_key(self):
        body = {"prompt": LONG, "n_predict": 1, "id_slot": 2}
        self.assertEqual(self.ask("one", "POST", "/completion", body)[0], 200)
        self.assertEqual(self.ask("two", "GET", "/slots")[1][2]["n_past"], 0)
        self.assertGreater(self.ask("one", "GET", "/slots")[1][2]["n_past"], 100)
        save = {"filename": "mine"}
        self.assertEqual(self.ask("two", "POST", "/slots/2?action=save", save)[0], 404)
        self.assertEqual(self.ask("one", "POST", "/slots/2?action=save", save)[0], 200)
        self.assertEqual(self.ask("two", "POST", "/slots/3?action=restore", save)[0], 404)
        self.assertEqual(self.ask("one", "POST", "/slots/3?action=restore", save)[0], 200)
        # Another's slot is not taken, and what it holds does not go.
        status, answer = self.ask("two", "POST", "/completion", body)
        self.assertEqual(status, 200)
        self.assertNotEqual(answer["id_slot"], 2)
        self.assertEqual(answer["timings"]["cache_n"], 0)
        self.assertGreater(self.ask("one", "GET", "/slots")[1][2]["n_past"], 100)


def write_adapter(folder):
    """A LoRA adapter in PEFT's form: what comes out of one layer's feed-forward is shifted."""
    rank, hidden, ffn = 2, 576, 1536
    module = "base_model.model.model.layers.29.mlp.down_proj"
    sizes = {f"{module}.lora_A.weight": (rank, ffn), f"{module}.lora_B.weight": (hidden, rank)}
    header, data = {}, b""
    for name, (rows, cols) in sizes.items():
        values = [math.sin(i * 0.37 + len(data)) * 0.4 for i in range(rows * cols)]
        header[name] = {"dtype": "F32", "shape": [rows, cols],
                        "data_offsets": [len(data), len(data) + 4 * len(values)]}
        data += struct.pack(f"<{len(values)}f", *values)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    (folder / "adapter_model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    (folder / "adapter_config.json").write_text(json.dumps(
        {"peft_type": "LORA", "r": rank, "lora_alpha": 4, "target_modules": ["down_proj"]}))


class Lora(Case):
    folder = tempfile.TemporaryDirectory()

    @classmethod
    def setUpClass(cls):
        path = pathlib.Path(cls.folder.name) / "adapter"
        path.mkdir()
        write_adapter(path)
        cls.arguments = ("--lora", f"{path}:0.5", "--lora", f"{path}:0")
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.folder.cleanup()

    def scales(self):
        status, _, body = self.server.request("GET", "/lora-adapters")
        self.assertEqual(status, 200)
        adapters = json.loads(body)
        self.assertEqual([(a["id"], a["path"]) for a in adapters], [(0, "adapter"), (1, "adapter")])
        return [adapter["scale"] for adapter in adapters]

    def text(self, **fields):
        return self.complete(LONG, n_predict=12, **fields)["content"]

    def test_adapters(self):
        self.assertEqual(self.scales(), [0.5, 0])
        first = self.text()
        plain = self.text(lora=[])
        self.assertNotEqual(first, plain)
        self.assertEqual(self.text(lora=[{"id": 0, "scale": 0.5}]), first)
        self.assertEqual(self.text(lora=[{"id": 1, "scale": 0.5}]), first)  # the same file
        self.assertEqual(self.text(lora=[{"id": 0, "scale": 0}]), plain)
        # For all requests, until it is set again.
        self.post("/lora-adapters", [])
        self.assertEqual((self.scales(), self.text()), ([0, 0], plain))
        self.post("/lora-adapters", [{"id": 1, "scale": 0.5}])
        self.assertEqual((self.scales(), self.text()), ([0, 0.5], first))
        self.post("/lora-adapters", [{"id": 0, "scale": 0.5}])
        chat = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 12, "temperature": 0}
        say = [self.post("/v1/chat/completions", {**chat, **more})["choices"][0]["message"]
               for more in ({}, {"lora": [{"id": 0, "scale": 0.5}]}, {"lora": []})]
        self.assertEqual(say[0], say[1])
        self.assertNotEqual(say[0], say[2])

    def test_what_is_refused(self):
        for body in ({}, [1], [{"id": 2, "scale": 1}], [{"id": 0}], [{"id": 0, "scale": "x"}],
                     [{"id": -1, "scale": 1}], [{"id": 0, "scale": 1}, {"id": 0, "scale": 1}],
                     [{"id": 0, "scale": 1e30}]):
            self.post("/lora-adapters", body, 400)
        self.post("/slots/0?action=save", {"filename": "a"}, 501)


CODER = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") \
    / "orrery" / "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"


@unittest.skipUnless(CODER.exists(), "the model that fills in is not fetched: "
                                     "scripts/fetch_model.py qwen2.5-coder-0.5b-instruct")
class Infill(Case):
    arguments = (str(CODER),)

    def fill(self, **fields):
        return self.post("/infill", {"input_prefix": "def add(a, b):\n    return ",
                                     "input_suffix": "\n\nprint(add(1, 2))\n", "n_predict": 16,
                                     "temperature": 0, "stop": ["\n"], **fields})

    def test_the_gap_is_filled(self):
        answer = self.fill()
        self.assertEqual(answer["content"].strip(), "a + b")
        self.assertEqual(answer["prompt"].count("<|fim_prefix|>"), 1)
        self.assertTrue(answer["prompt"].endswith("<|fim_middle|>"))
        begun = self.fill(input_prefix="def add(a, b):\n    ", prompt="return ")
        self.assertEqual(begun["prompt"], answer["prompt"])

    def test_other_files(self):
        extra = [{"filename": "names.py", "text": "def total_of_two(x, y):\n    return x + y\n"}]
        answer = self.fill(input_extra=extra, input_prefix="from names import ",
                           input_suffix="\nprint(total_of_two(1, 2))\n")
        self.assertIn("total_of_two", answer["content"])
        self.assertLess(answer["prompt"].index("<|file_sep|>names.py"),
                        answer["prompt"].index("<|fim_prefix|>"))

    def test_what_is_refused(self):
        for body in ({"input_prefix": "a"}, {"input_suffix": "a"},
                     {"input_prefix": 1, "input_suffix": "a"},
                     {"input_prefix": "a", "input_suffix": "b", "input_extra": [{"text": 1}]},
                     {"input_prefix": "a", "input_suffix": "b", "input_extra": ["x"]}):
            self.post("/infill", body, 400)
        # What users write stays text: several tokens.
        without, written = (self.fill(input_prefix=text)["tokens_evaluated"]
                            for text in ("", "<|fim_suffix|>"))
        self.assertGreater(written - without, 1)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
