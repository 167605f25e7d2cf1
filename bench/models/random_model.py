#!/usr/bin/env python3
"""Writes GGUF files of random weights with the shapes of real mixtures of experts.

    bench/models/random_model.py qwen3-30b-a3b 8 model.gguf      # layers cut to about 8 GB

Speed depends on shapes and types, not on what the weights are; their size is that of trained ones,
so that nothing overflows and tokens spread over the experts. Needs numpy.
"""
import argparse
import struct
import sys

import numpy as np

F32, Q8_0, Q4_K, MXFP4 = 0, 8, 12, 39
# Elements and bytes of a block.
BLOCKS = {F32: (1, 4), Q8_0: (32, 34), Q4_K: (256, 144), MXFP4: (32, 17)}
ALIGNMENT = 32
UINT32, FLOAT32, STRING, ARRAY, INT32 = 4, 6, 8, 9, 5

SHAPES = {
    "qwen3-30b-a3b": {
        "arch": "qwen3moe", "layers": 48, "hidden": 2048, "heads": 32, "kv_heads": 4, "head": 128,
        "ffn": 768, "experts": 128, "used": 8, "vocab": 151936, "context": 40960, "eps": 1e-6,
        "theta": 1e6, "dense": Q4_K, "expert": Q4_K,
    },
    "gpt-oss-20b": {
        "arch": "gpt-oss", "layers": 24, "hidden": 2880, "heads": 64, "kv_heads": 8, "head": 64,
        "ffn": 2880, "experts": 32, "used": 4, "vocab": 201088, "context": 131072, "eps": 1e-5,
        "theta": 150000.0, "dense": Q8_0, "expert": MXFP4,
    },
    # Rows of 1408 and 128 are not whole blocks of Q4_K: such tensors are Q8_0.
    "deepseek-v2-lite": {
        "arch": "deepseek2", "layers": 27, "hidden": 2048, "heads": 16, "kv_heads": 1, "head": 576,
        "value": 512, "ffn": 1408, "dense_ffn": 10944, "experts": 64, "used": 6, "shared": 2,
        "vocab": 102400, "context": 163840, "eps": 1e-6, "theta": 10000.0, "rank": 512,
        "rope": 64, "nope": 128, "head_value": 128, "dense": Q4_K, "expert": Q4_K,
    },
}


def latent_tensors(shape, layer):
    """Those of a layer with latent attention and, after the first layer, shared experts."""
    d, n, e, heads, rank = (shape[k] for k in ("hidden", "ffn", "experts", "heads", "rank"))
    rope, nope, value, shared = (shape[k] for k in ("rope", "nope", "head_value", "shared"))
    tensors = [
        ("attn_norm.weight", F32, (d,)),
        ("attn_q.weight", Q4_K, (d, heads * (nope + rope))),
        ("attn_kv_a_mqa.weight", Q4_K, (d, rank + rope)),
        ("attn_kv_a_norm.weight", F32, (rank,)),
        ("attn_k_b.weight", Q8_0, (nope, rank, heads)),
        ("attn_v_b.weight", Q4_K, (rank, value, heads)),
        ("attn_output.weight", Q4_K, (heads * value, d)),
        ("ffn_norm.weight", F32, (d,)),
    ]
    if layer == 0:
        return tensors + [
            ("ffn_gate.weight", Q4_K, (d, shape["dense_ffn"])),
            ("ffn_up.weight", Q4_K, (d, shape["dense_ffn"])),
            ("ffn_down.weight", Q8_0, (shape["dense_ffn"], d)),
        ]
    return tensors + [
        ("ffn_gate_inp.weight", F32, (d, e)),
        ("ffn_gate_exps.weight", Q4_K, (d, n, e)),
        ("ffn_up_exps.weight", Q4_K, (d, n, e)),
        ("ffn_down_exps.weight", Q8_0, (n, d, e)),
        ("ffn_gate_shexp.weight", Q4_K, (d, shared * n)),
        ("ffn_up_shexp.weight", Q4_K, (d, shared * n)),
        ("ffn_down_shexp.weight", Q4_K, (shared * n, d)),
    ]


