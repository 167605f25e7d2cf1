#!/usr/bin/env python3
"""From the start of a process to the first token of a prompt of 32 tokens: `orrery run` and
llama.cpp's llama-completion by turns, as a table of their ratios.

Time is the clock's, from before the process is made to the first byte on its stdout. Processor
time is all that the process used, in the kernel too; that of loading is the processor time of the
same start with a prompt of one word. "warm" has the file in the page cache, "cold" not: it is
dropped before each start, and a start whose file could not be dropped is not counted. "beside" is
warm, while an `orrery serve` of the same model runs, whose packed weights it shares.

llama.cpp runs mapped and with direct I/O, each with the warm-up that it does by itself and without,
and with a context of 512 tokens, so that it clears no more memory than it needs.

Usage: start.py [--model FILE ...] [--threads N] [--rounds N] [--state warm|cold|beside ...]
Exit codes: 0 done, 1 a program is missing or failed, 2 wrong usage.
"""

import argparse
import contextlib
import ctypes
import mmap
import os
import pathlib
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent))
from programs import BenchError, output_of  # noqa: E402

MODELS = ("smollm2-135m-instruct", "gemma3-270m", "qwen2.5-coder-0.5b-instruct")
STATES = ("warm", "cold", "beside")
PROMPT_TOKENS = 32
TEXT = ("The lighthouse keeper wrote down the height of the tide every hour of the night, and in "
        "the morning she compared her figures with those of the year before, of the storm, and of "
        "the calm that had followed it for so long.")
PAGE = 4096


def prompt_for(program, model):
    """The first words of the text that are PROMPT_TOKENS tokens of the model."""
    words = TEXT.split(" ")
    for n in range(1, len(words) + 1):
        text = " ".join(words[:n])
        ids = output_of([program, "inspect", "tokens", model, "--ids", "--add-special",
                         "--text", text]).split()
        if len(ids) >= PROMPT_TOKENS:
            return text
    raise BenchError(f"the text has fewer than {PROMPT_TOKENS} tokens of {model}")


def command_of(options, name, model, prompt):
    if name == "orrery":
        return [options.program, "run", model, "--raw", "--quiet", "--temp", "0", "-n", "1",
                "--threads", options.threads, "-p", prompt]
    command = [options.peer, "-m", model, "-no-cnv", "--no-display-prompt", "--temp", "0", "-n",
               "1", "-t", options.threads, "-c", "512", "-lm", name.split()[0], "-p", prompt]
    return command + (["--no-warmup"] if name.endswith("without warm-up") else [])


PROGRAMS = ("orrery", "mmap", "mmap without warm-up", "dio", "dio without warm-up")


def start(command):
    """(seconds to the first byte of stdout, seconds of processor time)."""
    words = [os.fsencode(str(word)) for word in command]
    read_end, write_end = os.pipe()
    try:
        actions = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                   (os.POSIX_SPAWN_DUP2, write_end, 1),
                   (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)]
        begin = time.perf_counter()
        try:
            child = os.posix_spawn(words[0], words, os.environ, file_actions=actions)
        except OSError as error:
            raise BenchError(f"{command[0]} does not run: {error.strerror}") from error
        finally:
            os.close(write_end)
        first = os.read(read_end, 1)
        seconds = time.perf_counter() - begin
        while os.read(read_end, 1 << 16):
            pass
    finally:
        os.close(read_end)
    _, status, usage = os.wait4(child, 0)
    if not first or os.waitstatus_to_exitcode(status) != 0:
        raise BenchError(f"{command[0]} ended with {os.waitstatus_to_exitcode(status)} and "
                         f"{'some' if first else 'no'} text; run: {' '.join(map(str, command))}")
    return seconds, usage.ru_utime + usage.ru_stime


