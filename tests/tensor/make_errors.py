#!/usr/bin/env python3
"""Prints the relative errors of gguf-py's quantizer (pip install gguf numpy) on the numbers of
encode_test.cpp, for the table there."""
import numpy as np
from gguf import GGMLQuantizationType as T
from gguf import quants

ROWS, COLS = 64, 1024


def numbers():
    """Sums of four uniform numbers of a 32-bit congruential generator."""
    state, out = 1, np.empty(ROWS * COLS, np.float32)
    for i in range(out.size):
        total = 0
        for _ in range(4):
            state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
            total += state >> 16
        out[i] = np.float32(total - 131070) / np.float32(65536)
    return out


def main():
    x = numbers()
    for kind in (T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q8_0, T.MXFP4):
        y = quants.dequantize(quants.quantize(x.reshape(ROWS, COLS), kind), kind).reshape(-1)
        print(f"{kind.name:6} {np.sqrt(np.mean((y - x) ** 2) / np.mean(x ** 2)):.5f}")


main()
