#!/usr/bin/env python3
"""Makes golden models for what the shared ones do not exercise: Granite's multipliers, YaRN, longrope
with a partial rotation, and a sliding window with linear rope scaling. Each is a tiny random model as
safetensors and GGUF with logits by transformers in float64.

Needs pip install gguf numpy torch transformers (5.24). Writes into the folder of this file."""
import json
import math
import pathlib
import struct

import gguf
import numpy as np
import torch
import transformers

HERE = pathlib.Path(__file__).parent
HIDDEN, FFN, VOCAB, LAYERS, HEADS, KV_HEADS, HEAD_DIM = 64, 64, 96, 2, 4, 2, 16
COMMON = {
    "hidden_size": HIDDEN, "intermediate_size": FFN, "vocab_size": VOCAB, "hidden_act": "silu",
    "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS,
    "rms_norm_eps": 1e-6, "max_position_embeddings": 128, "tie_word_embeddings": False,
    "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 0,
}
CONTEXT = 128  # tokens
MODELS = {
    "granite": {
        "model_type": "granite", "embedding_multiplier": 12.0, "attention_multiplier": 0.0625,
        "residual_multiplier": 0.22, "logits_scaling": 8.0, "tie_word_embeddings": True,
        "rope_theta": 10000.0,
    },
    "qwen2-yarn": {
        "model_type": "qwen2", "rope_theta": 1000000.0, "max_position_embeddings": 256,
        "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64},
    },
    "phi3-longrope": {
        "model_type": "phi3", "rope_theta": 10000.0, "partial_rotary_factor": 0.75,
        "original_max_position_embeddings": 64, "sliding_window": None,
        "rope_scaling": {"type": "longrope", "short_factor": [1.0, 1.0, 1.1, 1.25, 1.5, 2.0],
                         "long_factor": [1.0, 1.5, 2.0, 3.0, 4.5, 8.0]},
    },
    "mistral-window": {
        "model_type": "mistral", "sliding_window": 24, "head_dim": HEAD_DIM,
        "rope_parameters": {"rope_theta": 10000.0, "rope_type": "linear", "factor": 2.0},
    },
}


def rope_parameters(c):
    return {**c.get("rope_scaling", {}), **c.get("rope_parameters", {})}


def forward(model, ids):
    """Logits of every position as (len(ids), vocab). Filled up to CONTEXT tokens, which no earlier
    position sees, so that longrope takes the factors of that context for every prompt."""
    padded = torch.tensor([ids + [0] * (CONTEXT - len(ids))])
    with torch.no_grad():
        return model(padded, use_cache=False).logits[0, :len(ids)].numpy()


def make_weights(c, rng):
    """Multiples of 2^-10 with 8 bits: exact in F32, F16 and BF16."""
    def draw(*shape, scale=0.09, mean=0.0):
        x = rng.standard_normal(shape) * scale + mean
        step = 2.0 ** -10 if mean == 0.0 else 2.0 ** -7
        return np.clip(np.round(x / step), -255, 255) * step
    q, kv = HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM
    w = {"model.embed_tokens.weight": draw(VOCAB, HIDDEN),
         "model.norm.weight": draw(HIDDEN, scale=0.2, mean=1.0)}
    if not c["tie_word_embeddings"]:
        w["lm_head.weight"] = draw(VOCAB, HIDDEN)
    for layer in range(LAYERS):
        at = f"model.layers.{layer}."
        for name in ("input_layernorm", "post_attention_layernorm"):
            w[f"{at}{name}.weight"] = draw(HIDDEN, scale=0.2, mean=1.0)
        if c["model_type"] == "phi3":
            w[at + "self_attn.qkv_proj.weight"] = draw(q + 2 * kv, HIDDEN)
            w[at + "mlp.gate_up_proj.weight"] = draw(2 * FFN, HIDDEN)
        else:
            for name, rows in (("q", q), ("k", kv), ("v", kv)):
                w[f"{at}self_attn.{name}_proj.weight"] = draw(rows, HIDDEN)
                if c["model_type"] == "qwen2":
                    w[f"{at}self_attn.{name}_proj.bias"] = draw(rows)
            w[at + "mlp.gate_proj.weight"] = draw(FFN, HIDDEN)
            w[at + "mlp.up_proj.weight"] = draw(FFN, HIDDEN)
        w[at + "self_attn.o_proj.weight"] = draw(HIDDEN, q)
        w[at + "mlp.down_proj.weight"] = draw(HIDDEN, FFN)
    return w


def to_bf16(x):
    bits = x.astype(np.float32).view(np.uint32)
    assert not (bits & 0xFFFF).any()
    return (bits >> 16).astype("<u2")


