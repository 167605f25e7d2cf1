#!/usr/bin/env python3
"""What the server tells of itself: metrics, health, ids; and streams that fail midway."""

import json
import math
import os
import pathlib
import re
import shutil
import tempfile
import unittest

import service

CHAT = "/v1/chat/completions"
QUESTION = [{"role": "user", "content": "Tell me a long story about the sea."}]
NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LABELS = re.compile(r'(?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*",?)*')


def default_model():
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(cache) / "orrery" / "SmolLM2-135M-Instruct.Q4_1.gguf"


class Page:
    """The text format of Prometheus, version 0.0.4, read strictly."""

    def __init__(self, text):
        assert text.endswith("\n")
        self.types, self.helps, self.samples = {}, {}, {}
        family = None
        for line in text[:-1].split("\n"):
            if line.startswith("# "):
                _, kind, name, rest = line.split(" ", 3)
                assert NAME.fullmatch(name) and rest, line
                if kind == "HELP":
                    assert name not in self.helps, f"{name} comes twice"
                    self.helps[name] = rest
                    family = name
                else:
                    assert kind == "TYPE" and name == family, line
                    assert rest in ("counter", "gauge", "histogram"), line
                    self.types[name] = rest
                continue
            self.add(family, line)
        assert self.types.keys() == self.helps.keys()
        for name in self.types:
            if self.types[name] == "histogram":
                self.check_histogram(name)
            assert (self.types[name] == "counter") == name.endswith("_total"), name

    def add(self, family, line):
        found = re.fullmatch(r"([^{ ]+)(?:\{(.*)\})? (\S+)", line)
        assert found and LABELS.fullmatch(found[2] or ""), line
        name, labels, value = found[1], tuple(re.findall(r'(\w+)="([^"]*)"', found[2] or "")), \
            float(found[3])
        is_part = self.types[family] == "histogram" and name in (
            f"{family}_bucket", f"{family}_sum", f"{family}_count")
        assert name == family or is_part, line
        key = (name, labels)
        assert key not in self.samples and math.isfinite(value) and value >= 0, line
        self.samples[key] = value

    def check_histogram(self, name):
        rows = {}
        for (sample, labels), value in self.samples.items():
            if sample == name + "_bucket":
                others = tuple(label for label in labels if label[0] != "le")
                rows.setdefault(others, []).append((float(dict(labels)["le"]), value))
        for others, buckets in rows.items():
            assert buckets == sorted(buckets), buckets  # bounds and counts grow
            assert buckets[-1] == (math.inf, self.samples[(name + "_count", others)])

    def value(self, name, **labels):
        return self.samples.get((name, tuple(labels.items())))