def cached_pages(fd, size):
    """For each page of the file whether it is in the page cache. Not by reading with RWF_NOWAIT,
    which starts to read ahead: small pages all over the file, which then gets no huge ones."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
                          ctypes.c_int, ctypes.c_long]
    start = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, fd, 0)
    if start == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), "a model cannot be mapped")
    pages = (ctypes.c_ubyte * -(-size // PAGE))()
    libc.mincore(ctypes.c_void_p(start), ctypes.c_size_t(size), pages)
    libc.munmap(ctypes.c_void_p(start), ctypes.c_size_t(size))
    return [page & 1 for page in pages]


def prepare(model, state):
    """Brings the file into the page cache or out of it; False where it stays in."""
    fd = os.open(model, os.O_RDONLY)
    try:
        size = os.fstat(fd).st_size
        if state != "cold":
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_SEQUENTIAL)
            buffer = bytearray(1 << 20)
            cached = cached_pages(fd, size)
            for offset in range(0, size, len(buffer)):
                if not all(cached[offset // PAGE:(offset + len(buffer)) // PAGE]):
                    os.preadv(fd, [buffer], offset)
            return True
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        cached = cached_pages(fd, size)
        return sum(cached) <= len(cached) // 20
    finally:
        os.close(fd)


@contextlib.contextmanager
def neighbour(options, model, state):
    """A server that has the model, where the state asks for one."""
    if state != "beside":
        yield
        return
    server = subprocess.Popen([options.program, "serve", model, "--port", "0", "--threads",
                               str(options.threads)], stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True)
    try:
        if not any("http://" in line for line in server.stderr):
            raise BenchError(f"orrery serve {model} does not start")
        yield
    finally:
        server.terminate()
        server.wait()


def measure(options, model, state):
    """{program: [(seconds, processor seconds, those of loading)]}; the order turns around from
    round to round."""
    prompt = prompt_for(options.program, model)
    starts = {name: [] for name in PROGRAMS}
    for number in range(options.rounds):
        for name in PROGRAMS if number % 2 == 0 else PROGRAMS[::-1]:
            if not prepare(model, state):
                print(f"note: {model} stayed in the page cache once", file=sys.stderr)
                continue
            seconds, processor = start(command_of(options, name, model, prompt))
            if state == "cold" and not prepare(model, state):
                continue
            _, loading = start(command_of(options, name, model, TEXT.split(" ", maxsplit=1)[0]))
            starts[name].append((seconds, processor, loading))
        print(f"{model.name} {state}: round {number + 1} of {options.rounds}", file=sys.stderr)
    return starts


def rows_of(model, state, starts):
    """Lines of the table: medians, and the medians of Orrery's ratio to each way of the peer."""
    ours = [statistics.median(part) for part in zip(*starts["orrery"])]
    for name in PROGRAMS[1:]:
        theirs = [statistics.median(part) for part in zip(*starts[name])]
        cells = [f"{a * 1000:.0f} / {b * 1000:.0f} = {a / max(b, 1e-9):.2f}"
                 for a, b in zip(ours, theirs)]
        yield f"| {model.stem} | {state} | {name} | {' | '.join(cells)} |"


def table(options):
    lines = ["| model | file | llama.cpp | first token, ms | processor, ms | of loading, ms |",
             "|---|---|---|---|---|---|"]
    for model in options.model:
        for state in options.state:
            with neighbour(options, model, state):
                starts = measure(options, model, state)
            if not all(starts.values()):
                raise BenchError(f"{model} could not be taken out of the page cache: other "
                                 "programs use it")
            lines += rows_of(model, state, starts)
    return "\n".join(lines)


def parse_arguments(arguments):
    def count(text):
        value = int(text)
        if value < 1:
            raise argparse.ArgumentTypeError("must be at least 1")
        return value

    parser = argparse.ArgumentParser(description="Orrery's start beside llama.cpp's, by turns")
    parser.add_argument("--model", type=pathlib.Path, nargs="+",
                        help=f"GGUF files (default: {', '.join(MODELS)})")
    parser.add_argument("--threads", type=count, default=2)
    parser.add_argument("--rounds", type=count, default=7)
    parser.add_argument("--state", nargs="+", choices=STATES, default=STATES)
    parser.add_argument("--program", default=ROOT / "build" / "orrery")
    parser.add_argument("--peer", help="llama-completion (default: built by build.sh)")
    return parser.parse_args(arguments)


def main(arguments):
    options = parse_arguments(arguments)
    try:
        if options.peer is None:
            folder = output_of([HERE / "build.sh", "llama-completion"]).strip()
            options.peer = pathlib.Path(folder) / "llama-completion"
        if options.model is None:
            fetch = ROOT / "scripts" / "fetch_model.py"
            options.model = [pathlib.Path(output_of([sys.executable, fetch, name]).strip())
                             for name in MODELS]
        print(table(options))
    except (BenchError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
