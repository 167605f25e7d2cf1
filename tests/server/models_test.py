#!/usr/bin/env python3
"""Several models of one server: on demand, in a budget, pulled and deleted; settings files."""

import concurrent.futures
import contextlib
import hashlib
import http.server
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

import service

service.needs("ollama", "openai")
import ollama  # noqa: E402
import openai  # noqa: E402

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
OPTIONS = {"temperature": 0, "num_predict": 8}
# A model takes 94 MiB of weights and so much cache: the budget holds one of them.
BUDGET = ("--memory", "300M", "--cache", "64M")


def default_model():
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(cache) / "orrery" / "SmolLM2-135M-Instruct.Q4_1.gguf"


def place(source, target):
    """The same bytes under another name: another model."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copy(source, target)


class Clients:
    """What the tests ask of self.server."""

    def chat(self, model, **fields):
        client = ollama.Client(host=self.server.url)
        return client.chat(model, messages=QUESTION, options=OPTIONS, **fields)

    def loaded(self):
        answer = json.loads(self.server.request("GET", "/api/ps")[2])
        return {entry["name"].removesuffix(":latest"): entry for entry in answer["models"]}

    def post(self, path, body):
        status, _, answer = self.server.request("POST", path, body)
        return status, json.loads(answer)


class OnDemand(Clients, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        folder = pathlib.Path(cls.folder.name)
        place(default_model(), folder / "one.gguf")
        place(default_model(), folder / "two.gguf")
        (folder / "broken.gguf").write_bytes(default_model().read_bytes()[:1 << 20])
        cls.server = service.Server("--models-dir", cls.folder.name, *BUDGET)

    @classmethod
    def tearDownClass(cls):
        code = cls.server.stop()
        cls.folder.cleanup()
        assert code == 0, code

    def test_two_models_take_turns_in_a_budget_that_holds_one(self):
        texts = set()
        for model in ("one", "two", "one", "two"):
            answer = self.chat(model)
            texts.add(answer.message.content)
            self.assertEqual(answer.model, model)
            self.assertEqual(list(self.loaded()), [model])
        self.assertEqual(len(texts), 1)  # the bytes are the same
        self.assertGreaterEqual(self.server.metric("orrery_model_evictions_total"), 3)
        self.assertLess(next(iter(self.loaded().values()))["size"], 300 << 20)

    def test_requests_for_both_at_once_are_all_answered(self):
        client = openai.OpenAI(base_url=self.server.url + "/v1", api_key="none", max_retries=0)

        def ask(number):
            stream = client.chat.completions.create(
                model=("one", "two")[number % 2], messages=QUESTION, max_tokens=8, temperature=0,
                stream=True)
            return "".join(chunk.choices[0].delta.content or "" for chunk in stream
                           if chunk.choices)

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            texts = set(pool.map(ask, range(8)))
        self.assertEqual(len(texts), 1)
        self.assertTrue(texts.pop())

    def test_keep_alive(self):
        self.chat("one", keep_alive=0)
        self.assertTrue(service.eventually(lambda: "one" not in self.loaded()))
        self.chat("one", keep_alive="1s")
        self.assertIn("one", self.loaded())
        self.assertTrue(service.eventually(lambda: "one" not in self.loaded()))
        answer = self.chat("one", keep_alive=-1)
        self.assertGreater(answer.load_duration, 0)
        self.assertTrue(self.loaded()["one"]["expires_at"].startswith("2318"))
        self.assertEqual(self.chat("one", keep_alive="5m").load_duration, 0)
        self.assertFalse(self.loaded()["one"]["expires_at"].startswith("2318"))
        status, answer = self.post("/api/generate", {"model": "one", "keep_alive": "1000y"})
        self.assertEqual(status, 400, answer)
        self.assertIn("keep_alive", answer["error"])

    def test_a_request_without_a_prompt_loads_and_lets_go(self):
        for path in ("/api/generate", "/api/chat"):
            status, answer = self.post(path, {"model": "two"})
            self.assertEqual((status, answer["done"], answer["done_reason"]), (200, True, "load"))
            self.assertIn("two", self.loaded())
            status, answer = self.post(path, {"model": "two", "keep_alive": 0})
            self.assertEqual((status, answer["done_reason"]), (200, "unload"))
            self.assertTrue(service.eventually(lambda: "two" not in self.loaded()))
            status, answer = self.post(path, {"model": "two", "keep_alive": 0})  # loads nothing
            self.assertEqual((status, answer["done_reason"]), (200, "unload"))
            self.assertNotIn("two", self.loaded())
        self.assertEqual(self.post("/api/generate", {"model": "x", "keep_alive": 0})[0], 404)

    def test_a_broken_file_fails_its_own_requests_alone(self):
        body = {"model": "broken", "messages": QUESTION}
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(lambda _: self.post("/v1/chat/completions", body), range(4)))
        self.assertEqual({status for status, _ in answers}, {500}, answers)
        messages = {answer["error"]["message"] for _, answer in answers}
        self.assertEqual(len(messages), 1, messages)
        self.assertNotIn(self.folder.name, messages.pop())
        self.assertEqual(answers[0][1]["error"]["code"], "model_load_failed")
        self.assertEqual(self.post("/api/chat", {"model": "broken"})[0], 500)
        self.assertTrue(self.chat("one").message.content)

    def test_lists_show_what_is_there_and_what_is_not(self):
        self.chat("one")
        models = json.loads(self.server.request("GET", "/v1/models")[2])["data"]
        states = {model["id"]: model["status"]["value"] for model in models}
        self.assertEqual(set(states), {"one", "two", "broken"})
        self.assertEqual(states["one"], "loaded")
        self.assertIn(states["two"], ("unloaded",))
        tags = ollama.Client(host=self.server.url).list().models
        self.assertEqual({tag.model for tag in tags},
                         {"one:latest", "two:latest", "broken:latest"})
        for model in ("one", "two"):  # loads nothing
            shown = ollama.Client(host=self.server.url).show(model)
            self.assertEqual(shown.modelinfo["general.architecture"], "llama")
            self.assertEqual(shown.modelinfo["llama.context_length"], 8192)
        self.assertEqual(list(self.loaded()), ["one"])
        self.assertEqual(self.server.request("GET", "/v1/models/two")[0], 200)
        health = json.loads(self.server.request("GET", "/health")[2])
        self.assertEqual(health["loading"], [])
        self.assertIn(health["status"], ("ok", "degraded"))  # another test asks for "broken"

    def test_a_client_that_goes_while_it_waits_costs_nothing(self):
        self.chat("one")
        body = json.dumps({"model": "two", "messages": QUESTION, "stream": True}).encode()
        for _ in range(4):
            with self.server.connect() as client:
                client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
                               b"Content-Type: application/json\r\nContent-Length: "
                               + str(len(body)).encode() + b"\r\n\r\n" + body)
        name = "orrery_requests_waiting_for_models"
        self.assertTrue(service.eventually(lambda: self.server.metric(name) == 0))
        self.assertTrue(self.chat("one").message.content)


class Named(Clients, unittest.TestCase):
    def test_one_file_under_two_names_is_one_model(self):
        with tempfile.TemporaryDirectory() as folder:
            link = pathlib.Path(folder) / "other.gguf"
            link.symlink_to(default_model())
            self.server = service.Server("smollm2-135m", str(link))
            self.addCleanup(self.server.stop)
            self.assertEqual(self.chat("smollm2-135m").model, "smollm2-135m")
            self.assertEqual(self.chat("other").model, "smollm2-135m")  # its first name
            self.assertEqual(self.server.metric("orrery_model_loads_total"), 1)
            self.assertEqual(set(self.loaded()), {"smollm2-135m", "other"})
            status, answer = self.post("/api/pull", {"model": "org/repo"})
            self.assertEqual(status, 403, answer)
            self.assertEqual(self.server.request("DELETE", "/api/delete", {"model": "other"})[0],
                             403)
            self.assertEqual(self.post("/api/create", {"model": "x"})[0], 501)

    def test_a_budget_too_small_for_a_named_model_ends_the_start(self):
        with self.assertRaisesRegex(RuntimeError, "E_MEMORY.*--memory"):
            service.Server("smollm2-135m", "--memory", "50M")


class Hub:
    """A Hugging Face mirror with one repository, org/repo, that holds the default model."""

    def __init__(self):
        self.cuts = self.lies = False
        data = default_model().read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        hub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                if self.path.startswith("/api/models/org/repo"):
                    sha = "0" * 64 if hub.lies else digest
                    self.answer(json.dumps({"siblings": [
                        {"rfilename": "Tiny-Q4_K_M.gguf", "lfs": {"sha256": sha}}]}).encode())
                elif self.path == "/org/repo/resolve/main/Tiny-Q4_K_M.gguf":
                    begin = int(self.headers.get("Range", "bytes=0-")[6:].rstrip("-"))
                    hub.begins.append(begin)
                    self.answer(data[begin:], 206 if begin else 200)
                else:
                    self.send_error(404)

            def answer(self, body, status=200):
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                whole = not hub.cuts or len(body) < 1 << 20
                with contextlib.suppress(ConnectionError):
                    self.wfile.write(body if whole else body[:len(body) // 2])

            def log_message(self, *_):
                pass

        self.begins = []
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_port}"


class Admin(Clients, unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.cache = pathlib.Path(folder.name) / "orrery"
        self.hub = Hub()
        self.addCleanup(self.hub.server.server_close)
        self.addCleanup(self.hub.server.shutdown)
        self.server = service.Server(
            str(default_model()), "--admin", "--memory", "900M", "--cache", "64M",
            environment={"XDG_CACHE_HOME": folder.name, "HF_ENDPOINT": self.hub.url,
                         "HF_TOKEN": "", "no_proxy": "127.0.0.1"})
        self.addCleanup(self.server.stop)
        self.client = ollama.Client(host=self.server.url)
        self.file = self.cache / "Tiny-Q4_K_M.gguf"

    def delete(self, model):
        status, _, answer = self.server.request("DELETE", "/api/delete", json.dumps(
            {"model": model}).encode(), {"Content-Length": str(len(json.dumps({"model": model})))})
        return status, json.loads(answer)

    def test_pull_chat_delete(self):
        lines = list(self.client.pull("org/repo", stream=True))
        self.assertEqual(lines[0].status, "pulling manifest")
        self.assertEqual(lines[-1].status, "success")
        done = [line for line in lines if line.completed]
        self.assertEqual(done[-1].completed, done[-1].total)
        self.assertEqual(done[-1].total, default_model().stat().st_size)
        self.assertEqual(self.file.stat().st_size, default_model().stat().st_size)
        self.assertTrue(self.chat("tiny-q4_k_m").message.content)
        self.assertEqual(self.client.pull("org/repo").status, "success")  # it is there already
        self.assertEqual(len(self.hub.begins), 1)
        self.assertEqual(self.client.delete("tiny-q4_k_m").status, "success")
        self.assertEqual(os.listdir(self.cache), [])
        with self.assertRaises(ollama.ResponseError) as caught:
            self.chat("tiny-q4_k_m")
        self.assertEqual(caught.exception.status_code, 404)

    def test_a_broken_download_is_resumed_and_never_served(self):
        self.hub.cuts = True
        with self.assertRaises(ollama.ResponseError):
            list(self.client.pull("org/repo", stream=True))
        self.assertFalse(self.file.exists())
        self.assertEqual(self.post("/api/chat", {"model": "tiny-q4_k_m"})[0], 404)
        self.hub.cuts = False
        self.assertEqual(self.client.pull("org/repo").status, "success")
        self.assertGreater(self.hub.begins[-1], 0)
        self.assertEqual(self.file.read_bytes(), default_model().read_bytes())

    def test_refusals(self):
        self.hub.lies = True
        status, answer = self.post("/api/pull", {"model": "org/repo", "stream": False})
        self.assertEqual(status, 502, answer)
        self.assertIn("SHA-256", answer["error"])
        self.assertEqual(os.listdir(self.cache), [])
        for name, expected in (("nonsense", 404), (self.hub.url + "/x.gguf", 400), ("", 400),
                               ("../../etc/passwd", 404), ("org/nothing", 502)):
            status, answer = self.post("/api/pull", {"model": name, "stream": False})
            self.assertEqual(status, expected, (name, answer))
        self.assertEqual(self.delete("nonsense")[0], 404)
        named = json.loads(self.server.request("GET", "/v1/models")[2])["data"][0]["id"]
        self.assertEqual(self.delete(named)[0], 403)
        self.assertTrue(default_model().exists())


class SettingsFile(Clients, unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    def refusal(self, path):
        outcome = subprocess.run([service.program(), "serve", "--port", "0", "--config", path],
                                 capture_output=True, text=True, timeout=60, check=False)
        self.assertNotEqual(outcome.returncode, 0)
        return outcome.stderr

    def test_toml_and_the_order_of_places(self):
        path = self.write("orrery.toml", '# one of each kind\nmodels = ["smollm2-135m"]\n'
                          'memory = "600M"\ncache = 67108864\nkeep_alive = "5m"\nadmin = false\n')
        self.server = service.Server("--config", path)
        self.assertIn("of 600.0 MiB", self.read_log())
        self.chat("smollm2-135m")
        self.assertFalse(self.loaded()["smollm2-135m"]["expires_at"].startswith("2318"))
        self.server.stop()
        variables = {"ORRERY_CONFIG": path, "ORRERY_MEMORY": "700M"}
        self.server = service.Server(environment=variables)
        self.assertIn("of 700.0 MiB", self.read_log())
        self.server.stop()
        self.server = service.Server("--memory", "800M", environment=variables)
        self.assertIn("of 800.0 MiB", self.read_log())
        self.server.stop()

    def read_log(self):
        return self.server.wait_for_log("off:")

    def test_wrong_files(self):
        for name, text, expected in (
                ("a.toml", "max_quene = 3\n", '"max_quene"; the nearest is "max_queue"'),
                ("a.json", '{"max_quene": 3}', '"max_quene"; the nearest is "max_queue"'),
                ("b.toml", "port = 1\nhost = \n", "line 2"),
                ("c.toml", "port = 1979-05-27\n", "port must be a text, a number"),
                ("d.toml", "[port]\nx = 1\n", "port must be a text, a number"),
                ("e.toml", 'memory = "lots"\n', "memory: "),
                ("f.json", "port = 1\n", "no JSON object")):
            self.assertIn(expected, self.refusal(self.write(name, text)), name)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