def head_tensors(shape):
    """Those of a layer with attention heads and experts."""
    d, n, e = shape["hidden"], shape["ffn"], shape["experts"]
    q, kv = shape["heads"] * shape["head"], shape["kv_heads"] * shape["head"]
    dense, expert = shape["dense"], shape["expert"]
    tensors = [
        ("attn_norm.weight", F32, (d,)),
        ("attn_q.weight", dense, (d, q)),
        ("attn_k.weight", dense, (d, kv)),
        ("attn_v.weight", dense, (d, kv)),
        ("attn_output.weight", dense, (q, d)),
        ("ffn_gate_inp.weight", F32, (d, e)),
        ("ffn_gate_exps.weight", expert, (d, n, e)),
        ("ffn_up_exps.weight", expert, (d, n, e)),
        ("ffn_down_exps.weight", expert, (n, d, e)),
    ]
    if shape["arch"] == "gpt-oss":
        tensors += [
            ("post_attention_norm.weight", F32, (d,)),
            ("attn_sinks.weight", F32, (shape["heads"],)),
            ("attn_q.bias", F32, (q,)),
            ("attn_k.bias", F32, (kv,)),
            ("attn_v.bias", F32, (kv,)),
            ("attn_output.bias", F32, (d,)),
            ("ffn_gate_inp.bias", F32, (e,)),
            ("ffn_gate_exps.bias", F32, (n, e)),
            ("ffn_up_exps.bias", F32, (n, e)),
            ("ffn_down_exps.bias", F32, (d, e)),
        ]
    else:
        tensors += [
            ("ffn_norm.weight", F32, (d,)),
            ("attn_q_norm.weight", F32, (shape["head"],)),
            ("attn_k_norm.weight", F32, (shape["head"],)),
        ]
    return tensors


def layer_tensors(shape, layer):
    """(name, type, dims with the contiguous one first) of one layer."""
    latent = shape["arch"] == "deepseek2"
    tensors = latent_tensors(shape, layer) if latent else head_tensors(shape)
    return [(f"blk.{layer}.{name}", kind, dims) for name, kind, dims in tensors]


def outer_tensors(shape):
    d, vocab = shape["hidden"], shape["vocab"]
    return [
        ("token_embd.weight", Q8_0, (d, vocab)),
        ("output_norm.weight", F32, (d,)),
        ("output.weight", Q8_0, (d, vocab)),
    ]


def size_of(tensor):
    _, kind, dims = tensor
    length, width = BLOCKS[kind]
    return int(np.prod(dims, dtype=np.int64)) // length * width


def random_bytes(rng, tensor):
    """The tensor in pieces."""
    name, kind, dims = tensor
    length, width = BLOCKS[kind]
    blocks = int(np.prod(dims, dtype=np.int64)) // length
    deviation = 1.0 / np.sqrt(dims[0])
    if kind == F32:
        if "norm" in name:
            yield np.ones(blocks, np.float32).tobytes()
        else:
            scale = deviation if len(dims) > 1 and "weight" in name else 0.1
            yield (rng.standard_normal(blocks, np.float32) * np.float32(scale)).tobytes()
        return
    for begin in range(0, blocks, 1 << 18):
        n = min(1 << 18, blocks - begin)
        piece = rng.integers(0, 256, (n, width), np.uint8)
        if kind == Q8_0:  # codes deviate by 74
            piece[:, 0:2] = np.full(n, deviation / 74, np.float16).view(np.uint8).reshape(n, 2)
        elif kind == Q4_K:  # 6-bit scales of 32 on average, codes around 7.5
            step = np.full(n, deviation / 150, np.float16)
            piece[:, 0:2] = step.view(np.uint8).reshape(n, 2)
            piece[:, 2:4] = (step * np.float16(7.5)).view(np.uint8).reshape(n, 2)
        else:  # an exponent of two; codes deviate by 2.7
            piece[:, 0] = 127 + int(np.round(np.log2(deviation / 2.7)))
        yield piece.tobytes()


def text(value):
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def pair(key, kind, value):
    head = text(key) + struct.pack("<I", kind)
    if kind == STRING:
        return head + text(value)
    return head + struct.pack({UINT32: "<I", FLOAT32: "<f"}[kind], value)


def array(key, kind, values):
    head = text(key) + struct.pack("<IIQ", ARRAY, kind, len(values))
    if kind == STRING:
        return head + b"".join(text(value) for value in values)
    return head + np.array(values, {INT32: "<i4", FLOAT32: "<f4"}[kind]).tobytes()