def write_safetensors(path, w):
    header, blobs, at = {}, [], 0
    for name, x in w.items():
        is_bytes = x.dtype == np.uint8
        data = (x if is_bytes else to_bf16(x)).tobytes()
        header[name] = {"dtype": "U8" if is_bytes else "BF16", "shape": list(x.shape),
                        "data_offsets": [at, at + len(data)]}
        at += len(data)
        blobs.append(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))


GGUF_NAMES = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.qkv_proj": "attn_qkv", "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up", "mlp.gate_up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}


def gguf_name(name, names=GGUF_NAMES):
    stem, ending = name.rsplit(".", 1)
    if stem.startswith("model.layers."):
        layer, rest = stem[len("model.layers."):].split(".", 1)
        return f"blk.{layer}.{names[rest]}.{ending}"
    return f"{names[stem]}.{ending}"


def neighbours(x, heads):
    """Pairs (i, i + dim / 2) of each head become neighbours, as converters of Llama do it."""
    return x.reshape(heads, 2, -1, x.shape[-1]).swapaxes(1, 2).reshape(x.shape)


def write_gguf(path, name, c, w):
    arch = {"mistral": "llama"}.get(c["model_type"], c["model_type"])
    out = gguf.GGUFWriter(path, arch)
    out.add_name(name)
    out.add_block_count(LAYERS)
    out.add_context_length(c["max_position_embeddings"])
    out.add_embedding_length(HIDDEN)
    out.add_feed_forward_length(FFN)
    out.add_head_count(HEADS)
    out.add_head_count_kv(KV_HEADS)
    out.add_layer_norm_rms_eps(c["rms_norm_eps"])
    p = rope_parameters(c)
    out.add_rope_freq_base(p.get("rope_theta", c.get("rope_theta")))
    out.add_rope_dimension_count(int(HEAD_DIM * c.get("partial_rotary_factor", 1.0)))
    if "attention_multiplier" in c:
        out.add_attention_scale(c["attention_multiplier"])
        out.add_embedding_scale(c["embedding_multiplier"])
        out.add_residual_scale(c["residual_multiplier"])
        out.add_logit_scale(c["logits_scaling"])
    if c.get("sliding_window"):
        out.add_sliding_window(c["sliding_window"])
    if p.get("type") == "longrope":
        out.add_rope_scaling_orig_ctx_len(c["original_max_position_embeddings"])
        out.add_rope_scaling_attn_factors(longrope_mscale(c))
        for kind in ("long", "short"):
            out.add_tensor(f"rope_factors_{kind}.weight", np.array(p[kind + "_factor"], np.float32))
    elif "factor" in p:
        out.add_rope_scaling_type(gguf.RopeScalingType(p.get("rope_type", p.get("type"))))
        out.add_rope_scaling_factor(p["factor"])
        if "original_max_position_embeddings" in p:
            out.add_rope_scaling_orig_ctx_len(p["original_max_position_embeddings"])
    for tensor, x in w.items():
        if arch in ("llama", "granite") and ("q_proj" in tensor or "k_proj" in tensor):
            x = neighbours(x, HEADS if "q_proj" in tensor else KV_HEADS)
        out.add_tensor(gguf_name(tensor), x.astype(np.float32 if x.ndim == 1 else np.float16))
    finish_gguf(out)


def finish_gguf(out):
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def longrope_mscale(c):
    """Factor of cos and sin that GGUF files of phi3 carry."""
    original = c["original_max_position_embeddings"]
    return math.sqrt(1 + math.log(c["max_position_embeddings"] / original) / math.log(original))


def make(name, settings, seed):
    c = {**COMMON, **settings}
    rng = np.random.default_rng(seed)
    w = make_weights(c, rng)
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(c, indent=1) + "\n")
    write_safetensors(folder / "model.safetensors", w)
    write_gguf(folder / f"{name}-f16.gguf", name, c, w)
    write_logits(folder, name, rng)


def write_logits(folder, name, rng):
    """What transformers makes of two prompts and their greedy continuations."""
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float64, attn_implementation="eager")
    prompts = []
    for number, size in enumerate((7, 80)):
        ids = [0] + [int(i) for i in rng.integers(2, VOCAB, size - 1)]
        np.save(folder / f"logits_p{number}.npy", forward(model, ids).astype(np.float32))
        rows, greedy = [], []
        for _ in range(16):
            rows.append(forward(model, ids + greedy)[-1])
            greedy.append(int(rows[-1].argmax()))
        np.save(folder / f"logits_gen{number}.npy", np.array(rows, np.float32))
        tops = [np.sort(row)[-2:] for row in rows]
        prompts.append({"ids": ids, "greedy": greedy,
                        "margins": [round(float(b - a), 4) for a, b in tops]})
    (folder / "golden.json").write_text(json.dumps({"name": name, "prompts": prompts}) + "\n")


if __name__ == "__main__":
    for index, (model_name, model_settings) in enumerate(MODELS.items()):
        make(model_name, model_settings, 100 + index)
