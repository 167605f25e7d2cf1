"""Tests of scripts/setup with stand-ins for the system's commands; nothing is installed."""

import os
import pathlib
import subprocess
import tempfile
import unittest

SETUP = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "setup"

# Reports every package that it is asked about as installed, but for the one in $HIDDEN, which makes
# it fail as the real one does.
DPKG_QUERY = """status=0
for package in "$@"; do
  case "$package" in -*) ;; "$HIDDEN") status=1 ;; *) echo "installed $package" ;; esac
done
exit $status"""


class SetupTest(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        self.calls = self.folder / "calls"
        self.stand_in("dpkg-query", DPKG_QUERY)
        self.stand_in("sudo", "exit 1")
        self.stand_in("apt-get", f'echo "$@" >> "{self.calls}"')

    def stand_in(self, name, body):
        program = self.folder / name
        program.write_text(f"#!/bin/bash\n{body}\n", encoding="utf-8")
        program.chmod(0o755)

    def setup(self, *arguments, user=1000, hidden="none"):
        self.stand_in("id", f"echo {user}")
        environment = dict(os.environ, PATH=f"{self.folder}:{os.environ['PATH']}", HIDDEN=hidden)
        return subprocess.run([str(SETUP), *arguments], env=environment, text=True, check=False,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE)

    def test_nothing_missing_is_silent(self):
        result = self.setup()
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))
        self.assertFalse(self.calls.exists())

    def test_without_root_it_prints_the_line_and_stops(self):
        result = self.setup(hidden="ccache")
        self.assertEqual(result.returncode, 1)
        self.assertIn("\napt-get update && apt-get install -y --no-install-recommends ccache\n",
                      result.stderr)
        self.assertFalse(self.calls.exists())

    def test_as_root_it_installs_what_is_missing(self):
        result = self.setup(user=0, hidden="ccache")
        self.assertEqual(result.returncode, 0, result.stderr)
        calls = self.calls.read_text(encoding="utf-8").splitlines()
        self.assertEqual(calls, ["update -qq",
                                 "install -y -qq --no-install-recommends ccache"])

    def test_test_packages_are_wanted_only_for_tests(self):
        self.assertEqual(self.setup(hidden="clang-19").returncode, 0)
        self.assertEqual(self.setup("--test", hidden="clang-19").returncode, 1)

    def test_wrong_usage(self):
        for arguments in (["--tests"], ["--test", "more"]):
            self.assertEqual(self.setup(*arguments).returncode, 2)


if __name__ == "__main__":
    unittest.main()
