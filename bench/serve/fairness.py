#!/usr/bin/env python3
"""What running streams keep of their pace while a long prompt is read, and how long that takes.

Usage: fairness.py [--streams N] [--prompt N] [--alone] [--model FILE] [--threads N] [--context N]
                   [--slots N] [--program FILE] [--peer FILE]
Exit codes: 0 done, 1 a program is missing or failed, 2 wrong usage.
"""

import argparse
import asyncio
import contextlib
import sys
import time

import chats
from chats import BenchError

QUIET_SECONDS = 2  # in which the streams run alone, before the prompt and after it: they get slower
                   # as their texts get longer


def tokens_between(answers, begin, end):
    return sum(begin <= when < end for answer in answers for when in answer.times)


async def pace(streams):
    """Tokens a second of all of them, for a while."""
    begin = time.monotonic()
    await asyncio.sleep(QUIET_SECONDS)
    end = time.monotonic()
    return tokens_between(streams, begin, end) / (end - begin)


async def measure(port, options):
    streams = [chats.Answer() for _ in range(options.streams)]
    tasks = [asyncio.create_task(chats.chat(
        port, [{"role": "user", "content": chats.words(32, number)}], options.context - 256,
        answer)) for number, answer in enumerate(streams)]
    try:
        while not all(answer.times for answer in streams):
            for task in tasks:
                if task.done():
                    task.result()
            await asyncio.sleep(0.01)
        before = await pace(streams)
        long = await chats.chat(
            port, [{"role": "user", "content": chats.words(options.prompt, 7)}], 1)
        first = long.times[0]
        beside = tokens_between(streams, long.asked, first) / long.first
        alone = (before + await pace(streams)) / 2
        inside = [gap for answer in streams for when, gap in zip(answer.times[1:], answer.gaps)
                  if long.asked <= when < first]
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
    return alone, beside, long, inside


def main(arguments):
    parser = argparse.ArgumentParser(description="Streams beside a long prompt")
    parser.add_argument("--streams", type=int, default=4)
    parser.add_argument("--prompt", type=int, default=7000, help="about so many tokens")
    chats.add_options(parser)
    options = parser.parse_args(arguments)
    try:
        chats.find_files(options)
        print("| server | streams, tok/s alone | beside the prompt | kept | longest pause, ms "
              "| prompt | its first token, s |\n|---|---:|---:|---:|---:|---:|---:|")
        for start in [chats.orrery] if options.alone else [chats.orrery, chats.llama_server]:
            with start(options) as server:
                alone, beside, long, gaps = asyncio.run(measure(server.port, options))
            print(f"| {server.name} | {alone:.1f} | {beside:.1f} | {beside / alone:.2f} "
                  f"| {1e3 * max(gaps, default=long.first):.0f} | {long.prompt_tokens} "
                  f"| {long.first:.1f} |")
    except BenchError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
