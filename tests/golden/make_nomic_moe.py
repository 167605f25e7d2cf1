#!/usr/bin/env python3
"""Makes the golden model of Nomic Embed 2, which transformers reads with its own class for version 1 alone:
the definition in numpy, from the paper (arXiv 2502.07972) and the names of the published tensors. GGUF
files lack the bias of the experts, so there are two lists of vectors. The rest is as in make_dense.py."""
import json
import math

import gguf
import numpy as np

import make_dense as dense

HIDDEN, FFN, LAYERS, HEADS, EXPERTS, USED = dense.HIDDEN, dense.FFN, 4, 4, 4, 2
THETA, EPS = 10000.0, 1e-5
CONFIG = {"model_type": "nomic_bert", "activation_function": "gelu", "n_embd": HIDDEN, "n_head": HEADS,
          "n_inner": FFN, "n_layer": LAYERS, "n_positions": dense.CONTEXT, "layer_norm_epsilon": EPS,
          "rotary_emb_base": THETA, "rotary_emb_fraction": 1.0, "rotary_emb_interleaved": False,
          "prenorm": False, "qkv_proj_bias": True, "mlp_fc1_bias": True, "mlp_fc2_bias": True,
          "type_vocab_size": 1, "vocab_size": dense.VOCAB, "moe_every_n_layers": 2,
          "num_experts": EXPERTS, "moe_top_k": USED, "moe_normalize_expert_weights": False}
NAMES = {**dense.NOMIC_NAMES, "mlp.fc1": "ffn_up", "mlp.fc2": "ffn_down",
         "mlp.router.layer": "ffn_gate_inp"}


def make_weights(rng):
    w = {"embeddings.word_embeddings.weight": dense.grid(rng, (dense.VOCAB, HIDDEN), 0.09),
         "embeddings.token_type_embeddings.weight": dense.grid(rng, (1, HIDDEN), 0.09)}

    def linear(name, rows, cols, bias=True):
        w[name + ".weight"] = dense.grid(rng, (rows, cols), 0.09)
        if bias:
            w[name + ".bias"] = dense.grid(rng, (rows,), 0.09)

    def norm(name):
        w[name + ".weight"] = dense.grid(rng, (HIDDEN,), 0.2, 1.0)
        w[name + ".bias"] = dense.grid(rng, (HIDDEN,), 0.09)
    norm("emb_ln")
    for i in range(LAYERS):
        at = f"encoder.layers.{i}."
        linear(at + "attn.Wqkv", 3 * HIDDEN, HIDDEN)
        linear(at + "attn.out_proj", HIDDEN, HIDDEN)
        norm(at + "norm1")
        norm(at + "norm2")
        if i % 2 == 0:
            linear(at + "mlp.fc1", FFN, HIDDEN)
            linear(at + "mlp.fc2", HIDDEN, FFN)
        else:
            linear(at + "mlp.router.layer", EXPERTS, HIDDEN, False)
            for name in ("w1", "w2"):
                w[at + "mlp.experts.mlp." + name] = dense.grid(rng, (EXPERTS * FFN, HIDDEN), 0.09)
            w[at + "mlp.experts.bias"] = dense.grid(rng, (HIDDEN,), 0.09)
    return w


def layer_norm(w, name, x):
    x = x - x.mean(-1, keepdims=True)
    x = x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS)
    return x * w[name + ".weight"] + w[name + ".bias"]


def linear(w, name, x):
    return x @ w[name + ".weight"].T + w[name + ".bias"]


def gelu(x):
    return x * 0.5 * (1.0 + np.vectorize(math.erf)(x / math.sqrt(2.0)))


def softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


def rotate(x):
    """x (tokens, heads, dim): pairs (i, i + dim / 2)."""
    half = x.shape[-1] // 2
    angle = np.arange(len(x))[:, None] * THETA ** (-np.arange(half) / half)
    c, s = np.cos(angle)[:, None], np.sin(angle)[:, None]
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * c - b * s, a * s + b * c], -1)


