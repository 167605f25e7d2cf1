#!/usr/bin/env python3
"""Makes the golden model of gpt-oss with experts in MXFP4 as its safetensors have them: bytes and
scales apart, neighbours in a byte, gate and up by turns; in GGUF as converters lay the blocks. The
logits are those of transformers, which unpacks the safetensors itself."""
import json

import gguf
import numpy as np
import torch
import transformers

import make_dense as dense
from make import finish_gguf, write_safetensors

NAME = "gpt-oss-mxfp4"
HIDDEN, EXPERT_FFN, LAYERS, EXPERTS, HEAD_DIM, WINDOW = dense.HIDDEN, 96, 2, 4, 32, 16
ROPE = {"rope_type": "yarn", "rope_theta": 150000.0, "factor": 32.0, "beta_fast": 32.0,
        "beta_slow": 1.0, "original_max_position_embeddings": 4096, "truncate": False}
GGUF_NAMES = {
    **dense.LLAMA_NAMES, "post_attention_layernorm": "post_attention_norm",
    "mlp.router": "ffn_gate_inp",
}


def blocks(rng, rows, cols):
    """Codes as (experts, rows, cols / 32, 32), exponents as (experts, rows, cols / 32)."""
    shape = (EXPERTS, rows, cols // 32)
    return (rng.integers(0, 16, (*shape, 32), dtype=np.uint8),
            rng.integers(120, 123, shape, dtype=np.uint8))


def gguf_blocks(codes, scales):
    """The exponent before 16 bytes, elements i and i + 16 in each."""
    packed = codes[..., :16] | codes[..., 16:] << 4
    return np.concatenate([scales[..., None], packed], -1).reshape(*codes.shape[:2], -1)


def add_experts(w, out, layer, rng):
    for name, rows, cols in (("gate_up", 2 * EXPERT_FFN, HIDDEN), ("down", HIDDEN, EXPERT_FFN)):
        at = f"model.layers.{layer}.mlp.experts.{name}_proj"
        codes, scales = blocks(rng, rows, cols)
        w[at + "_blocks"] = codes[..., 0::2] | codes[..., 1::2] << 4
        w[at + "_scales"] = scales
        bias = w[at + "_bias"] = dense.grid(rng, (EXPERTS, rows), 0.09)
        parts = {"down": slice(None)} if name == "down" else {"gate": slice(0, None, 2),
                                                              "up": slice(1, None, 2)}
        for stem, take in parts.items():
            out.add_tensor(f"blk.{layer}.ffn_{stem}_exps.weight",
                           gguf_blocks(codes[:, take], scales[:, take]),
                           raw_dtype=gguf.GGMLQuantizationType.MXFP4)
            out.add_tensor(f"blk.{layer}.ffn_{stem}_exps.bias",
                           np.ascontiguousarray(bias[:, take], np.float32))


def config():
    return transformers.GptOssConfig(
        vocab_size=dense.VOCAB, hidden_size=HIDDEN, intermediate_size=EXPERT_FFN,
        num_hidden_layers=LAYERS, num_attention_heads=4, num_key_value_heads=2, head_dim=HEAD_DIM,
        num_local_experts=EXPERTS, num_experts_per_tok=2, sliding_window=WINDOW,
        max_position_embeddings=131072, rope_parameters=ROPE, bos_token_id=0, eos_token_id=1,
        pad_token_id=None, tie_word_embeddings=False)


def write_head(out, c):
    out.add_name(NAME)
    out.add_block_count(LAYERS)
    out.add_context_length(c.max_position_embeddings)
    out.add_embedding_length(HIDDEN)
    out.add_feed_forward_length(EXPERT_FFN)
    out.add_expert_feed_forward_length(EXPERT_FFN)
    out.add_head_count(c.num_attention_heads)
    out.add_head_count_kv(c.num_key_value_heads)
    out.add_key_length(HEAD_DIM)
    out.add_value_length(HEAD_DIM)
    out.add_layer_norm_rms_eps(c.rms_norm_eps)
    out.add_expert_count(EXPERTS)
    out.add_expert_used_count(c.num_experts_per_tok)
    out.add_sliding_window(WINDOW)
    out.add_rope_freq_base(ROPE["rope_theta"])
    out.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    out.add_rope_scaling_factor(ROPE["factor"])
    out.add_rope_scaling_orig_ctx_len(ROPE["original_max_position_embeddings"])
    dense.add_tokenizer(out)


def main():
    rng = np.random.default_rng(400)
    folder = dense.HERE / NAME
    folder.mkdir(exist_ok=True)
    c = config()
    out = gguf.GGUFWriter(folder / f"{NAME}-f16.gguf", "gpt-oss")
    write_head(out, c)
    w = {}
    for name, p in transformers.GptOssForCausalLM(c).state_dict().items():
        if ".mlp.experts." in name:
            continue
        norm = "norm" in name
        x = w[name] = dense.grid(rng, tuple(p.shape), 0.2 if norm else 0.09, 1.0 if norm else 0.0)
        gguf_name = (name.replace("model.layers.", "blk.").replace("self_attn.sinks",
                                                                   "attn_sinks.weight")
                     if name.endswith("sinks") else dense.gguf_tensor_name(GGUF_NAMES, name))
        out.add_tensor(gguf_name, x.astype(np.float32 if x.ndim == 1 else np.float16))
    for layer in range(LAYERS):
        add_experts(w, out, layer, rng)
    finish_gguf(out)
    write_safetensors(folder / "model.safetensors", w)
    settings = {**c.to_dict(), "architectures": ["GptOssForCausalLM"],
                "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": []}}
    (folder / "config.json").write_text(json.dumps(settings, indent=1) + "\n")
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager",
        quantization_config=transformers.Mxfp4Config(dequantize=True)).eval()
    dense.write_logits(folder, NAME, model, rng)


main()
