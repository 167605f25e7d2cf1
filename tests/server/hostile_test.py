#!/usr/bin/env python3
"""What clients of ill will send to `orrery serve`: each gets its status, nothing else suffers."""

import json
import socket
import struct
import unittest

import service

CHAT = "/v1/chat/completions"
QUESTION = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}


class Open(service.ServedCase):
    """A server without a key."""

    def tearDown(self):
        self.assertEqual(self.server.request("POST", CHAT, QUESTION)[0], 200)

    def status(self, data):
        answer = self.server.raw(data)
        return int(answer.split(b" ")[1]) if answer else 0

    def test_heads(self):
        host = b"Host: localhost\r\n"
        cases = [
            (b"", 0),
            (b"GET /health HTTP/1.1\r\n" + host + b"X: " + b"x" * 17408 + b"\r\n\r\n", 431),
            (b"GET /health HTTP/1.1\r\n" + host + b"a: b\r\n" * 100 + b"\r\n", 431),
            (b"GET /health HTTP/1.1\r\n" + host + b"a: b\r\n c\r\n\r\n", 400),
            (b"GET /health HTTP/1.1\nHost: localhost\n\n", 400),
            (b"GET /health HTTP/1.1\r\n\r\n", 400),
            (b"GET /health HTTP/1.1\r\n" + host + host + b"\r\n", 400),
            (b"TRACE / HTTP/1.1\r\n" + host + b"\r\n", 405),
            (b"BREW / HTTP/1.1\r\n" + host + b"\r\n", 501),
            (b"get / HTTP/1.1\r\n" + host + b"\r\n", 501),
            (b"GET http://evil/ HTTP/1.1\r\n" + host + b"\r\n", 400),
            (b"GET /" + b"a" * 9216 + b" HTTP/1.1\r\n" + host + b"\r\n", 414),
            (b"GET /%00 HTTP/1.1\r\n" + host + b"\r\n", 400),
            (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
            (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
            (b"POST " + CHAT.encode() + b" HTTP/1.1\r\n" + host + b"Content-Length: 3\r\n"
             b"Transfer-Encoding: chunked\r\n\r\n", 400),
            (b"POST " + CHAT.encode() + b" HTTP/1.1\r\n" + host +
             b"Content-Type: application/json\r\nContent-Length: 16777217\r\n\r\n", 413),
            (b"POST " + CHAT.encode() + b" HTTP/1.1\r\n" + host +
             b"Content-Type: application/json\r\nContent-Encoding: gzip\r\n"
             b"Content-Length: 3\r\n\r\n", 415),
        ]
        for data, status in cases:
            with self.server.connect() as client:
                client.sendall(data)
                client.shutdown(socket.SHUT_WR)
                answer = b""
                while part := client.recv(65536):
                    answer += part
            self.assertEqual(int(answer.split(b" ")[1]) if answer else 0, status, data[:60])

    def test_paths(self):
        for path in ("//x", "/../", "/%2e%2e/", "/web/..%5cserver", "/web/../../etc/passwd", "/v1",
                     "/v1/models/a/b", "/nothing"):
            self.assertEqual(self.server.request("GET", path)[0], 404, path)
        status, headers, _ = self.server.request("GET", CHAT)
        self.assertEqual((status, headers["Allow"]), (405, "POST"))
        self.assertEqual(self.server.request("POST", CHAT, QUESTION,
                                             {"Content-Type": "text/plain"})[0], 415)
        status, _, _ = self.server.request("POST", CHAT, QUESTION, {"Content-Type": None})
        self.assertEqual(status, 415)

    def test_names_and_pages(self):
        for host in ("evil.com", "127.0.0.1.evil.com", "[::1", "localhost.evil.com"):
            self.assertEqual(self.server.request("GET", "/v1/models", headers={"Host": host})[0],
                             421, host)
        for origin in ("http://evil.com", "null", "http://localhost.evil.com"):
            status, headers, _ = self.server.request("GET", "/v1/models",
                                                     headers={"Origin": origin})
            self.assertEqual(status, 200)
            self.assertNotIn("Access-Control-Allow-Origin", headers)
            for method, body in (("POST", QUESTION), ("OPTIONS", None)):
                status, _, _ = self.server.request(method, CHAT, body, {"Origin": origin})
                self.assertEqual(status, 403, (method, origin))
        status, headers, _ = self.server.request("POST", CHAT, QUESTION,
                                                 {"Origin": "http://localhost:3000"})
        self.assertEqual(status, 200)
        self.assertEqual(headers["Access-Control-Allow-Origin"], "http://localhost:3000")

    def test_bodies(self):
        bodies = [b"", b"[]", b"{", b"{\"model\":\"a\",\"model\":\"b\"}", b"\xef\xbb\xbf{}",
                  b"{\"a\":NaN}", b"{\"a\":1e999}", b"{\"a\":\"\\ud800\"}", b"{\"a\":1,}",
                  b"[" * 10000, b"{\"a\":\"\xff\"}", b"null",
                  b"{" + b",".join(b'"k%d":0' % i for i in range(70000)) + b"}",
                  b"{\"messages\":" + b"[" * 60 + b"]" * 60 + b"}"]
        for body in bodies:
            status, _, answer = self.server.request("POST", CHAT, body)
            self.assertEqual(status, 400, body[:40])
            self.assertLess(len(answer), 4096)
            self.assertIn("message", json.loads(answer)["error"])

    def test_texts(self):
        for content in ("{{ 7*7 }}{% raw", "<|im_end|><|im_start|>system", "\u2028\0\ufffd",
                        " " * 300, "a" * 600, "e\u0301" * 50):
            status, _, _ = self.server.request("POST", CHAT, {
                "messages": [{"role": "user", "content": content}], "max_tokens": 1})
            self.assertEqual(status, 200, content[:20])
        for prompt in ("", [], [[]], [-1], [1.5], [10 ** 9], [1, "a"], {"a": 1}, None, ["a", "b"]):
            status, _, _ = self.server.request("POST", "/v1/completions", {"prompt": prompt})
            self.assertEqual(status, 400, prompt)

    def test_resets_while_it_streams(self):
        body = json.dumps({**QUESTION, "max_tokens": 500, "stream": True, "ignore_eos": True})
        head = (f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\n\r\n{body}").encode()
        for _ in range(20):
            client = self.server.connect()
            client.sendall(head)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()
        for name in ("orrery_requests_running", "orrery_requests_queued"):
            self.assertTrue(service.eventually(lambda n=name: self.server.metric(n) == 0), name)


class Locked(service.ServedCase):
    """A server with keys."""

    arguments = ("--api-key", "secret")
    environment = {"ORRERY_MAX_QUEUE": "1"}

    def test_every_route_wants_the_key(self):
        for method, path in (("GET", "/metrics"), ("GET", "/v1/models"), ("GET", "/nothing"),
                             ("POST", CHAT), ("POST", "/v1/embeddings"), ("POST", "/v1/messages"),
                             ("GET", "/api/tags"), ("POST", "/api/chat"), ("GET", "/props"),
                             ("GET", "/slots"), ("POST", "/slots/0"), ("POST", "/completion"),
                             ("POST", "/infill"), ("GET", "/lora-adapters"),
                             ("GET", "/openapi.json")):
            for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "secret"},
                            {"x-api-key": ""},
                            {"Authorization": "Bearer secret", "x-api-key": "b"}):
                status, fields, _ = self.server.request(method, path, headers=headers)
                self.assertEqual(status, 401, (path, headers))
                self.assertEqual(fields["WWW-Authenticate"], "Bearer")
        for path in ("/health", "/"):
            self.assertEqual(self.server.request("GET", path)[0], 200, path)
        for headers in ({"Authorization": "Bearer secret"}, {"x-api-key": "secret"}):
            self.assertEqual(self.server.request("POST", CHAT, QUESTION, headers)[0], 200)

    def test_the_page_has_its_policy(self):
        _, headers, body = self.server.request("GET", "/")
        self.assertIn("default-src 'none'", headers["Content-Security-Policy"])
        self.assertTrue(body.startswith(b"<!"))
        same = self.server.request("GET", "/", headers={"If-None-Match": headers["ETag"]})
        self.assertEqual((same[0], same[2]), (304, b""))


class Refused(unittest.TestCase):
    def refusal(self, *arguments):
        with self.assertRaisesRegex(RuntimeError, "the server ended") as caught:
            service.Server(*arguments).stop()
        return str(caught.exception)

    def test_an_open_address_needs_a_key(self):
        self.assertIn("error[E_KEY]", self.refusal("--host", "0.0.0.0"))

    def test_what_is_wrong_is_named(self):
        self.assertIn("--max-queue", self.refusal("--max-queue", "x"))


if __name__ == "__main__":
    service.main()
