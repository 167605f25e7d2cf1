#!/usr/bin/env python3
"""Makes the golden model of Llama 4's text: chunks shorter than the prompt, layers without positions whose
queries grow, experts in every other layer. The rest is as in make_dense.py."""
import gguf
import numpy as np
import torch
import transformers

import make_dense as dense

HIDDEN, FFN, EXPERT_FFN, LAYERS, EXPERTS = dense.HIDDEN, dense.FFN, 32, 4, 4
GGUF_NAMES = {
    **dense.LLAMA_NAMES, "feed_forward.gate_proj": "ffn_gate", "feed_forward.up_proj": "ffn_up",
    "feed_forward.down_proj": "ffn_down", "feed_forward.router": "ffn_gate_inp",
    **{f"feed_forward.shared_expert.{n}_proj": f"ffn_{n}_shexp" for n in ("gate", "up", "down")},
}
ROPE = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 4.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 64}


def build(rng):
    c = transformers.Llama4TextConfig(
        vocab_size=dense.VOCAB, hidden_size=HIDDEN, intermediate_size=EXPERT_FFN,
        intermediate_size_mlp=FFN, num_hidden_layers=LAYERS, num_attention_heads=4,
        num_key_value_heads=2, head_dim=32, max_position_embeddings=dense.CONTEXT,
        num_local_experts=EXPERTS, num_experts_per_tok=1, interleave_moe_layer_step=2,
        no_rope_layers=[1, 1, 1, 0], attention_chunk_size=16, floor_scale=8, attn_scale=0.3,
        rope_parameters=ROPE, bos_token_id=0, eos_token_id=1, tie_word_embeddings=False)
    c._attn_implementation = "eager"
    model = transformers.Llama4ForCausalLM(c).eval().float()
    for name, p in model.named_parameters():
        norm = "norm" in name
        x = dense.grid(rng, tuple(p.shape), 0.2 if norm or "router" in name else 0.09,
                       1.0 if norm else 0.0)
        p.data = torch.tensor(x, dtype=torch.float32)
    return c, model


def rope_factors():
    """Divisors of the frequencies, as converters write them."""
    n = np.arange(0, 32, 2) / 32
    plain = 1.0 / ROPE["rope_theta"] ** n
    turns = ROPE["original_max_position_embeddings"] * plain / (2 * np.pi)
    smooth = np.clip((turns - 1.0) / (4.0 - 1.0), 0, 1)
    return (plain / ((1 - smooth) * plain / ROPE["factor"] + smooth * plain)).astype(np.float32)


def write_gguf(path, name, c, w):
    out = gguf.GGUFWriter(path, "llama4")
    out.add_name(name)
    out.add_block_count(LAYERS)
    out.add_context_length(c.max_position_embeddings)
    out.add_embedding_length(HIDDEN)
    out.add_feed_forward_length(FFN)
    out.add_expert_feed_forward_length(EXPERT_FFN)
    out.add_head_count(c.num_attention_heads)
    out.add_head_count_kv(c.num_key_value_heads)
    out.add_key_length(c.head_dim)
    out.add_value_length(c.head_dim)
    out.add_layer_norm_rms_eps(c.rms_norm_eps)
    out.add_rope_freq_base(ROPE["rope_theta"])
    out.add_rope_dimension_count(c.head_dim)
    out.add_expert_count(EXPERTS)
    out.add_expert_used_count(1)
    out.add_interleave_moe_layer_step(c.interleave_moe_layer_step)
    out.add_sliding_window(c.attention_chunk_size)
    out.add_uint32("llama4.attention.temperature_length", c.floor_scale)
    out.add_float32("llama4.attention.temperature_scale", c.attn_scale)
    out.add_tensor("rope_freqs.weight", rope_factors())
    for tensor, x in w.items():
        x = x.astype(np.float32 if x.ndim == 1 else np.float16)
        if "experts" not in tensor:
            out.add_tensor(dense.gguf_tensor_name(GGUF_NAMES, tensor), x)
            continue
        layer = tensor.split(".")[2]
        x = np.ascontiguousarray(x.swapaxes(1, 2))
        if tensor.endswith("down_proj"):
            out.add_tensor(f"blk.{layer}.ffn_down_exps.weight", x)
        else:
            for half, stem in enumerate(("gate", "up")):
                part = x[:, half * EXPERT_FFN:(half + 1) * EXPERT_FFN]
                out.add_tensor(f"blk.{layer}.ffn_{stem}_exps.weight", np.ascontiguousarray(part))
    dense.add_tokenizer(out)
    dense.finish_gguf(out)


def main():
    name = "llama4"
    rng = np.random.default_rng(300)
    c, model = build(rng)
    dense.make_folder(name, c, model, rng, write_gguf)


main()
