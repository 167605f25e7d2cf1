"""Servers that speak OpenAI's dialect, started on loopback, and streamed chats with them."""

import asyncio
import contextlib
import json
import os
import pathlib
import random
import socket
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
from programs import BenchError, output_of  # noqa: E402

START_SECONDS = 120
ANSWER_SECONDS = 900  # of one chat; a server that takes longer hangs
WORDS = ("time people way water day part place work number sound year thing name line word look "
         "write see find long down come made may part over new take only little know live back "
         "give most very after man old great move right boy follow act why ask men change went "
         "light kind off need house picture try again animal point mother world near build self "
         "earth father head stand own page should country found answer school grow study still "
         "learn plant cover food sun four between state keep eye never last let thought city tree "
         "cross farm hard start might story saw far sea draw left late run while press close "
         "night real life few north open seem together next white children begin got walk").split()


def words(count, seed):
    """A text of about so many tokens, the same for the same seed."""
    pick = random.Random(seed)
    return " ".join(pick.choice(WORDS) for _ in range(count))


class Served:
    """A server's process; the command gets the port behind it."""

    def __init__(self, name, command):
        self.name = name
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        line = [str(word) for word in [*command, "--port", self.port]]
        try:
            self.process = subprocess.Popen(line, stdin=subprocess.DEVNULL,
                                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        except OSError as error:
            raise BenchError(f"{line[0]} does not run: {error.strerror}") from error

    def __enter__(self):
        try:
            limit = time.monotonic() + START_SECONDS
            while self._health() != 200:
                if self.process.poll() is not None or time.monotonic() > limit:
                    raise BenchError(f"{self.name} did not start: {self.process.args}")
                time.sleep(0.1)
        except BaseException:
            self.process.kill()
            raise
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()

    def _health(self):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port),
                                                                    5) as client:
            client.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            answer = client.recv(64).split()
            return int(answer[1]) if len(answer) > 1 else 0
        return 0


def orrery(options):
    return Served("orrery", [options.program, "serve", options.model, "--threads", options.threads,
                             "--ctx", options.context])


def llama_server(options):
    """Every slot has the whole context; they share one cache of eight times that."""
    return Served("llama-server", [
        options.peer, "-m", options.model, "-t", options.threads, "-c", 8 * options.context,
        "-np", options.slots, "--kv-unified", "-fa", "on", "--no-webui"])


def add_options(parser):
    parser.add_argument("--model", help="GGUF file (default: the default model)")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--context", type=int, default=8192)
    parser.add_argument("--slots", type=int, default=16, help="of llama-server; orrery runs 16 too")
    parser.add_argument("--program", default=ROOT / "build" / "orrery")
    parser.add_argument("--peer", help="llama-server (default: built by bench/peers/build.sh)")
    parser.add_argument("--alone", action="store_true", help="orrery without the peer")


def find_files(options):
    if options.model is None:
        options.model = output_of([ROOT / "scripts" / "default-model"]).strip()
    if options.peer is None and not options.alone:
        folder = output_of([ROOT / "bench" / "peers" / "build.sh", "llama-server"]).strip()
        options.peer = pathlib.Path(folder) / "llama-server"


class Answer:
    """What one chat gave: its text and when its parts came, in seconds of time.monotonic()."""

    def __init__(self):
        self.asked = time.monotonic()
        self.text = ""
        self.times = []  # of each part of the text
        self.prompt_tokens = self.tokens = 0

    @property
    def first(self):
        return self.times[0] - self.asked

    @property
    def gaps(self):
        return [after - before for before, after in zip(self.times, self.times[1:])]

    def take(self, event):
        if "error" in event:
            raise BenchError(f"a stream ended with {event['error']}")
        usage = event.get("usage")
        if usage:
            self.prompt_tokens, self.tokens = usage["prompt_tokens"], usage["completion_tokens"]
        for choice in event.get("choices", []):
            part = choice["delta"].get("content")
            if part:
                self.times.append(time.monotonic())
                self.text += part


async def chat(port, messages, max_tokens, answer=None):
    """One streamed greedy answer of exactly max_tokens, on a connection of its own."""
    body = json.dumps({"messages": messages, "max_tokens": max_tokens, "stream": True,
                       "temperature": 0, "ignore_eos": True, "cache_prompt": True,
                       "stream_options": {"include_usage": True}}).encode()
    head = ("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n").encode()
    answer = answer or Answer()
    async with asyncio.timeout(ANSWER_SECONDS):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
        try:
            writer.write(head + body)
            status = (await reader.readline()).split()
            if len(status) < 2 or status[1] != b"200":
                raise BenchError(f"a chat got {status}: {(await reader.read(2000))!r}")
            # Servers write whole events into a chunk, so that chunks need no taking apart.
            while line := await reader.readline():
                if line.startswith(b"data: {"):
                    answer.take(json.loads(line[6:]))
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
    return answer
