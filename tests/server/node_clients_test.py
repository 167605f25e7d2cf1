#!/usr/bin/env python3
"""The server through JavaScript's clients: openai, ollama and Vercel's ai (node/clients.mjs)."""

import os
import pathlib
import shutil
import subprocess
import sys

import service

FOLDER = pathlib.Path(__file__).resolve().parent / "node"


class Node(service.ServedCase):
    def test_clients(self):
        result = subprocess.run(
            ["node", "--test", str(FOLDER / "clients.mjs")], check=False, timeout=240,
            env={**os.environ, "ORRERY_URL": self.server.url, "ORRERY_MODEL": service.MODEL},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(result.returncode, 0, result.stdout)
        self.assertRegex(result.stdout, r"pass [1-9]", "no test ran")


if __name__ == "__main__":
    if shutil.which("node") is None or not (FOLDER / "node_modules").is_dir():
        print("skipped: node or its packages are missing (scripts/setup --test)")
        sys.exit(service.SKIPPED)
    service.main()
