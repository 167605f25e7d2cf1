"""Two processes of one user with one model: one memory for its weights, whoever ends first."""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from service import ROOT, Server, eventually, program

MIB = 1 << 20
PROMPT = {"prompt": "Two processes share", "max_tokens": 12, "temperature": 0}


def pss(process):
    """Bytes of a process by what is mapped, shared ones divided by their users."""
    found = {"packed": 0, "file": 0, "other": 0}
    kind = "other"
    with open(f"/proc/{process}/smaps", encoding="utf-8") as smaps:
        for line in smaps:
            if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
                kind = "packed" if "memfd:orrery" in line else \
                    "file" if line.rstrip().endswith(".gguf") else "other"
            elif line.startswith("Pss:"):
                found[kind] += int(line.split()[1]) * 1024
    return found


def total(*found):
    return {kind: sum(one[kind] for one in found) for kind in found[0]}


def answer(server):
    status, _, body = server.request("POST", "/v1/completions", PROMPT)
    assert status == 200, body
    return json.loads(body)["choices"][0]["text"]


class Sharing(unittest.TestCase):
    def setUp(self):
        self.servers = []
        # A file of its own: whoever else runs the default model would share its weights.
        source = subprocess.run([ROOT / "scripts" / "default-model"], capture_output=True,
                                text=True, check=True).stdout.strip()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.model = pathlib.Path(folder.name) / pathlib.Path(source).name
        shutil.copyfile(source, self.model)

    def tearDown(self):
        for server in self.servers:
            if server.process.poll() is None:
                server.stop()

    def start(self):
        server = Server(str(self.model))
        self.servers.append(server)
        server.wait_for_log("model .*\n")
        return server

    def test_the_second_adds_no_weights_and_outlives_the_first(self):
        first = self.start()
        if "packed in a" not in first.log() or "private memory" in first.log():
            self.skipTest("no memory files here: " + first.log())
        said = answer(first)  # which maps all weights
        alone = pss(first.process.pid)
        second = self.start()
        self.assertIn("of process", second.log())
        self.assertEqual(answer(second), said)
        both = total(pss(first.process.pid), pss(second.process.pid))
        weights = alone["packed"] + alone["file"]
        added = both["packed"] + both["file"] - weights
        print(f"weights {weights / MIB:.1f} MiB, the second adds {added / MIB:.2f} of them and "
              f"{(both['other'] - alone['other']) / MIB:.1f} besides", file=sys.stderr)
        self.assertGreater(alone["packed"], 40 * MIB)
        self.assertLess(added, weights * 0.02)
        self.assertLess(both["other"] - alone["other"], 40 * MIB)
        first.process.kill()
        first.process.wait()
        self.assertEqual(answer(second), said)

        def third_gets_it():
            out = subprocess.run([program(), "bench", "copies", self.model], capture_output=True,
                                 text=True, check=True).stdout
            return f"of process {second.process.pid}" in out
        self.assertTrue(eventually(third_gets_it))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
