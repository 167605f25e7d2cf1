#!/usr/bin/env python3
"""Runs `orrery bench` and its peers by turns and prints their ratios as a table: llama.cpp's
llama-bench and, with --openvino, OpenVINO GenAI (which reads the default model).

They alternate round by round, because the speed of a shared machine drifts: a ratio is that of one
round's neighbours, and the table gives the median ratio with the smallest and largest.

Usage: compare.py [--model FILE] [--threads N] [--prefill N] [--decode N] [--depth N] [--rounds N]
                  [--openvino]
Exit codes: 0 done, 1 a program is missing or failed, 2 wrong usage.
"""

import argparse
import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent))
from programs import BenchError, json_of, output_of  # noqa: E402


def run_orrery(options):
    """{test: tokens a second}."""
    rows = json_of(
        [options.program, "bench", options.model, "--prefill", options.prefill, "--decode",
         options.decode, "--depth", options.depth, "--threads", options.threads, "--repeat",
         options.repeat, "--json"])
    return {row["test"]: row["tokens_per_second"]["median"] for row in rows
            if row["test"] in ("prefill", "decode")}


def speeds_of_peer(rows):
    """{test: tokens a second} of what llama-bench prints."""
    return {"prefill" if row["n_prompt"] else "decode": statistics.median(row["samples_ts"])
            for row in rows}


def run_llama(options):
    return speeds_of_peer(json_of(
        [options.peer, "-m", options.model, "-p", options.prefill, "-n", options.decode, "-d",
         options.depth, "-t", options.threads, "-r", options.repeat, "-fa",
         options.flash_attention, "-o", "json"]))


def run_openvino(options):
    return speeds_of_peer(json_of(
        [options.openvino, HERE / "openvino_bench.py", "-m", options.model, "-p", options.prefill,
         "-n", options.decode, "-t", options.threads, "-r", options.repeat]))


def measure(options):
    """[{program: {test: speed}}] of each round; the order turns around from round to round."""
    programs = {"orrery": run_orrery, "llama.cpp": run_llama}
    if options.openvino:
        programs["openvino"] = run_openvino
    rounds = []
    for number in range(options.rounds):
        order = list(programs) if number % 2 == 0 else list(programs)[::-1]
        rounds.append({name: programs[name](options) for name in order})
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
    return rounds


def table(rounds, options):
    """The Markdown table. A ratio above 1 means that Orrery is faster."""
    at_depth = f" @ d{options.depth}" if options.depth else ""
    names = {"prefill": f"pp{options.prefill}{at_depth}", "decode": f"tg{options.decode}{at_depth}"}
    lines = ["| test | threads | orrery tok/s | peer | its tok/s | ratio (min to max) |",
             "|---|---:|---:|---|---:|---|"]
    peers = sorted(set(rounds[0]) - {"orrery"})
    for test, name in names.items():
        for peer in peers:
            pairs = [(speeds["orrery"][test], speeds[peer][test]) for speeds in rounds
                     if test in speeds["orrery"] and test in speeds[peer]]
            if not pairs:
                raise BenchError(f"no round measured {name} with both orrery and {peer}")
            ratios = [ours / theirs for ours, theirs in pairs]
            lines.append(
                f"| {name} | {options.threads} | {statistics.median(p[0] for p in pairs):.1f} "
                f"| {peer} | {statistics.median(p[1] for p in pairs):.1f} "
                f"| {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) |")
    return "\n".join(lines)


def parse_arguments(arguments):
    def count(text):
        value = int(text)
        if value < 1:
            raise argparse.ArgumentTypeError("must be at least 1")
        return value

    parser = argparse.ArgumentParser(description="Orrery beside its peers, by turns")
    parser.add_argument("--model", help="GGUF file (default: the default model)")
    parser.add_argument("--threads", type=count, default=2)
    parser.add_argument("--prefill", type=count, default=512)
    parser.add_argument("--decode", type=count, default=128)
    parser.add_argument("--depth", type=int, default=0)
    parser.add_argument("--rounds", type=count, default=5)
    parser.add_argument("--repeat", type=count, default=1, help="runs in each round")
    parser.add_argument("--flash-attention", choices=("0", "1"), default="1")
    parser.add_argument("--program", default=ROOT / "build" / "orrery")
    parser.add_argument("--peer", help="llama-bench (default: built by build.sh beside this file)")
    parser.add_argument("--openvino", nargs="?", const="install", metavar="PYTHON",
                        help="OpenVINO GenAI too (default: installed by openvino.sh)")
    options = parser.parse_args(arguments)
    if options.openvino and options.depth:
        parser.error("--openvino measures from an empty context only: leave out --depth")
    return options


def main(arguments):
    options = parse_arguments(arguments)
    try:
        if options.peer is None:
            folder = output_of([HERE / "build.sh"]).strip()
            options.peer = pathlib.Path(folder) / "llama-bench"
        if options.openvino == "install":
            options.openvino = output_of([HERE / "openvino.sh"]).strip()
        if options.model is None:
            options.model = output_of([ROOT / "scripts" / "default-model"]).strip()
        print(table(measure(options), options))
    except BenchError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
