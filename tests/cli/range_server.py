"""A server like a Hugging Face mirror, for the tests of `orrery pull`.

Serves one repository with one file; understands Range. Prints its port and stops with its stdin.
Arguments: the file, then options: cut (the first answer breaks off half-way), wrong-sha (the
listing names another checksum), no-range (the server always sends the whole file).
"""

import hashlib
import http.server
import json
import sys
import threading

data = open(sys.argv[1], "rb").read()
options = set(sys.argv[2:])
sha = hashlib.sha256(data if "wrong-sha" not in options else b"other").hexdigest()
requests = []


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path.startswith("/api/models/org/repo"):
            files = [
                {"rfilename": "README.md"},
                {"rfilename": "tiny-Q8_0.gguf", "lfs": {"sha256": "0" * 64}},
                {"rfilename": "tiny-Q4_K_M.gguf", "lfs": {"sha256": sha}},
            ]
            self.answer(200, json.dumps({"siblings": files}).encode())
        elif self.path == "/org/repo/resolve/main/tiny-Q4_K_M.gguf":
            self.send_response(302)
            self.send_header("Location", "/blob")
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif self.path == "/blob":
            self.file()
        elif self.path == "/requests":
            self.answer(200, json.dumps(requests).encode())
        else:
            self.answer(404, b"no such page, and this text is not the file")

    def file(self):
        wanted = self.headers.get("Range")
        requests.append(wanted)
        begin = 0
        if wanted and "no-range" not in options:
            begin = int(wanted.removeprefix("bytes=").rstrip("-"))
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {begin}-{len(data) - 1}/{len(data)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(data) - begin))
        self.end_headers()
        end = len(data)
        if "cut" in options and len(requests) == 1:
            end = len(data) // 2
            self.close_connection = True
        self.wfile.write(data[begin:end])

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(server.server_address[1], flush=True)
sys.stdin.read()
