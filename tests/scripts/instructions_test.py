#!/usr/bin/env python3
"""Guards speed without a clock: instructions a token, counted by callgrind on one thread, and bytes
a token, beside what they were when this file was last changed. A change that makes a token dearer
fails here; one that makes it cheaper by a tenth or more asks for the new figure.

The figures are those of Debian 12's GCC 12. Skips without valgrind, the program or a model."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "build" / "orrery"
GOLDEN = ROOT.parent / "shared" / "data" / "golden" / "llama" / "llama-f16.gguf"
TOLERANCE = 0.05


def run(arguments, isa, prefix=()):
    command = [*prefix, str(PROGRAM), *map(str, arguments), "-t", "1", "--json"]
    environment = dict(os.environ, ORRERY_ISA=isa)
    return subprocess.run(command, env=environment, check=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def instructions(model, isa, prompt, new):
    """Of a whole run (`bench` has loops that run for a time, so it is `eval logits`)."""
    callgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    ids = " ".join(str(2 + i % 50) for i in range(prompt))
    done = run(["eval", "logits", model, "--ids", ids, "--greedy", new], isa, callgrind)
    return int(re.search(r"Collected : (\d+)", done.stderr).group(1))


def default_model():
    cache = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(cache) / "orrery" / "SmolLM2-135M-Instruct.Q4_1.gguf"


@unittest.skipUnless(PROGRAM.exists(), f"there is no {PROGRAM}")
class InstructionsTest(unittest.TestCase):
    def check(self, model, isa, short, long, expected):
        """short, long: (prompt, new tokens); what the longer run takes more is what they cost."""
        if shutil.which("valgrind") is None:
            self.skipTest("there is no valgrind")
        if not model.exists():
            self.skipTest(f"there is no {model}")
        price = instructions(model, isa, *long) - instructions(model, isa, *short)
        price /= sum(long) - sum(short)
        figure = f"{price:,.0f} instructions a token, {price / expected:.3f} of the figure here"
        self.assertLess(price, expected * (1 + TOLERANCE), figure)
        self.assertGreater(price, expected * (1 - 2 * TOLERANCE), f"{figure}: keep the new one")

    def test_decode_emulated(self):
        self.check(GOLDEN, "emu", (4, 8), (4, 40), 11_028_000)

    def test_prefill_emulated(self):
        self.check(GOLDEN, "emu", (64, 1), (128, 1), 879_000)

    def test_decode_of_the_default_model(self):
        if "avx2" not in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8"):
            self.skipTest("this processor has no AVX2")
        # The second run packs the weights.
        self.check(default_model(), "avx2", (4, 2), (4, 6), 37_297_000)

    def test_bytes_of_the_default_model(self):
        if not default_model().exists():
            self.skipTest("the default model is not in the cache folder")
        done = run(["bench", default_model(), "--prefill", 0, "--decode", 1, "--repeat", 1], "avx2")
        self.assertEqual(json.loads(done.stdout)[0]["bytes_per_token"], 96_588_288)


if __name__ == "__main__":
    unittest.main()
