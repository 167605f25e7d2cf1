#!/usr/bin/env python3
"""`orrery serve --log-requests`: a line for each request, and nothing of what was said."""

import json

import service

CHAT = "/v1/chat/completions"
SECRET = "xylophonic"


def messages(**fields):
    return {"messages": [{"role": "user", "content": f"Say {SECRET}."}], "max_tokens": 3,
            "temperature": 0, "user": SECRET, **fields}


class RequestLog(service.ServedCase):
    arguments = ("--log-requests",)

    def entries(self, count):
        """The last lines of the log, once there are `count` of them."""
        self.assertTrue(service.eventually(lambda: len(self.lines()) >= count))
        return self.lines()[-count:]

    def lines(self):
        return [json.loads(line) for line in self.server.log().splitlines()
                if line.startswith("{")]

    def test_each_request_has_its_line(self):
        had = len(self.lines())
        _, answer = self.server.post(CHAT, messages())
        self.assertEqual(self.server.request("POST", CHAT, messages(stream=True))[0], 200)
        self.assertEqual(self.server.post(CHAT, messages(model=SECRET))[0], 404)
        self.assertEqual(self.server.request("GET", f"/v1/models/{SECRET}")[0], 404)
        self.assertEqual(self.server.request("GET", "/health")[0], 200)
        # In the order in which they ended, which is that of different threads.
        entries = {}
        for entry in self.entries(had + 5)[had:]:
            entries.setdefault((entry["path"], entry["status"]), []).append(entry)
        self.assertEqual({key: len(of) for key, of in entries.items()},
                         {(CHAT, 200): 2, (CHAT, 404): 1, ("/v1/models/*", 404): 1,
                          ("/health", 200): 1})
        whole, streamed = entries[CHAT, 200]
        for entry in (whole, streamed):
            self.assertEqual((entry["method"], entry["path"], entry["model"]),
                             ("POST", CHAT, answer["model"]))
            self.assertEqual((entry["new_tokens"], entry["prompt_tokens"], entry["finish"]),
                             (3, answer["usage"]["prompt_tokens"], "length"))
            self.assertGreaterEqual(entry["seconds"], entry["decode_seconds"])
            self.assertRegex(entry["time"], r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        self.assertGreater(streamed["cached_tokens"], 0)
        self.assertNotIn("model", entries["/health", 200][0])
        self.assertNotIn(SECRET, self.server.log())

    def test_who_leaves_early_is_there_too(self):
        had = len(self.lines())
        body = json.dumps(messages(max_tokens=1000, ignore_eos=True, stream=True)).encode()
        with self.server.connect() as client:
            client.sendall(b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json"
                           b"\r\nContent-Length: %d\r\n\r\n%s" % (CHAT.encode(), len(body), body))
            client.recv(1000)
        entry = self.entries(had + 1)[had]
        self.assertEqual((entry["status"], entry["finish"]), (200, "cancelled"))


if __name__ == "__main__":
    service.main()
