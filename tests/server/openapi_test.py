#!/usr/bin/env python3
"""schemathesis against the server's own description: whatever it sends, there is no fault of the
server's, and statuses, media types and shapes are those of /openapi.json."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import service

service.needs("schemathesis")

HERE = pathlib.Path(__file__).resolve().parent
# "Not supported" and "busy" are what the description says of them.
CONFIG = """
hooks = "openapi_hooks"
[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", 501, 503, 507]
"""
# Other names of what is tested under one.
ALIASES = ("/chat/completions", "/completions", "/embeddings", "/models", "/v1/health",
           "/v1/reranking", "/rerank", "/reranking")
CHECKS = ("not_a_server_error,status_code_conformance,content_type_conformance,"
          "response_schema_conformance")


class Openapi(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.server = service.Server("--session-dir", cls.folder.name, "--max-running", "4")

    @classmethod
    def tearDownClass(cls):
        code = cls.server.stop()
        cls.folder.cleanup()
        assert code == 0, code

    def test_the_description_is_served(self):
        status, headers, body = self.server.request("GET", "/openapi.json")
        self.assertEqual((status, headers["Content-Type"]), (200, "application/json"))
        self.assertEqual(json.loads(body)["openapi"][:3], "3.1")

    def test_whatever_is_sent(self):
        config = pathlib.Path(self.folder.name) / "schemathesis.toml"
        config.write_text(CONFIG)
        run = subprocess.run(
            [sys.executable, "-m", "schemathesis.cli", "--config-file", str(config),
             "run", f"{self.server.url}/openapi.json", "--checks", CHECKS,
             "--phases", "coverage,fuzzing", "--max-examples", os.environ.get("EXAMPLES", "3"),
             "--seed", "1", "--generation-database", "none", "--no-color", "--no-shrink",
             "--continue-on-failure", "--request-timeout", "30", "--warnings", "off",
             *(word for path in ALIASES for word in ("--exclude-path", path))],
            capture_output=True, text=True, timeout=1200, cwd=self.folder.name,
            env={**os.environ, "PYTHONPATH": str(HERE), "COLUMNS": "120"})
        self.assertEqual(run.returncode, 0, run.stdout[-20000:] + run.stderr[-4000:])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
