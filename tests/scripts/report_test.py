"""Tests of bench/report/report.py with a stand-in program that prints fixed figures."""

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench" / "report"))
import plots  # noqa: E402
import report  # noqa: E402

SPEED = {"median": 100.0, "min": 90.0, "max": 110.0}
ROOFLINE = {"plain_read_bytes_per_second": 4e10, "prefetched_read_bytes_per_second": 3e10,
            "f32_operations_per_second": 2e11, "int8_operations_per_second": 9e11,
            "bf16_operations_per_second": 0.0, "tile_operations_per_second": 0.0}


def step(name, operations):
    return {"step": name, "class": "i8", "runs": 30, "seconds": 2e-3, "waiting_seconds": 1e-4,
            "bytes": 6e7, "operations": operations, "roof": "read" if operations else "",
            "roof_fraction": 0.75 if operations else 0.0, "fraction": 0.4}


def test_of(name):
    return {"test": name, "tokens": 32, "tokens_per_second": SPEED, "bandwidth_fraction": 0.9,
            "model": "a <model>", "device": "avx2, 2 threads", "roofline": ROOFLINE,
            "steps": {"seconds": 5e-3, "barrier_seconds": 5e-4, "bookkeeping_seconds": 5e-4,
                      "overhead_fraction": 0.2, "samples": 10, "kept": 5, "interrupted": 2,
                      "undisturbed": True, "rows": [step("ffn_down", 1.2e8), step("norm", 0)]}}


def product(unit, size, path="packed", kind="bf16", packing=False):
    return {"unit": unit, "kernels": "avx2", "path": path, "type": kind, "computed": "bf16",
            "m": size, "n": size, "k": size, "threads": 1, "packing": packing, "seconds": 2e-6,
            "median_seconds": 3e-6, "gflops": 40.0, "peak_fraction": 0.5}


PRODUCTS = {"products": [product("vector", 16), product("vector", 16, packing=True),
                         product("vector", 512, "blocks", "int8"), product("blas", 16, "sgemm")],
            "dispatch": {"threads": 2, "seconds": 5e-7, "median_seconds": 9e-7}, "peaks": [],
            "missing": ["matrix: no <tiles>"]}


class ReportTest(unittest.TestCase):
    def run_with(self, tests, kernels="avx2 emu", code=0):
        """Exit code, errors and the files of a report on a program that prints these tests."""
        with tempfile.TemporaryDirectory() as folder:
            data, program = pathlib.Path(folder, "tests.json"), pathlib.Path(folder, "orrery")
            data.write_text(json.dumps(tests), encoding="utf-8")
            products = pathlib.Path(folder, "products.json")
            products.write_text(json.dumps(PRODUCTS), encoding="utf-8")
            program.write_text(
                f"#!/bin/sh\n[ \"$1\" = bench ] && cat '{data}' && exit {code}\n"
                f"[ \"$1\" = silicon ] && cat '{products}' && exit 0\n"
                f"echo 'cpu: some'; echo 'kernels: {kernels}'\n", encoding="utf-8")
            program.chmod(0o755)
            out, errors = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
                result = report.main(["--program", str(program), "--benches", folder, "--out",
                                      f"{folder}/report"])
            files = {path.name: path.read_text(encoding="utf-8")
                     for path in pathlib.Path(folder, "report").glob("*")}
        return result, errors.getvalue(), files

    TESTS = [test_of("prefill"), {**test_of("first_token"), "steps": None}, test_of("decode")]
    TESTS[1].pop("steps")

    def test_three_files_say_the_same(self):
        code, errors, files = self.run_with(self.TESTS)
        self.assertEqual(code, 0, errors)
        self.assertEqual(set(files), {"report.json", "report.md", "report.html"})
        self.assertEqual(json.loads(files["report.json"])["tests"], self.TESTS)
        for text in ("ffn_down", "75% read", "Barriers and bookkeeping: 20.0%", "bf16 tiles none"):
            self.assertIn(text, files["report.md"])
            self.assertIn(text, files["report.html"])
        self.assertIn("| decode 32 | 100.0 | 90.0 | 110.0 | 90% |", files["report.md"])

    def test_the_page_needs_nothing_else_and_is_escaped(self):
        _, _, files = self.run_with(self.TESTS)
        page = files["report.html"]
        self.assertEqual(page.count('role="img"'), 6)
        for outside in ("<script", "src=", "href=", "http", "@import", "url("):
            self.assertNotIn(outside, page)
        self.assertIn("a &lt;model&gt;", page)

    def test_what_is_missing_is_a_line(self):
        _, _, files = self.run_with(self.TESTS)
        self.assertIn("- amx: not measured, this processor or build has no AMX tiles",
                      files["report.md"])
        self.assertIn("- rows_bench: not measured, it is not built", files["report.md"])
        self.assertIn("| avx2 | 100.0 | 100.0 |", files["report.md"])

    def test_products_and_the_dispatch_stand_apart(self):
        _, _, files = self.run_with(self.TESTS)
        row = "| 512 | vector (avx2) | blocks | int8 as bf16 | without | 1 | 2.00 | 3.00 | 40.0 |"
        self.assertIn(row, files["report.md"])
        self.assertIn("Dispatch latency, an empty job to 2 threads and back: 0.50 us at best",
                      files["report.md"])
        self.assertIn("- silicon matmul: matrix: no <tiles>", files["report.md"])
        self.assertIn("silicon matmul: matrix: no &lt;tiles&gt;", files["report.html"])
        self.assertEqual(files["report.html"].count("40.0 GFLOP/s, 50% of peak"), 2)

    def test_a_failing_program_is_an_error(self):
        code, errors, files = self.run_with(self.TESTS, code=3)
        self.assertEqual(code, 1)
        self.assertIn("ended with 3", errors)
        self.assertEqual(files, {})


class PlotsTest(unittest.TestCase):
    def test_plots_are_xml_and_in_the_frame(self):
        drawn = [plots.bars([("a & b", 3.0, "<note>", "decode", (1.0, 5.0)),
                             ("none", 0.0, "", "rest", None)], "bars", "tok/s"),
                 plots.roofline([("p", 2.0, 1e11, "decode"), ("q", 500.0, 4e11, "prefill")], 4e10,
                                [("f32", 2e11), ("int8", 9e11)], "roofs")]
        for text in drawn:
            tree = xml.etree.ElementTree.fromstring(text)
            _, _, width, height = map(float, tree.get("viewBox").split())
            for element in tree.iter():
                for name, limit in (("x", width), ("cx", width), ("y", height), ("cy", height)):
                    if element.get(name):
                        self.assertTrue(0 <= float(element.get(name)) <= limit, element.attrib)

    def test_bars_are_as_long_as_their_values(self):
        tree = xml.etree.ElementTree.fromstring(
            plots.bars([("a", 10.0, "", "decode", None), ("b", 5.0, "", "decode", None)], "", ""))
        one, two = (float(rect.get("width")) for rect in tree.iter("rect"))
        self.assertAlmostEqual(one, 2 * two, places=0)


if __name__ == "__main__":
    unittest.main()
