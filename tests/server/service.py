"""The real server with the default model, and plain HTTP over a socket to talk to it."""

import atexit
import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77  # what ctest takes for "skipped"
MODEL = "smollm2-135m"


def program():
    return sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "build" / "orrery")


def needs(*modules):
    """Skips where a package of tests/requirements.txt is missing."""
    for module in modules:
        try:
            __import__(module)
        except ImportError:
            print(f"skipped: the Python package {module} is missing (scripts/setup --test)")
            sys.exit(SKIPPED)


class Server:
    def __init__(self, *arguments, environment=None, context=2048):
        command = [program(), "serve", "--port", "0", "--ctx", str(context), "--deterministic",
                   *arguments]
        # A file and not a pipe, which nobody would empty.
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(command, stderr=self.errors,
                                        env={**os.environ, **(environment or {})})
        atexit.register(self.process.kill)  # a test that fails leaves nothing running
        eventually(lambda: self.ended() or self.address(), 120)
        if not self.address():
            state = "ended" if self.ended() else "did not start"
            self.process.kill()
            raise RuntimeError(f"the server {state}: {self.log()}")
        self.port = int(self.address().group(1))
        self.url = f"http://127.0.0.1:{self.port}"

    def ended(self):
        return self.process.poll() is not None

    def address(self):
        return re.search(r"listens on \w+://\S*:(\d+)\s", self.log())

    def log(self):
        """What it has written to stderr."""
        return os.pread(self.errors.fileno(), 1 << 20, 0).decode()

    def wait_for_log(self, pattern, seconds=60):
        """The log, once it has what `pattern` finds."""
        end = time.monotonic() + seconds
        while not re.search(pattern, self.log()):
            assert time.monotonic() < end, self.log()
            time.sleep(0.02)
        return self.log()

    def stop(self):
        """SIGTERM; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(60)
        self.errors.close()
        return code

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=200)

    def raw(self, data):
        """All that comes back until the server closes."""
        with self.connect() as client:
            client.sendall(data)
            received = b""
            with contextlib.suppress(ConnectionError):
                while part := client.recv(65536):
                    received += part
        return received

    def request(self, method, path, body=None, headers=None):
        """(status, headers, body) of one request on its own connection."""
        data = body if isinstance(body, bytes) else b"" if body is None else \
            json.dumps(body).encode()
        lines = {"Host": "localhost", "Connection": "close"}
        if method == "POST":
            lines["Content-Type"] = "application/json"
            lines["Content-Length"] = str(len(data))
        lines.update(headers or {})
        head = f"{method} {path} HTTP/1.1\r\n"
        head += "".join(f"{name}: {value}\r\n"
                        for name, value in lines.items() if value is not None)
        answer = self.raw(head.encode() + b"\r\n" + data)
        first, _, rest = answer.partition(b"\r\n\r\n")
        status, *fields = first.decode("latin-1").split("\r\n")
        found = dict(field.split(": ", 1) for field in fields)
        if found.get("Transfer-Encoding") == "chunked":
            rest = unchunk(rest)
        return int(status.split()[1]), found, rest

    def post(self, path, body):
        """(status, JSON document) of one request."""
        status, _, answer = self.request("POST", path, body)
        return status, json.loads(answer)

    def metric(self, name):
        _, _, text = self.request("GET", "/metrics")
        values = re.findall(rf"(?m)^{name}(?:\{{[^}}]*\}})? (\S+)$", text.decode())
        return sum(map(float, values))


class ServedCase(unittest.TestCase):
    """Tests that share one server, which ends well."""

    arguments = ()
    environment = None
    context = 2048  # tokens; 0: the model's own

    @classmethod
    def setUpClass(cls):
        cls.server = Server(*cls.arguments, environment=cls.environment, context=cls.context)

    @classmethod
    def tearDownClass(cls):
        code = cls.server.stop()
        assert code == 0, code

    def assert_cancels(self, leave):
        """`leave` goes away from an answer that has begun; its generation ends."""
        before = self.server.metric("orrery_requests_cancelled_total")
        leave()
        self.assertTrue(eventually(
            lambda: self.server.metric("orrery_requests_cancelled_total") > before))
        self.assertTrue(eventually(lambda: self.server.metric("orrery_requests_running") == 0))


def main():
    """Runs the tests of the script that calls it; its argument is the program."""
    unittest.main(argv=sys.argv[:1])


def unchunk(data):
    out = b""
    while data:
        size, _, data = data.partition(b"\r\n")
        length = int(size, 16)
        if length == 0:
            break
        out += data[:length]
        data = data[length + 2:]
    return out


def eventually(condition, seconds=20):
    """Waits for what another thread does; fails only where it never does."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        if condition():
            return True
        time.sleep(0.02)
    return False
