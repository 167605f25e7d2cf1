#!/usr/bin/env python3
"""Measures this machine with `orrery bench --steps` and writes report/: Markdown, JSON and one page
of HTML with its plots inside.

What the machine or the build lacks is one line of the report, not an error.

Usage: report.py [--model FILE] [--threads N] [--quick] [--out FOLDER]
Exit codes: 0 done, 1 the program is missing or failed, 2 wrong usage.
"""

import argparse
import datetime
import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(HERE.parent)]
import page  # noqa: E402
from programs import BenchError, json_of, output_of  # noqa: E402

# Kernel sets in the order of the report, with what a processor must have for each.
SETS = {"amx": "AMX tiles", "avx512_bf16": "AVX-512 BF16", "avx512": "AVX-512 VNNI",
        "avx2": "AVX2", "neon": "NEON with dot products"}


def bench(options, *arguments, **environment):
    command = [options.program, "bench"]
    command += [options.model] if options.model else []
    return json_of(command + ["--threads", options.threads, "--json", *arguments], **environment)


def device(options):
    """{key: text} of `orrery inspect device`."""
    lines = output_of([options.program, "inspect", "device"]).splitlines()
    return dict(line.split(": ", 1) for line in lines if ": " in line)


def kernel_sets(options, available):
    """([{set, prefill, decode}], [a line for each set that cannot run here])."""
    sizes = ("--prefill", "128", "--decode", "32", "--repeat", "3")
    measured, missing = [], []
    for name, needs in SETS.items():
        if name not in available:
            missing.append(f"{name}: not measured, this processor or build has no {needs}")
            continue
        print(f"kernel set {name}", file=sys.stderr)
        rows = {row["test"]: row for row in bench(options, *sizes, ORRERY_ISA=name)}
        measured.append({"set": name, **{test: rows[test]["tokens_per_second"]
                                         for test in ("prefill", "decode")}})
    return measured, missing


def products(options):
    """(the document of `orrery silicon matmul`, [a line for each thing it did not measure])."""
    print("products", file=sys.stderr)
    sizes = ["--sizes", "16,64,128,512"] if options.quick else []
    threads = ["-t", options.threads] if options.threads else []
    found = json_of([options.program, "silicon", "matmul", "--json", *sizes, *threads])
    return found, [f"silicon matmul: {line}" for line in found["missing"]]


def kernel_benches(options):
    """([{name, text}], [a line for each that was not built])."""
    texts, missing = [], []
    for name in ("rows_bench", "blocks_bench"):
        program = pathlib.Path(options.benches, name)
        if not program.exists():
            missing.append(f"{name}: not measured, it is not built")
            continue
        print(name, file=sys.stderr)
        texts.append({"name": name, "text": output_of([program])})
    return texts, missing


def measure(options):
    found = device(options)
    print("prompt and decoded tokens, step by step", file=sys.stderr)
    sizes = ("--prefill", "128", "--decode", "32", "--repeat", "3") if options.quick else ()
    tests = bench(options, "--steps", *sizes)
    sets, missing = kernel_sets(options, found.get("kernels", "").split())
    matmul, no_product = products(options)
    kernels, not_built = kernel_benches(options)
    commit = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"],
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                            check=False).stdout.strip()
    return {"date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
            "commit": commit or "unknown", "device": found, "tests": tests,
            "kernel_sets": sets, "products": matmul,
            "missing": missing + no_product + not_built, "kernels": kernels}


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description="measure this machine and write a report")
    parser.add_argument("--model", help="model (default: the default model)")
    parser.add_argument("--threads", type=int, default=0, help="0: the physical cores")
    parser.add_argument("--quick", action="store_true", help="small sizes, for a first look")
    parser.add_argument("--out", default=ROOT / "report", type=pathlib.Path)
    parser.add_argument("--program", default=ROOT / "build" / "orrery")
    parser.add_argument("--benches", default=ROOT / "build" / "bench")
    return parser.parse_args(arguments)


def main(arguments):
    options = parse_arguments(arguments)
    try:
        report = measure(options)
        options.out.mkdir(parents=True, exist_ok=True)
        for name, text in (("report.json", json.dumps(report, indent=2) + "\n"),
                           ("report.md", page.markdown(report)),
                           ("report.html", page.html(report))):
            (options.out / name).write_text(text, encoding="utf-8")
    except (BenchError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(page.markdown(report))
    print(f"written: {options.out / 'report.html'}, report.md, report.json", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
