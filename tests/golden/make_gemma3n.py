#!/usr/bin/env python3
"""Makes the golden model of Gemma 3n's text: four streams, a window shorter than the prompt, gates cut in the
first layers, last layers without keys, fewer tokens in the table of the layers' inputs than in the
vocabulary. The rest is as in make_dense.py."""
import gguf
import numpy as np
import torch
import transformers

import make_dense as dense

HIDDEN, FFN, LAYERS, SHARED, PER_LAYER, RANK = dense.HIDDEN, 64, 5, 2, 16, 16
TYPES = ["sliding_attention", "full_attention", "sliding_attention", "sliding_attention",
         "full_attention"]
NAMES = {
    **dense.GEMMA_NAMES, "embed_tokens_per_layer": "per_layer_token_embd",
    "per_layer_model_projection": "per_layer_model_proj",
    "per_layer_projection_norm": "per_layer_proj_norm", "per_layer_input_gate": "inp_gate",
    "per_layer_projection": "proj", "post_per_layer_input_norm": "post_norm",
    "altup.modality_router": "altup_router", "altup.router_norm": "altup_router_norm",
    "altup.prediction_coefs": "altup_predict_coef", "altup.correction_coefs": "altup_correct_coef",
    "laurel.linear_left": "laurel_l", "laurel.linear_right": "laurel_r",
    "laurel.post_laurel_norm": "laurel_post_norm",
}


def build(rng):
    c = transformers.Gemma3nTextConfig(
        vocab_size=dense.VOCAB, vocab_size_per_layer_input=dense.VOCAB - 4, hidden_size=HIDDEN,
        hidden_size_per_layer_input=PER_LAYER, intermediate_size=FFN, num_hidden_layers=LAYERS,
        num_attention_heads=4, num_key_value_heads=2, head_dim=16,
        max_position_embeddings=dense.CONTEXT, sliding_window=16, layer_types=TYPES,
        num_kv_shared_layers=SHARED, laurel_rank=RANK, altup_active_idx=1,
        activation_sparsity_pattern=[0.7, 0.5, 0.0, 0.0, 0.0], final_logit_softcapping=20.0,
        bos_token_id=0, eos_token_id=1, pad_token_id=None)
    c._attn_implementation = "eager"
    model = transformers.Gemma3nForCausalLM(c).eval().float()
    for name, p in model.named_parameters():
        norm = "norm" in name or "correct_output_scale" in name
        scale = 0.2 if norm or "altup.modality_router" in name else 0.09
        x = dense.grid(rng, tuple(p.shape), scale, 1.0 if norm else 0.0)
        p.data = torch.tensor(x, dtype=torch.float32)
    return c, model


def write_gguf(path, name, c, w):
    out = gguf.GGUFWriter(path, "gemma3n")
    out.add_name(name)
    out.add_block_count(LAYERS)
    out.add_context_length(c.max_position_embeddings)
    out.add_embedding_length(HIDDEN)
    out.add_feed_forward_length(FFN)
    out.add_head_count(c.num_attention_heads)
    out.add_head_count_kv(c.num_key_value_heads)
    out.add_key_length(c.head_dim)
    out.add_value_length(c.head_dim)
    out.add_layer_norm_rms_eps(c.rms_norm_eps)
    out.add_rope_freq_base(c.rope_parameters["full_attention"]["rope_theta"])
    out.add_sliding_window(c.sliding_window)
    out.add_sliding_window_pattern([t == "sliding_attention" for t in c.layer_types])
    out.add_shared_kv_layers(SHARED)
    out.add_embedding_length_per_layer_input(PER_LAYER)
    out.add_altup_active_idx(c.altup_active_idx)
    out.add_altup_num_inputs(c.altup_num_inputs)
    normal = torch.distributions.normal.Normal(0, 1)
    out.add_activation_sparsity_scale(
        [normal.icdf(torch.tensor(s)).item() for s in c.activation_sparsity_pattern])
    out.add_final_logit_softcapping(c.final_logit_softcapping)
    stacks = {"altup_projections": "altup_proj", "altup_unembed_projections": "altup_unembd_proj"}
    for theirs, ours in stacks.items():
        parts = [w[f"model.{theirs}.{i}.weight"] for i in range(c.altup_num_inputs - 1)]
        out.add_tensor(ours + ".weight", np.stack(parts).astype(np.float16))
    for tensor, x in w.items():
        if any(theirs in tensor for theirs in stacks):
            continue
        x = x.astype(np.float32 if x.ndim == 1 else np.float16)
        if tensor.endswith("altup.correct_output_scale"):
            out.add_tensor(f"blk.{tensor.split('.')[2]}.altup_correct_scale.weight", x)
        else:
            out.add_tensor(dense.gguf_tensor_name(NAMES, tensor), x)
    dense.add_tokenizer(out)
    dense.finish_gguf(out)


def main():
    name = "gemma3n"
    rng = np.random.default_rng(320)
    c, model = build(rng)
    dense.make_folder(name, c, model, rng, write_gguf)


main()