class Metrics(service.ServedCase):
    def page(self):
        status, headers, body = self.server.request("GET", "/metrics")
        self.assertEqual(status, 200)
        self.assertTrue(headers["Content-Type"].startswith("text/plain; version=0.0.4"))
        return Page(body.decode())

    def test_steps_and_the_bandwidth_that_they_reach(self):
        model = {"model": service.MODEL}
        self.page()
        status, answer = self.server.post(CHAT, {
            "messages": QUESTION, "max_tokens": 40, "temperature": 0, "ignore_eos": True})
        self.assertEqual(status, 200, answer)
        self.assertTrue(service.eventually(
            lambda: self.page().value("orrery_decode_bandwidth_ratio", **model)))
        page = self.page()
        steps = {kind: page.value("orrery_step_seconds_count", **model, kind=kind)
                 for kind in ("decode", "prompt")}
        self.assertEqual(steps["decode"] + steps["prompt"],
                         page.value("orrery_decode_steps_total", **model)
                         + page.value("orrery_prefill_slices_total", **model))
        self.assertGreaterEqual(steps["decode"], 39)
        # Each of them reads the weights, which are all that this model's file has but little.
        weights = default_model().stat().st_size
        runs = steps["decode"] + steps["prompt"]
        read = page.value("orrery_read_bytes_total", **model)
        self.assertGreater(read, 0.9 * runs * weights)
        self.assertLess(read, 1.5 * runs * weights)
        # Two for each parameter and token, or more (attention).
        tokens = answer["usage"]["total_tokens"] - 1
        self.assertGreater(page.value("orrery_operations_total", **model), tokens * 2 * 134e6 * 0.7)
        ratio = page.value("orrery_decode_bandwidth_ratio", **model)
        self.assertLess(ratio, 1.5)
        self.assertGreater(page.value("orrery_read_bandwidth_bytes_per_second", **model), 1e8)

    def test_it_is_measured_beside_a_stream(self):
        with self.server.connect() as client:
            body = json.dumps({"messages": QUESTION, "max_tokens": 300, "ignore_eos": True,
                               "stream": True}).encode()
            client.sendall(b"POST " + CHAT.encode() + b" HTTP/1.1\r\nHost: localhost\r\n"
                           b"Content-Type: application/json\r\nConnection: close\r\n"
                           b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
            received = client.recv(65536)
            self.page()
            while part := client.recv(65536):
                received += part
        self.assertIn(b"data: [DONE]", received)

    def test_ids(self):
        status, headers, _ = self.server.request("GET", "/health", headers={"X-Request-Id": "a-1"})
        self.assertEqual((status, headers["X-Request-Id"]), (200, "a-1"))
        status, headers, _ = self.server.request(
            "POST", CHAT, {"messages": QUESTION, "max_tokens": 1, "stream": True},
            {"X-Request-Id": "b:2"})
        self.assertEqual((status, headers["X-Request-Id"]), (200, "b:2"))
        status, headers, _ = self.server.request("POST", "/v1/messages", {})
        self.assertEqual(status, 400)
        self.assertEqual(headers["request-id"], headers["X-Request-Id"])

    def test_memory_in_use(self):
        answer = json.loads(self.server.request("GET", "/api/ps")[2])
        weights = default_model().stat().st_size
        self.assertGreater(answer["models"][0]["size"], 0.9 * weights)
        self.assertLess(answer["models"][0]["size"], 3 * weights + (256 << 20))


class StreamsThatFail(unittest.TestCase):
    """The model's file loses its end while all dialects stream from it."""

    STREAMS = {
        CHAT: {"messages": QUESTION, "max_tokens": 1500},
        "/v1/completions": {"prompt": "The sea", "max_tokens": 1500},
        "/v1/responses": {"input": "Tell me a story.", "max_output_tokens": 1500},
        "/v1/messages": {"messages": QUESTION, "max_tokens": 1500},
        "/api/chat": {"messages": QUESTION, "options": {"num_predict": 1500, "temperature": 0}},
        "/api/generate": {"prompt": "The sea",
                          "options": {"num_predict": 1500, "temperature": 0}},
        "/completion": {"prompt": "The sea", "n_predict": 1500},
    }

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = pathlib.Path(folder.name) / "cut.gguf"
        shutil.copy(default_model(), self.file)
        self.server = service.Server(str(self.file), "--layout", "file", "--load", "map",
                                     "--drain", "0")
        self.addCleanup(self.server.stop)

    def begin(self, path, body):
        """The client of a stream, once its first bytes are there."""
        client = self.server.connect()
        self.addCleanup(client.close)
        # Greedy answers to these are long, also where a dialect has no way to ask for that.
        data = json.dumps({**body, "stream": True, "ignore_eos": True, "temperature": 0}).encode()
        client.sendall(b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                       b"Connection: close\r\nContent-Length: %d\r\n\r\n%s"
                       % (path.encode(), len(data), data))
        received = b""
        while received.count(b"\r\n\r\n") < 1 or received.endswith(b"\r\n\r\n"):
            part = client.recv(65536)
            self.assertTrue(part, received)
            received += part
        return client, received

    def test_each_stream_ends_with_an_error_of_its_dialect(self):
        begun = {path: self.begin(path, body) for path, body in self.STREAMS.items()}
        os.truncate(self.file, 1 << 20)
        self.check_all(begun, "model_faulted")
        health = json.loads(self.server.request("GET", "/health")[2])
        self.assertEqual(health["status"], "degraded")
        self.assertEqual(health["reasons"], [{"code": "model_faulted", "model": "cut"}])
        status, answer = self.server.post(CHAT, {"messages": QUESTION, "max_tokens": 1})
        self.assertEqual((status, answer["error"]["code"]), (503, "model_faulted"))

    def test_streams_that_a_closing_server_waits_for_no_longer(self):
        begun = {path: self.begin(path, body) for path, body in self.STREAMS.items()}
        self.server.process.terminate()
        self.check_all(begun, "draining")
        self.assertEqual(self.server.process.wait(60), 0)

    def check_all(self, begun, code):
        for path, (client, received) in begun.items():
            while part := client.recv(65536):
                received += part
            head, _, rest = received.partition(b"\r\n\r\n")
            self.assertTrue(head.startswith(b"HTTP/1.1 200"), head)
            self.assertTrue(rest.endswith(b"0\r\n\r\n"), (path, rest[-300:]))  # a whole body
            with self.subTest(path):
                self.check(path, service.unchunk(rest).decode(), code)

    def check(self, path, text, code):
        if path.startswith("/api/"):
            last = json.loads(text.strip().split("\n")[-1])
            self.assertIsInstance(last["error"], str)
            self.assertNotIn("done", last)
            return
        events = [part for part in text.split("\n\n") if part and not part.startswith(":")]
        if path in (CHAT, "/v1/completions"):
            self.assertEqual(events.pop(), "data: [DONE]")
        data = json.loads(events[-1].split("data: ", 1)[1])
        if path == "/v1/responses":
            self.assertTrue(events[-1].startswith("event: response.failed\n"), events[-1])
            self.assertEqual(data["response"]["error"]["code"], code)
        elif path == "/v1/messages":
            self.assertTrue(events[-1].startswith("event: error\n"), events[-1])
            self.assertEqual((data["type"], data["error"]["type"]), ("error", "overloaded_error"))
        else:
            self.assertEqual(data["error"]["code"], code)
        self.assertNotIn(str(self.file), text)


class Sessions(unittest.TestCase):
    def test_a_folder_that_takes_no_files(self):
        with tempfile.TemporaryDirectory() as folder:
            target = pathlib.Path(folder) / "sessions"
            server = service.Server("--session-dir", str(target))
            self.addCleanup(server.stop)
            health = lambda: json.loads(server.request("GET", "/health")[2])
            server.post("/completion", {"prompt": "One, two", "n_predict": 2, "id_slot": 0})
            self.assertEqual(health()["status"], "ok")
            target.rmdir()
            target.write_text("not a folder")
            status, answer = server.post("/slots/0?action=save", {"filename": "a"})
            self.assertGreaterEqual(status, 500, answer)
            self.assertEqual(health()["reasons"], [{"code": "sessions_not_saved"}])
            status, answer = server.post("/slots/0?action=save", {"filename": ".bad"})
            self.assertEqual(status, 400, answer)
            self.assertEqual(health()["status"], "degraded")
            target.unlink()
            status, answer = server.post("/slots/0?action=save", {"filename": "a"})
            self.assertEqual(status, 200, answer)
            self.assertEqual(health()["status"], "ok")


if __name__ == "__main__":
    service.main()