def attention(w, at, x):
    q, k, v = linear(w, at + "attn.Wqkv", x).reshape(len(x), 3, HEADS, -1).swapaxes(0, 1)
    scores = np.einsum("thd,shd->hts", rotate(q), rotate(k)) / math.sqrt(q.shape[-1])
    out = np.einsum("hts,shd->thd", softmax(scores), v).reshape(len(x), -1)
    return linear(w, at + "attn.out_proj", out)


def mixture(w, at, x):
    weights = softmax(x @ w[at + "mlp.router.layer.weight"].T)
    w1, w2 = (w[f"{at}mlp.experts.mlp.{n}"].reshape(EXPERTS, FFN, HIDDEN) for n in ("w1", "w2"))
    out = np.zeros_like(x)
    for t, row in enumerate(x):
        for e in np.argsort(-weights[t], kind="stable")[:USED]:
            out[t] += weights[t, e] * (gelu(row @ w1[e].T) @ w2[e])
    return out + w[at + "mlp.experts.bias"]


def vector_of(w, ids):
    x = w["embeddings.word_embeddings.weight"][ids] + w["embeddings.token_type_embeddings.weight"][0]
    x = layer_norm(w, "emb_ln", x)
    for i in range(LAYERS):
        at = f"encoder.layers.{i}."
        x = layer_norm(w, at + "norm1", x + attention(w, at, x))
        if i % 2 == 0:
            y = linear(w, at + "mlp.fc2", gelu(linear(w, at + "mlp.fc1", x)))
        else:
            y = mixture(w, at, x)
        x = layer_norm(w, at + "norm2", x + y)
    v = x.mean(0)
    return [round(float(f), 7) for f in v / np.sqrt((v * v).sum())]


def write_gguf(path, name, w):
    out = gguf.GGUFWriter(path, "nomic-bert-moe")
    out.add_name(name)
    out.add_block_count(LAYERS)
    out.add_context_length(dense.CONTEXT)
    out.add_embedding_length(HIDDEN)
    out.add_feed_forward_length(FFN)
    out.add_head_count(HEADS)
    out.add_layer_norm_eps(EPS)
    out.add_rope_freq_base(THETA)
    out.add_causal_attention(False)
    out.add_pooling_type(gguf.PoolingType.MEAN)
    out.add_expert_count(EXPERTS)
    out.add_expert_used_count(USED)
    out.add_moe_every_n_layers(2)
    for tensor, x in w.items():
        if "experts" not in tensor:
            x = x.astype(np.float32 if x.ndim == 1 else np.float16)
            out.add_tensor(dense.gguf_tensor_name(NAMES, tensor), x)
        elif "mlp.experts.mlp" in tensor:
            x = x.astype(np.float16).reshape(EXPERTS, FFN, HIDDEN)
            up = tensor.endswith("w1")
            stem = f"blk.{tensor.split('.')[2]}.ffn_{'up' if up else 'down'}_exps.weight"
            out.add_tensor(stem, x if up else np.ascontiguousarray(x.swapaxes(1, 2)))
    dense.finish_gguf(out)


def main():
    name = "nomic-bert-moe"
    rng = np.random.default_rng(310)
    w = make_weights(rng)
    folder = dense.HERE / name
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIG, indent=1) + "\n")
    dense.write_safetensors(folder / "model.safetensors", w)
    dense.write_modules(folder, "mean", [])
    write_gguf(folder / f"{name}-f16.gguf", name, w)
    without = {n: x * 0 if n.endswith("experts.bias") else x for n, x in w.items()}
    prompts = [[int(i) for i in rng.integers(2, dense.VOCAB, size)] for size in (1, 7, 80)]
    lists = {key: [{"ids": ids, "vector": vector_of(weights, ids)} for ids in prompts]
             for key, weights in (("texts", w), ("gguf_texts", without))}
    (folder / "golden.json").write_text(json.dumps({"name": name, **lists}) + "\n")


main()
