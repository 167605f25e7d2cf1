#!/usr/bin/env python3
"""Makes the golden model of latent attention that no shared one is: YaRN with mscale, biases, heads whose
parts have unlike sizes, dense layers only; in GGUF with keys and values of the heads in one matrix, as
older files have it. The rest is as in make.py."""
import json
import math

import gguf
import numpy as np

import make

HIDDEN, FFN, VOCAB, LAYERS, HEADS = make.HIDDEN, make.FFN, make.VOCAB, make.LAYERS, make.HEADS
RANK, NOPE, ROPE, VALUE = 64, 48, 16, 32
CONFIG = {
    **make.COMMON, "model_type": "deepseek_v3", "num_key_value_heads": HEADS,
    "max_position_embeddings": 256, "first_k_dense_replace": LAYERS, "n_routed_experts": 8,
    "num_experts_per_tok": 2, "moe_intermediate_size": 32, "n_shared_experts": 1, "n_group": 1,
    "topk_group": 1, "q_lora_rank": None, "kv_lora_rank": RANK, "qk_nope_head_dim": NOPE,
    "qk_rope_head_dim": ROPE, "v_head_dim": VALUE, "attention_bias": True, "rope_interleave": True,
    "num_nextn_predict_layers": 0,
    "rope_parameters": {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "mscale": 0.8,
                        "mscale_all_dim": 0.6, "original_max_position_embeddings": 64},
}
GGUF_NAMES = {
    **make.GGUF_NAMES, "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa",
    "self_attn.kv_a_layernorm": "attn_kv_a_norm", "self_attn.kv_b_proj": "attn_kv_b",
}


def make_weights(rng):
    def draw(*shape, scale=0.09, mean=0.0):
        x = rng.standard_normal(shape) * scale + mean
        step = 2.0 ** -10 if mean == 0.0 else 2.0 ** -7
        return np.clip(np.round(x / step), -255, 255) * step
    w = {"model.embed_tokens.weight": draw(VOCAB, HIDDEN), "lm_head.weight": draw(VOCAB, HIDDEN),
         "model.norm.weight": draw(HIDDEN, scale=0.2, mean=1.0)}
    for layer in range(LAYERS):
        at = f"model.layers.{layer}."
        for name, n in (("input_layernorm", HIDDEN), ("post_attention_layernorm", HIDDEN),
                        ("self_attn.kv_a_layernorm", RANK)):
            w[f"{at}{name}.weight"] = draw(n, scale=0.2, mean=1.0)
        w[at + "self_attn.q_proj.weight"] = draw(HEADS * (NOPE + ROPE), HIDDEN, scale=0.2)
        w[at + "self_attn.kv_a_proj_with_mqa.weight"] = draw(RANK + ROPE, HIDDEN)
        w[at + "self_attn.kv_a_proj_with_mqa.bias"] = draw(RANK + ROPE)
        w[at + "self_attn.kv_b_proj.weight"] = draw(HEADS * (NOPE + VALUE), RANK)
        w[at + "self_attn.o_proj.weight"] = draw(HIDDEN, HEADS * VALUE)
        w[at + "self_attn.o_proj.bias"] = draw(HIDDEN)
        w[at + "mlp.gate_proj.weight"] = draw(FFN, HIDDEN)
        w[at + "mlp.up_proj.weight"] = draw(FFN, HIDDEN)
        w[at + "mlp.down_proj.weight"] = draw(HIDDEN, FFN)
    return w


def write_gguf(path, name, c, w):
    p = c["rope_parameters"]
    out = gguf.GGUFWriter(path, "deepseek2")
    out.add_name(name)
    out.add_block_count(LAYERS)
    out.add_leading_dense_block_count(LAYERS)
    out.add_context_length(c["max_position_embeddings"])
    out.add_embedding_length(HIDDEN)
    out.add_feed_forward_length(FFN)
    out.add_head_count(HEADS)
    out.add_head_count_kv(HEADS)
    out.add_layer_norm_rms_eps(c["rms_norm_eps"])
    out.add_kv_lora_rank(RANK)
    out.add_key_length(NOPE + ROPE)
    out.add_value_length(VALUE)
    out.add_rope_freq_base(p["rope_theta"])
    out.add_rope_dimension_count(ROPE)
    out.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    out.add_rope_scaling_factor(p["factor"])
    out.add_rope_scaling_orig_ctx_len(p["original_max_position_embeddings"])
    out.add_rope_scaling_yarn_log_mul(0.1 * p["mscale_all_dim"])
    grown = [0.1 * p[m] * math.log(p["factor"]) + 1 for m in ("mscale", "mscale_all_dim")]
    out.add_rope_scaling_attn_factors(grown[0] / grown[1])
    for tensor, x in w.items():
        out.add_tensor(make.gguf_name(tensor, GGUF_NAMES),
                       x.astype(np.float32 if x.ndim == 1 else np.float16))
    make.finish_gguf(out)


def main():
    name = "deepseek-yarn"
    folder = make.HERE / name
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(200)
    w = make_weights(rng)
    (folder / "config.json").write_text(json.dumps(CONFIG, indent=1) + "\n")
    make.write_safetensors(folder / "model.safetensors", w)
    write_gguf(folder / f"{name}-f16.gguf", name, CONFIG, w)
    make.write_logits(folder, name, rng)


main()
