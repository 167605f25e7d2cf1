#!/usr/bin/env python3
"""Compares orrery quantize with ggml's own quantizer: the same types for each tensor, the same
F32 weights, both files evaluated by orrery eval kl against them.

Usage: bench/peers/quantize.py MODEL TEXT TYPE...    (needs: pip install gguf numpy)
Environment: ORRERY (default build/orrery), GGML (libggml-base.so; by default out of the wheel
pywhispercpp of PyPI), IMATRIX (a file of orrery imatrix, used by both sides)."""
import ctypes
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

import numpy as np
from gguf import GGMLQuantizationType, GGUFReader

WHEEL = "pywhispercpp==1.5.1"
ORRERY = os.environ.get("ORRERY", "build/orrery")
PLAIN = (GGMLQuantizationType.F32, GGMLQuantizationType.F16, GGMLQuantizationType.BF16)


def load_ggml(folder):
    """libggml-base with the signature of its quantizer."""
    path = os.environ.get("GGML")
    if path is None:
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder,
                        WHEEL], check=True)
        wheel = next(pathlib.Path(folder).glob("*.whl"))
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
        path = next(pathlib.Path(folder).glob("**/libggml-base-*.so*"))
    ggml = ctypes.CDLL(str(path))
    ggml.ggml_quantize_chunk.restype = ctypes.c_size_t
    ggml.ggml_quantize_chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p,
                                         ctypes.c_int64, ctypes.c_int64, ctypes.c_int64,
                                         ctypes.c_void_p]
    return ggml


def read_importance(path):
    """Mean squares of the columns by weight."""
    sums = {t.name: np.array(t.data, np.float32) for t in GGUFReader(path).tensors} if path else {}
    return {name.removesuffix(".in_sum2"): np.ascontiguousarray(
        (sums[name] / sums[name.removesuffix(".in_sum2") + ".counts"]).reshape(-1))
        for name in sums if name.endswith(".in_sum2")}


def requantize(ggml, ours, source, target, importance):
    """`ours` with every quantized tensor as ggml writes it."""
    shutil.copy(ours, target)
    weights = {t.name: t for t in GGUFReader(source).tensors}
    for tensor in GGUFReader(target, "r+").tensors:
        if tensor.tensor_type in PLAIN:
            continue
        x = np.ascontiguousarray(weights[tensor.name].data, np.float32)
        cols = int(tensor.shape[0])
        out = np.zeros(tensor.n_bytes, np.uint8)
        columns = importance.get(tensor.name)
        written = ggml.ggml_quantize_chunk(int(tensor.tensor_type), x.ctypes.data, out.ctypes.data,
                                           0, x.size // cols, cols,
                                           None if columns is None else columns.ctypes.data)
        assert written == tensor.n_bytes, tensor.name
        tensor.data.reshape(-1).view(np.uint8)[:] = out


def orrery(*arguments):
    done = subprocess.run([ORRERY, *arguments], check=True, capture_output=True, text=True)
    return dict(line.split(None, 1) for line in done.stdout.splitlines())


def main():
    model, text, *types = sys.argv[1:]
    imatrix = os.environ.get("IMATRIX")
    with tempfile.TemporaryDirectory() as folder:
        ggml = load_ggml(folder)
        source, ours, theirs = (f"{folder}/{name}.gguf" for name in ("source", "ours", "theirs"))
        orrery("quantize", model, source, "F32", "--no-eval")
        importance = read_importance(imatrix)
        print("| type | MB | perplexity | ggml | kl_mean | ggml |\n|---|---|---|---|---|---|")
        for kind in types:
            extra = ["--imatrix", imatrix] if imatrix else []
            orrery("quantize", source, ours, kind, "--no-eval", *extra)
            requantize(ggml, ours, source, theirs, importance)
            a, b = (orrery("eval", "kl", path, "--reference", source, "--file", text,
                           "--ctx", "512") for path in (ours, theirs))
            size = os.path.getsize(ours) / 1e6
            print(f"| {kind} | {size:.1f} | {a['perplexity']} | {b['perplexity']} | "
                  f"{a['kl_mean']} | {b['kl_mean']} |", flush=True)


main()
