#!/usr/bin/env python3
"""Makes two golden models of Gemma 4's text: gemma4 has inputs of every layer and last layers without keys,
gemma4-moe has experts beside the feed-forward and keys that are values too; heads of two sizes in both.
The rest is as in make_dense.py."""
import gguf
import numpy as np
import torch
import transformers

import make_dense as dense

HIDDEN, FFN = dense.HIDDEN, 64
SLIDING, FULL = "sliding_attention", "full_attention"
MODELS = {
    "gemma4": {"num_hidden_layers": 5, "layer_types": [SLIDING, FULL, SLIDING, SLIDING, FULL],
               "num_kv_shared_layers": 2, "use_double_wide_mlp": True,
               "hidden_size_per_layer_input": 16, "num_key_value_heads": 1,
               "vocab_size_per_layer_input": dense.VOCAB},
    "gemma4-moe": {"num_hidden_layers": 4, "layer_types": [SLIDING, SLIDING, SLIDING, FULL],
                   "hidden_size_per_layer_input": 0, "attention_k_eq_v": True,
                   "num_key_value_heads": 2, "num_global_key_value_heads": 1,
                   "enable_moe_block": True, "num_experts": 4, "top_k_experts": 2,
                   "moe_intermediate_size": 32},
}
NAMES = {
    **dense.GEMMA_NAMES, "embed_tokens_per_layer": "per_layer_token_embd",
    "per_layer_model_projection": "per_layer_model_proj",
    "per_layer_projection_norm": "per_layer_proj_norm", "per_layer_input_gate": "inp_gate",
    "per_layer_projection": "proj", "post_per_layer_input_norm": "post_norm",
    "post_feedforward_layernorm_1": "post_ffw_norm_1",
    "post_feedforward_layernorm_2": "post_ffw_norm_2",
    "pre_feedforward_layernorm_2": "pre_ffw_norm_2", "router.proj": "ffn_gate_inp",
}
OTHERS = {"layer_scalar": "layer_output_scale.weight", "router.scale": "ffn_gate_inp.scale",
          "router.per_expert_scale": "ffn_down_exps.scale",
          "experts.gate_up_proj": "ffn_gate_up_exps.weight",
          "experts.down_proj": "ffn_down_exps.weight"}


def build(settings, rng):
    c = transformers.Gemma4TextConfig(
        vocab_size=dense.VOCAB, hidden_size=HIDDEN, intermediate_size=FFN, num_attention_heads=4,
        head_dim=16, global_head_dim=32, max_position_embeddings=dense.CONTEXT, sliding_window=16,
        final_logit_softcapping=20.0, bos_token_id=0, eos_token_id=1, pad_token_id=None, **settings)
    c._attn_implementation = "eager"
    model = transformers.Gemma4ForCausalLM(c).eval().float()
    for name, p in [*model.named_parameters(), *model.named_buffers()]:
        near_one = "norm" in name or "scale" in name or "layer_scalar" in name
        if "embed_scale" in name or "inv_freq" in name or name.endswith(("_input_scale", "projection_scale")):
            continue
        scale = 0.2 if near_one or "router" in name else 0.09
        x = dense.grid(rng, tuple(p.shape), scale, 1.0 if near_one else 0.0)
        p.data = torch.tensor(x, dtype=torch.float32)
    return c, model


def write_gguf(path, name, c, w):
    full = [t == FULL for t in c.layer_types]
    out = gguf.GGUFWriter(path, "gemma4")
    out.add_name(name)
    out.add_block_count(c.num_hidden_layers)
    out.add_context_length(c.max_position_embeddings)
    out.add_embedding_length(HIDDEN)
    first_shared = c.num_hidden_layers - c.num_kv_shared_layers
    wide = [2 if c.use_double_wide_mlp and i >= first_shared else 1
            for i in range(c.num_hidden_layers)]
    out.add_feed_forward_length([FFN * f for f in wide])
    out.add_head_count(c.num_attention_heads)
    config = c.to_dict()
    out.add_head_count_kv([c.per_layer_config[i].num_key_value_heads
                           for i in range(c.num_hidden_layers)])
    out.add_key_length(32)
    out.add_value_length(32)
    out.add_key_length_swa(16)
    out.add_value_length_swa(16)
    out.add_layer_norm_rms_eps(c.rms_norm_eps)
    out.add_rope_freq_base(c.rope_parameters[FULL]["rope_theta"])
    out.add_rope_freq_base_swa(c.rope_parameters[SLIDING]["rope_theta"])
    out.add_rope_dimension_count(32)
    out.add_rope_dimension_count_swa(16)
    out.add_sliding_window(c.sliding_window)
    out.add_sliding_window_pattern([not f for f in full])
    out.add_shared_kv_layers(c.num_kv_shared_layers)
    out.add_embedding_length_per_layer_input(c.hidden_size_per_layer_input)
    out.add_final_logit_softcapping(c.final_logit_softcapping)
    if c.enable_moe_block:
        out.add_expert_count(c.num_experts)
        out.add_expert_used_count(c.top_k_experts)
        out.add_expert_feed_forward_length(c.moe_intermediate_size)
    turned = int(32 * 0.25 / 2)
    out.add_tensor("rope_freqs.weight", np.array([1.0] * turned + [1e30] * (16 - turned), np.float32))
    for tensor, x in w.items():
        x = x.astype(np.float32 if x.ndim == 1 else np.float16)
        parts = tensor.split(".", 3)
        if parts[1] == "layers" and parts[3] in OTHERS:
            out.add_tensor(f"blk.{parts[2]}.{OTHERS[parts[3]]}", x)
        else:
            out.add_tensor(dense.gguf_tensor_name(NAMES, tensor), x)
    dense.add_tokenizer(out)
    dense.finish_gguf(out)


def main():
    for seed, (name, settings) in enumerate(MODELS.items(), 330):
        rng = np.random.default_rng(seed)
        c, model = build(settings, rng)
        dense.make_folder(name, c, model, rng, write_gguf)


main()
