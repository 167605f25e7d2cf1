"""A server as the chat page sees one: it serves web/ as the program does, and answers as told.

    server.reply = Reply("Hello", reasoning="hm", delay=0.1)   # the answer to whatever comes
    server.bodies                                              # what was asked
"""

import contextlib
import dataclasses
import http.server
import json
import pathlib
import re
import socket
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
         ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}


def content_policy():
    """The policy of the program itself, from its header."""
    text = (ROOT / "src/server/web_files.hpp").read_text(encoding="utf-8")
    declaration = re.search(r"kWebContentPolicy =(.*?);\n", text, re.DOTALL).group(1)
    return "".join(re.findall(r'"([^"]*)"', declaration))


@dataclasses.dataclass
class Reply:
    text: str = "Hello there."
    reasoning: str = ""
    pieces: int = 4           # characters a delta
    delay: float = 0          # seconds before each delta
    pings: int = 0            # comments before the first, `delay` apart
    die_after: int = -1       # deltas after which the connection is cut,
    hold: threading.Event = None  # and not before this
    error: dict = None        # an error object: in mid-stream after `die_after`, else at once
    status: int = 200
    headers: dict = dataclasses.field(default_factory=dict)
    finish: str = "stop"
    usage: dict = dataclasses.field(default_factory=lambda: {
        "prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120,
        "prompt_tokens_details": {"cached_tokens": 64}})
    timings: dict = None
    raw: bytes = None         # the whole body of the stream, instead of all that


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        if self.path == "/v1/models":
            if self.authorized():
                self.json(200, {"object": "list", "data": self.server.models})
        elif self.path == "/props" and self.server.context:
            self.json(200, {"default_generation_settings": {"n_ctx": self.server.context}})
        else:
            self.file()

    def file(self):
        name = "index.html" if self.path == "/" else self.path.removeprefix("/web/")
        path = ROOT / "web" / name
        if "/" in name or not path.is_file():
            self.json(404, {"error": {"message": f"There is no {self.path}."}})
            return
        self.send(200, path.read_bytes(), {
            "Content-Type": TYPES[path.suffix], "Cache-Control": "no-cache",
            "X-Content-Type-Options": "nosniff", "Content-Security-Policy": content_policy()})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.authorized():
            return
        self.server.bodies.append(body)
        reply = self.server.reply
        if reply.status != 200:
            self.json(reply.status, {"error": reply.error}, reply.headers)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.server.streams += 1
        try:
            if self.stream(reply):
                self.chunk(b"")
            else:
                self.close_connection = True
        except OSError:
            self.server.left.set()  # the client went away
        self.server.streams -= 1

    def stream(self, reply):
        """Whether the stream reached its end."""
        if reply.raw is not None:
            self.chunk(reply.raw)
            return True
        for _ in range(reply.pings):
            time.sleep(reply.delay)
            self.chunk(b": ping\n\n")
        self.event({"role": "assistant", "content": None})
        sent = 0
        for field in ("reasoning_content", "content"):
            text = reply.reasoning if field == "reasoning_content" else reply.text
            for start in range(0, len(text), reply.pieces):
                if sent == reply.die_after:
                    if reply.hold:
                        reply.hold.wait(30)
                    if reply.error:
                        self.data({"error": reply.error})
                    return bool(reply.error)
                time.sleep(reply.delay)
                self.event({field: text[start:start + reply.pieces]})
                sent += 1
        self.event({}, reply.finish)
        last = {"choices": [], "usage": reply.usage}
        self.data(last | ({"timings": reply.timings} if reply.timings else {}))
        self.chunk(b"data: [DONE]\n\n")
        return True

    def event(self, delta, finish=None):
        self.data({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1,
                   "model": "mock", "choices": [{"index": 0, "delta": delta,
                                                 "finish_reason": finish}]})

    def data(self, value):
        self.chunk(f"data: {json.dumps(value)}\n\n".encode())

    def chunk(self, data):
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def authorized(self):
        if self.headers.get("Authorization", "") == f"Bearer {self.server.key}" \
                or not self.server.key:
            return True
        self.json(401, {"error": {"message": "A valid API key is needed.",
                                  "type": "authentication_error"}})
        return False

    def json(self, status, value, headers=()):
        self.send(status, json.dumps(value).encode(),
                  {"Content-Type": "application/json", **dict(headers)})

    def send(self, status, data, headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class MockServer(http.server.ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, port=0):
        super().__init__(("127.0.0.1", port), Handler)
        self.reply = Reply()
        self.models = [{"id": name, "object": "model", "created": 1, "owned_by": "orrery"}
                       for name in ("SmolLM2-135M-Instruct", "Qwen3-4B")]
        self.context = 8192
        self.key = ""
        self.bodies = []
        self.streams = 0
        self.left = threading.Event()
        self.connections = set()
        self.url = f"http://127.0.0.1:{self.server_port}/"
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def handle_error(self, request, client_address):
        pass  # a browser that goes away

    def get_request(self):
        connection, address = super().get_request()
        self.connections.add(connection)
        return connection, address

    def shutdown_request(self, request):
        self.connections.discard(request)
        super().shutdown_request(request)

    def stop(self):
        self.shutdown()
        self.server_close()
        for connection in list(self.connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


if __name__ == "__main__":
    server = MockServer()
    server.reply = Reply("An answer in **Markdown**:\n\n```c\nint answer = 42;\n```\n\n" * 5,
                         reasoning="Whatever is asked, this is said. " * 5, delay=0.02)
    print(server.url, flush=True)
    threading.Event().wait()
