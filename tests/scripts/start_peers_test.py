"""Tests of bench/peers/start.py with two stand-in programs that sleep and say a word."""

import contextlib
import io
import os
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench" / "peers"))
import start  # noqa: E402

# A word is a token; what it does with a prompt is to wait for so long.
OURS = """#!/bin/sh
if [ "$1" = inspect ]; then echo $7; exit; fi
if [ "$1" = serve ]; then echo "on http://x" >&2; exec sleep 60; fi
sleep 0.05; echo word
"""
THEIRS = "#!/bin/sh\nsleep 0.2; echo word; sleep 0.1\n"


class StartPeersTest(unittest.TestCase):
    def run_with(self, ours, theirs, *arguments):
        """Exit code, stdout and stderr of a comparison of these programs."""
        with tempfile.TemporaryDirectory() as folder:
            model = pathlib.Path(folder, "tiny.gguf")
            model.write_bytes(bytes(1 << 20))
            paths = []
            for name, text in (("orrery", ours), ("peer", theirs)):
                program = pathlib.Path(folder, name)
                program.write_text(text, encoding="utf-8")
                program.chmod(0o755)
                paths.append(str(program))
            out, errors = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
                code = start.main(["--model", str(model), "--program", paths[0], "--peer",
                                   paths[1], "--rounds", "1", "--state", "warm", *arguments])
        return code, out.getvalue(), errors.getvalue()

    def test_the_first_byte_counts(self):
        code, out, errors = self.run_with(OURS, THEIRS)
        self.assertEqual(code, 0, errors)
        rows = [line.split("|") for line in out.splitlines() if line.startswith("| tiny")]
        self.assertEqual([row[3].strip() for row in rows], list(start.PROGRAMS[1:]))
        for row in rows:
            ours, theirs = row[4].split("=")[0].split("/")
            self.assertGreaterEqual(float(ours), 50)
            self.assertLess(float(ours), float(theirs))
            self.assertGreaterEqual(float(theirs), 200)

    def test_beside_a_server(self):
        code, out, errors = self.run_with(OURS, THEIRS, "--state", "beside")
        self.assertEqual(code, 0, errors)
        self.assertIn("| tiny | beside | mmap |", out)
        broken = OURS.replace("exec sleep 60", "exit 1").replace("http", "-")
        code, _, errors = self.run_with(broken, THEIRS, "--state", "beside")
        self.assertEqual(code, 1)
        self.assertIn("does not start", errors)

    def test_a_program_that_says_nothing_is_an_error(self):
        code, _, errors = self.run_with(OURS, "#!/bin/sh\n")
        self.assertEqual(code, 1)
        self.assertIn("no text", errors)

    def test_a_program_that_fails_is_an_error(self):
        code, _, errors = self.run_with(OURS, "#!/bin/sh\necho word; exit 3\n")
        self.assertEqual(code, 1)
        self.assertIn("ended with 3", errors)

    def test_a_program_that_is_missing_is_an_error(self):
        code, _, errors = self.run_with(OURS, THEIRS, "--peer", "/no/such/program")
        self.assertEqual(code, 1)
        self.assertIn("/no/such/program", errors)

    def test_a_prompt_has_the_tokens_that_are_asked_for(self):
        code, _, errors = self.run_with(OURS.replace("echo $7", "echo 7"), THEIRS)
        self.assertEqual(code, 1)
        self.assertIn("fewer than 32 tokens", errors)

    def test_a_look_at_the_pages_reads_none(self):
        with tempfile.TemporaryFile() as file:
            file.write(bytes(1 << 22))
            file.flush()
            os.fsync(file.fileno())
            self.assertTrue(all(start.cached_pages(file.fileno(), 1 << 22)))
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            if any(start.cached_pages(file.fileno(), 1 << 22)):
                self.skipTest("this file system keeps its pages in memory")
            self.assertFalse(any(start.cached_pages(file.fileno(), 1 << 22)))


if __name__ == "__main__":
    unittest.main()
