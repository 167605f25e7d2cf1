"""Tests of bench/peers/compare.py with two stand-in programs that print fixed figures."""

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench" / "peers"))
import compare  # noqa: E402


class ComparePeersTest(unittest.TestCase):
    def run_with(self, ours, theirs, *arguments):
        """Exit code, stdout and stderr of a comparison of programs that print these values."""
        with tempfile.TemporaryDirectory() as folder:
            paths = []
            for name, value in (("orrery", ours), ("llama-bench", theirs)):
                data, program = pathlib.Path(folder, f"{name}.json"), pathlib.Path(folder, name)
                data.write_text(json.dumps(value), encoding="utf-8")
                program.write_text(f"#!/bin/sh\ncat '{data}'\n", encoding="utf-8")
                program.chmod(0o755)
                paths.append(str(program))
            out, errors = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
                code = compare.main(["--model", "m.gguf", "--program", paths[0], "--peer",
                                     paths[1], "--rounds", "2", *arguments])
        return code, out.getvalue(), errors.getvalue()

    OURS = [{"test": "prefill", "tokens_per_second": {"median": 600.0, "min": 1, "max": 900}},
            {"test": "decode", "tokens_per_second": {"median": 90.0, "min": 1, "max": 99}},
            {"test": "first_token", "seconds": 0.1}]
    THEIRS = [{"n_prompt": 512, "n_gen": 0, "samples_ts": [300.0]},
              {"n_prompt": 0, "n_gen": 128, "samples_ts": [120.0]}]

    def test_table(self):
        code, out, _ = self.run_with(self.OURS, self.THEIRS)
        self.assertEqual(code, 0)
        self.assertIn("| pp512 | 2 | 600.0 | llama.cpp | 300.0 | 2.00 (2.00 to 2.00) |", out)
        self.assertIn("| tg128 | 2 | 90.0 | llama.cpp | 120.0 | 0.75 (0.75 to 0.75) |", out)

    def test_depth_is_named(self):
        _, out, _ = self.run_with(self.OURS, self.THEIRS, "--depth", "4096")
        self.assertIn("| tg128 @ d4096 |", out)

    def test_openvino_is_a_row_of_its_own(self):
        with tempfile.TemporaryDirectory() as folder:
            python = pathlib.Path(folder, "python")
            rows = [{"n_prompt": 512, "n_gen": 0, "samples_ts": [400.0]},
                    {"n_prompt": 0, "n_gen": 128, "samples_ts": [30.0]}]
            python.write_text(f"#!/bin/sh\necho '{json.dumps(rows)}'\n", encoding="utf-8")
            python.chmod(0o755)
            code, out, _ = self.run_with(self.OURS, self.THEIRS, "--openvino", str(python))
        self.assertEqual(code, 0)
        self.assertIn("| pp512 | 2 | 600.0 | openvino | 400.0 | 1.50 (1.50 to 1.50) |", out)
        self.assertIn("| tg128 | 2 | 90.0 | openvino | 30.0 | 3.00 (3.00 to 3.00) |", out)

    def test_missing_measurement_is_an_error(self):
        code, _, errors = self.run_with(self.OURS[:1], self.THEIRS)
        self.assertEqual(code, 1)
        self.assertIn("tg128", errors)

    def test_failing_program_is_an_error(self):
        code, _, errors = self.run_with(self.OURS, self.THEIRS, "--program", "/bin/false")
        self.assertEqual(code, 1)
        self.assertIn("/bin/false ended with 1", errors)


if __name__ == "__main__":
    unittest.main()
