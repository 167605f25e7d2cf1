#!/usr/bin/env python3
"""Requests without end at one server: clients that answer nicely, vanish, stall and send rubbish.
Afterwards nothing is left of them: no memory, descriptor, thread, sequence or page of the cache.

Usage: soak_test.py [PROGRAM] [REQUESTS]      (default: 300; `make soak`: 30000)
"""

import asyncio
import contextlib
import itertools
import json
import os
import random
import socket
import struct
import sys
import time
import unittest

import service

CLIENTS = 24  # more than run at once, so that some wait
STREAM_SECONDS = 600  # a busy machine may take minutes; one that takes longer hangs
# KiB of memory for each request once all is warm; what a measurement may be off by.
SLOPE, NOISE = 0.05, 4096

CHAT = "/v1/chat/completions"
GRAMMAR = 'root ::= "yes" | "no" | [0-9] [0-9]'


def head_of(path, body):
    return (f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n").encode()


def messages(text):
    return {"messages": [{"role": "user", "content": text}], "temperature": 0}


class Client:
    """One request of a kind that chance picks."""

    def __init__(self, port, seed):
        self.port = port
        self.random = random.Random(seed)

    def text(self):
        """Some share a prefix, some are short."""
        shared = "The quick brown fox jumps over the lazy dog. " * self.random.choice((0, 0, 8, 24))
        return shared + str(self.random.random())

    @contextlib.asynccontextmanager
    async def connection(self):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            yield reader, writer
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def answer(self, path, body, read=None):
        """(status, body) of a request whose client stays."""
        data = json.dumps(body).encode()
        async with self.connection() as (reader, writer):
            writer.write(head_of(path, data) + data)
            if read is None:
                whole = await reader.read()
            else:
                whole = b"".join([part async for part in read(reader)])
        head, _, rest = whole.partition(b"\r\n\r\n")
        if b"chunked" in head:
            rest = service.unchunk(rest)
        return int(head.split()[1]), rest

    async def whole(self):
        path, fields = self.random.choice((
            (CHAT, {}), (CHAT, {"grammar": GRAMMAR}), ("/v1/messages", {}),
            ("/api/chat", {"stream": False, "options": {"num_predict": 4}})))
        status, body = await self.answer(path, {**messages(self.text()), "max_tokens": 4, **fields})
        assert status == 200 and json.loads(body), (path, status, body[:300])

    async def others(self):
        path, body = self.random.choice((
            ("/tokenize", {"content": self.text()}), ("/v1/embeddings", {"input": self.text()}),
            ("/v1/completions", {"prompt": self.text(), "max_tokens": 2})))
        status, answer = await self.answer(path, body)
        assert status == 200, (path, status, answer[:300])

    async def stream(self, read=None):
        path, end, fields = self.random.choice((
            (CHAT, b"data: [DONE]\n\n", {}),
            ("/v1/messages", b'event: message_stop\ndata: {"type":"message_stop"}\n\n', {}),
            ("/api/chat", b"}\n", {"options": {"num_predict": 6}})))
        status, body = await self.answer(
            path, {**messages(self.text()), "max_tokens": 6, "stream": True, **fields}, read)
        assert status == 200 and body.endswith(end), (path, status, body[-300:])
        if path == "/api/chat":
            assert json.loads(body.splitlines()[-1])["done"] is True, body[-300:]

    async def slow_stream(self):
        async def read(reader):
            while part := await reader.read(200):
                yield part
                await asyncio.sleep(0.02)
        await self.stream(read)

    async def vanish(self):
        """At some point between the first byte of the request and the last of the answer."""
        body = json.dumps({**messages(self.text()), "max_tokens": 300, "ignore_eos": True,
                           "stream": self.random.random() < 0.7}).encode()
        data = head_of(CHAT, body) + body
        async with self.connection() as (reader, writer):
            if self.random.random() < 0.3:
                data = data[:self.random.randrange(len(data))]
            writer.write(data)
            await writer.drain()
            await asyncio.sleep(self.random.choice((0, 0, 0.01, 0.1, 0.5)))
            if self.random.random() < 0.5:  # a reset and not an end
                writer.get_extra_info("socket").setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    async def stall(self):
        """Half a request for a while, then nothing more."""
        async with self.connection() as (_, writer):
            writer.write(head_of(CHAT, b"x" * 1000)[:self.random.randrange(10, 150)])
            await asyncio.sleep(self.random.random())

    async def rubbish(self):
        data = self.random.choice((
            self.random.randbytes(200) + b"\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n",
            head_of(CHAT, b"{]") + b"{]", head_of(CHAT, b"[]") + b"[]"))
        async with self.connection() as (reader, writer):
            writer.write(data)
            writer.write_eof()
            with contextlib.suppress(ConnectionError):
                # Who has closed his side is asked in between whether he still listens.
                answer = (await reader.read()).removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n")
                assert not answer or 400 <= int(answer.split()[1]) < 506, answer[:300]

    async def wrong(self):
        field = self.random.choice(({"max_tokens": 0}, {"temperature": "x"}, {"grammar": "root ="},
                                    {"messages": []}, {"json_schema": {"type": 5}}))
        status, body = await self.answer(CHAT, {**messages("a"), **field})
        assert status == 400 and "message" in json.loads(body)["error"], (field, status, body)

    async def run(self):
        kinds = {self.whole: 4, self.stream: 6, self.others: 2, self.slow_stream: 1,
                 self.vanish: 5, self.stall: 1, self.rubbish: 2, self.wrong: 2}
        (kind,) = self.random.choices(list(kinds), kinds.values())
        async with asyncio.timeout(STREAM_SECONDS):
            await kind()


class Soak(service.ServedCase):
    requests = 600

    def state(self):
        """What must not grow."""
        proc = f"/proc/{self.server.process.pid}"
        return {"descriptors": len(os.listdir(proc + "/fd")),
                "threads": len(os.listdir(proc + "/task")),
                "pages": self.server.metric("orrery_cache_pages"),
                "idle": self.server.metric("orrery_sequences_idle")}

    def memory(self):
        """KiB of the process itself; its cache grows to what was in use at once."""
        with open(f"/proc/{self.server.process.pid}/status", encoding="ascii") as file:
            lines = dict(line.split(":", 1) for line in file)
        cache = self.server.metric("orrery_cache_bytes") // 1024
        return int(lines["RssAnon"].split()[0]) - int(cache)

    def settle(self):
        """Waits until nothing runs, then fills the cache with the same texts every time."""
        for name in ("orrery_requests_running", "orrery_requests_queued", "orrery_texts_queued"):
            self.assertTrue(service.eventually(lambda n=name: self.server.metric(n) == 0, 60), name)
        self.assertTrue(service.eventually(  # that of the question itself is open
            lambda: self.server.metric("orrery_connections") <= 1, 60))
        for number in range(40):
            status, _ = self.server.post(CHAT, {**messages(f"{number} " * 50), "max_tokens": 1})
            self.assertEqual(status, 200)

    async def load(self, samples):
        numbers = itertools.count()
        begin = time.monotonic()

        async def work():
            for number in numbers:
                if number >= self.requests:
                    return
                await Client(self.server.port, number).run()
                if number % max(1, self.requests // 100) == 0:
                    samples.append((number, self.memory()))
                    if self.requests > 1000:
                        print(f"{number} requests, {time.monotonic() - begin:.0f} s, "
                              f"{samples[-1][1]} KiB", flush=True)

        async with asyncio.TaskGroup() as group:
            for _ in range(CLIENTS):
                group.create_task(work())

    def test_nothing_is_left(self):
        self.settle()
        before = self.state()
        samples = []
        asyncio.run(self.load(samples))
        self.settle()
        self.assertEqual(self.state(), before)
        self.assertEqual(self.server.metric("orrery_requests_failed_total"), 0)
        # Each was ended, once.
        self.assertEqual(self.server.metric("orrery_answers_total"),
                         self.server.metric("orrery_requests_total"))
        warm = [sample for sample in samples if sample[0] >= self.requests // 3]
        growth = self.memory() - min(kib for _, kib in warm[:5])
        allowed = SLOPE * self.requests * 2 / 3 + NOISE
        print(f"{self.requests} requests: {growth} KiB more after the first third, "
              f"{slope(warm):.4f} KiB a request")
        self.assertLess(growth, allowed)
        if self.requests >= 10000:  # fewer tell nothing about so small a slope
            self.assertLess(slope(warm), SLOPE)


def slope(samples):
    """Of the line that fits best."""
    n = len(samples)
    mean_x, mean_y = (sum(column) / n for column in zip(*samples))
    spread = sum((x - mean_x) ** 2 for x, _ in samples)
    return sum((x - mean_x) * (y - mean_y) for x, y in samples) / spread


if __name__ == "__main__":
    if len(sys.argv) > 2:
        Soak.requests = int(sys.argv[2])
    service.main()