def metadata(shape, layers, name):
    arch = shape["arch"]
    numbers = {
        "block_count": layers, "context_length": shape["context"],
        "embedding_length": shape["hidden"], "feed_forward_length": shape["ffn"],
        "expert_feed_forward_length": shape["ffn"], "expert_count": shape["experts"],
        "expert_used_count": shape["used"], "attention.head_count": shape["heads"],
        "attention.head_count_kv": shape["kv_heads"], "attention.key_length": shape["head"],
        "attention.value_length": shape.get("value", shape["head"]),
    }
    if arch == "deepseek2":
        numbers |= {
            "feed_forward_length": shape["dense_ffn"], "leading_dense_block_count": 1,
            "expert_shared_count": shape["shared"], "expert_gating_func": 1,
            "attention.q_lora_rank": 0, "attention.kv_lora_rank": shape["rank"],
            "attention.key_length_mla": shape["nope"] + shape["rope"],
            "attention.value_length_mla": shape["head_value"],
            "rope.dimension_count": shape["rope"],
        }
    pairs = [pair("general.architecture", STRING, arch), pair("general.name", STRING, name)]
    pairs += [pair(f"{arch}.{key}", UINT32, value) for key, value in numbers.items()]
    pairs.append(pair(f"{arch}.attention.layer_norm_rms_epsilon", FLOAT32, shape["eps"]))
    pairs.append(pair(f"{arch}.rope.freq_base", FLOAT32, shape["theta"]))
    if arch == "gpt-oss":
        pairs.append(pair(f"{arch}.attention.sliding_window", UINT32, 128))
        pairs.append(pair(f"{arch}.rope.scaling.type", STRING, "yarn"))
        pairs.append(pair(f"{arch}.rope.scaling.factor", FLOAT32, 32.0))
        pairs.append(pair(f"{arch}.rope.scaling.original_context_length", UINT32, 4096))
    if arch == "deepseek2":
        pairs.append(pair(f"{arch}.expert_weights_scale", FLOAT32, 1.0))
        pairs.append(pair(f"{arch}.rope.scaling.type", STRING, "yarn"))
        pairs.append(pair(f"{arch}.rope.scaling.factor", FLOAT32, 40.0))
        pairs.append(pair(f"{arch}.rope.scaling.original_context_length", UINT32, 4096))
        pairs.append(pair(f"{arch}.rope.scaling.yarn_log_multiplier", FLOAT32, 0.0707))
    # A vocabulary that any text can be cut into: bytes, and words that no text has.
    special = ["<unk>", "<s>", "</s>"]
    tokens = special + [f"<0x{byte:02X}>" for byte in range(256)]
    kinds = [2, 3, 3] + [6] * 256
    words = shape["vocab"] - len(tokens)
    pairs += [
        pair("tokenizer.ggml.model", STRING, "llama"),
        array("tokenizer.ggml.tokens", STRING, tokens + [f"word{i}" for i in range(words)]),
        array("tokenizer.ggml.scores", FLOAT32, np.zeros(shape["vocab"])),
        array("tokenizer.ggml.token_type", INT32, kinds + [1] * words),
    ]
    return pairs


def padding(size):
    return b"\0" * (-size % ALIGNMENT)


def write(path, shape, layers, name):
    tensors = outer_tensors(shape)
    for layer in range(layers):
        tensors += layer_tensors(shape, layer)
    pairs = metadata(shape, layers, name)
    header = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(pairs)) + b"".join(pairs)
    offset = 0
    for tensor in tensors:
        name, kind, dims = tensor
        header += text(name) + struct.pack("<I", len(dims))
        header += struct.pack(f"<{len(dims)}QIQ", *dims, kind, offset)
        offset += size_of(tensor) + len(padding(size_of(tensor)))
    rng = np.random.default_rng(1)
    with open(path, "wb") as file:
        file.write(header + padding(len(header)))
        for tensor in tensors:
            for piece in random_bytes(rng, tensor):
                file.write(piece)
            file.write(padding(size_of(tensor)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("gigabytes", type=float, help="size of the file; layers are cut to it")
    parser.add_argument("path")
    arguments = parser.parse_args()
    shape = SHAPES[arguments.shape]
    outer = sum(size_of(tensor) for tensor in outer_tensors(shape))
    sizes = [sum(size_of(tensor) for tensor in layer_tensors(shape, layer))
             for layer in range(shape["layers"])]
    total, layers = outer, 0
    while layers < len(sizes) and total + sizes[layers] <= arguments.gigabytes * 1e9:
        total, layers = total + sizes[layers], layers + 1
    if layers < 1:
        sys.exit(f"one layer and the vocabulary take {(outer + sizes[0]) / 1e9:.2f} GB")
    name = f"{arguments.shape}, {layers} of {shape['layers']} layers, random"
    write(arguments.path, shape, layers, name)
    print(f"{arguments.path}: {name}, {total / 1e9:.2f} GB")


if __name__ == "__main__":
    main()
