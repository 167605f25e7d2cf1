#!/usr/bin/env python3
"""Clients that chat at once: `orrery serve` and llama.cpp's llama-server by turns.

A client has conversations of two turns. They begin with one of a few system texts that many share,
then comes a text of their own; the second turn brings the first and its answer again. What is asked
depends on the number of clients alone, so that both servers do the same work.

Usage: load.py [--clients 1,4,8,16,64] [--rounds N] [--conversations N] [--tokens N] [--alone]
               [--model FILE] [--threads N] [--context N] [--slots N] [--program FILE] [--peer FILE]
Exit codes: 0 done, 1 a program is missing or failed, 2 wrong usage.
"""

import argparse
import asyncio
import os
import statistics
import sys
import time

import chats
from chats import BenchError

# Tokens of system texts and of what is asked, by turns over all conversations: prompts of 32 to
# 4,096 tokens, most of them short.
SHARED = (0, 256, 1024)
ASKED = (32, 64, 128, 32, 512, 64, 256, 32, 128, 3072)


def first_turn(number):
    shared, asked = SHARED[number % len(SHARED)], ASKED[number % len(ASKED)]
    messages = [{"role": "user", "content": chats.words(asked, 1000 + number)}]
    if shared:
        messages.insert(0, {"role": "system", "content": chats.words(shared, shared)})
    return messages


async def converse(port, numbers, tokens, answers):
    for number in numbers:
        messages = first_turn(number)
        first = await chats.chat(port, messages, tokens)
        messages += [{"role": "assistant", "content": first.text},
                     {"role": "user", "content": "Go on, please."}]
        answers.append((first, await chats.chat(port, messages, tokens)))


async def measure(port, clients, options):
    """{figure: value} of so many clients at once; times in ms."""
    answers = []
    begin = time.monotonic()
    await asyncio.gather(*(
        converse(port, range(client, clients * options.conversations, clients), options.tokens,
                 answers) for client in range(clients)))
    seconds = time.monotonic() - begin
    both = [answer for pair in answers for answer in pair]
    out = {"requests/s": len(both) / seconds,
           "tokens/s": sum(answer.tokens for answer in both) / seconds,
           "prompt tokens": sum(answer.prompt_tokens for answer in both)}
    for name, values in (("first token", [first.first for first, _ in answers]),
                         ("second turn", [second.first for _, second in answers]),
                         ("between", [gap for answer in both for gap in answer.gaps])):
        for percent in (50, 95, 99):
            out[f"{name} p{percent}"] = 1e3 * percentile(values, percent)
    return out


def percentile(values, percent):
    """The smallest value that so many percent are not above."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


def run(options):
    """{(server, clients): [figures of each round]}; the order turns around from round to round."""
    servers = [chats.orrery] if options.alone else [chats.orrery, chats.llama_server]
    results = {}
    for number in range(options.rounds):
        for start in servers if number % 2 == 0 else servers[::-1]:
            for clients in options.clients:
                # Each from an empty cache.
                with start(options) as server:
                    asyncio.run(chats.chat(server.port, first_turn(0)[-1:], 1))
                    figures = asyncio.run(measure(server.port, clients, options))
                    results.setdefault((server.name, clients), []).append(figures)
            print(f"round {number + 1} of {options.rounds}: {server.name}, load "
                  f"{os.getloadavg()[0]:.1f}", file=sys.stderr)
    return results


def table(results, options):
    median = {key: {name: statistics.median(row[name] for row in rows) for name in rows[0]}
              for key, rows in results.items()}
    lines = ["| clients | server | requests/s | tokens/s | first token p50 / p95 / p99, ms "
             "| second turn p50 / p95 / p99, ms | between tokens p50 / p95 / p99, ms |",
             "|---:|---|---:|---:|---|---|---|"]
    for (name, clients), row in sorted(median.items(), key=lambda item: (item[0][1], item[0][0])):
        times = (" / ".join(f"{row[f'{kind} p{percent}']:.0f}" for percent in (50, 95, 99))
                 for kind in ("first token", "second turn", "between"))
        lines.append(f"| {clients} | {name} | {row['requests/s']:.2f} | {row['tokens/s']:.1f} | "
                     + " | ".join(times) + " |")
    if options.alone:
        return "\n".join(lines)
    lines += ["", "| clients | tokens/s, ratio (min to max) | first token p95 | second turn p95 "
              "| between tokens p95 |", "|---:|---|---|---|---|"]
    for clients in options.clients:
        pairs = list(zip(results["orrery", clients], results["llama-server", clients]))
        cells = []
        for name in ("tokens/s", "first token p95", "second turn p95", "between p95"):
            ratios = [ours[name] / theirs[name] for ours, theirs in pairs]
            cells.append(f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to "
                         f"{max(ratios):.2f})")
        lines.append(f"| {clients} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description="Servers under load, by turns")
    parser.add_argument("--clients", default="1,4,8,16,64",
                        type=lambda text: [int(part) for part in text.split(",")])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--conversations", type=int, default=3, help="of each client")
    parser.add_argument("--tokens", type=int, default=64, help="of each answer")
    chats.add_options(parser)
    return parser.parse_args(arguments)


def main(arguments):
    options = parse_arguments(arguments)
    try:
        chats.find_files(options)
        print(table(run(options), options))
    except BenchError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
