#!/usr/bin/env python3
"""Writes blocks.bin beside itself: random blocks of every element type with the values that
gguf-py (pip install gguf numpy) decodes from them. Records: u32 type id, u32 elements, u32 bytes,
the bytes, the elements as f32; all little endian."""
import pathlib
import struct

import numpy as np
from gguf import GGMLQuantizationType as T
from gguf import GGML_QUANT_SIZES, quants

ELEMENTS = 1024
# Byte offsets of the f16 fields of a block: random bytes there would be NaN now and then.
HALVES = {
    T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q8_0: [0], T.Q2_K: [80, 82],
    T.Q3_K: [108], T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208], T.IQ4_NL: [0], T.IQ4_XS: [0],
    T.MXFP4: [], T.NVFP4: [], T.F16: [0], T.BF16: [], T.F32: [],
}


def main():
    rng = np.random.default_rng(20240601)
    with open(pathlib.Path(__file__).with_name("blocks.bin"), "wb") as out:
        for kind, halves in HALVES.items():
            length, size = GGML_QUANT_SIZES[kind]
            blocks = rng.integers(0, 256, (ELEMENTS // length, size), dtype=np.uint8)
            for offset in halves:
                scale = rng.standard_normal(len(blocks)).astype(np.float16)
                scale[0] = np.float16(3e-7)  # subnormal
                blocks[:, offset:offset + 2] = scale.view(np.uint8).reshape(-1, 2)
            if kind == T.MXFP4:
                blocks[:, 0] = rng.integers(100, 140, len(blocks))
            if kind == T.NVFP4:
                blocks[:, :4] = rng.integers(0, 127, (len(blocks), 4))
                blocks[0, :4] = [0, 1, 7, 126]
            if kind in (T.BF16, T.F32):
                plain = rng.standard_normal(ELEMENTS).astype(np.float32)
                raw = plain.view(np.uint8).reshape(-1, 4)
                blocks = raw if kind == T.F32 else raw[:, 2:].copy()
            values = quants.dequantize(np.ascontiguousarray(blocks).reshape(1, -1), kind)
            values = np.asarray(values, dtype=np.float32).reshape(-1)
            assert values.size == ELEMENTS and np.isfinite(values).all(), kind
            data = blocks.tobytes()
            out.write(struct.pack("<III", int(kind), ELEMENTS, len(data)) + data + values.tobytes())


main()
