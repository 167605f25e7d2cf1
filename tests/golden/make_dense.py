#!/usr/bin/env python3
"""Makes golden models of dense families with transformers: tiny random weights as safetensors and GGUF with
logits (or vectors of texts) in float32, the greedy tokens checked in float64.

    make_dense.py [NAME...]

Needs pip install gguf numpy torch transformers. Writes into the folder of this file."""
import json
import math
import pathlib
import sys

import gguf
import numpy as np
import torch
import transformers

from make import finish_gguf, write_safetensors

HERE = pathlib.Path(__file__).parent
VOCAB, HIDDEN, FFN, LAYERS, HEADS, KV_HEADS, CONTEXT = 96, 64, 96, 2, 4, 2, 128
SIZES = {"vocab_size": VOCAB, "hidden_size": HIDDEN, "intermediate_size": FFN,
         "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "max_position_embeddings": CONTEXT,
         "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": None}

# Names behind the layer's number, or of the whole model, without the ending.
LLAMA_NAMES = {
    "embed_tokens": "token_embd", "norm": "output_norm", "lm_head": "output",
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
BERT_NAMES = {
    "embeddings.word_embeddings": "token_embd", "embeddings.position_embeddings": "position_embd",
    "embeddings.token_type_embeddings": "token_types", "embeddings.LayerNorm": "token_embd_norm",
    "attention.self.query": "attn_q", "attention.self.key": "attn_k", "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output", "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up", "output.dense": "ffn_down",
    "output.LayerNorm": "layer_output_norm",
}
NOMIC_NAMES = {
    **{k: v for k, v in BERT_NAMES.items() if k.startswith("embeddings.")},
    "emb_ln": "token_embd_norm", "attn.Wqkv": "attn_qkv", "attn.out_proj": "attn_output",
    "norm1": "attn_output_norm", "mlp.fc11": "ffn_up", "mlp.fc12": "ffn_gate", "mlp.fc2": "ffn_down",
    "norm2": "layer_output_norm",
}
GEMMA_NAMES = {**LLAMA_NAMES, "post_attention_layernorm": "post_attention_norm",
               "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm",
               "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm"}

# name: class and settings of transformers, architecture and names of GGUF.
WRITERS = {
    "cohere": ("Cohere", {"num_key_value_heads": KV_HEADS, "logit_scale": 0.25,
                          "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}},
               "command-r", LLAMA_NAMES),
    "cohere2": ("Cohere2", {"num_key_value_heads": KV_HEADS, "logit_scale": 0.25,
                            "num_hidden_layers": 4, "sliding_window": 16,
                            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}},
                "cohere2", LLAMA_NAMES),
    "phi2": ("Phi", {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0,
                                         "partial_rotary_factor": 0.5}},
             "phi2", {**LLAMA_NAMES, "self_attn.dense": "attn_output", "mlp.fc1": "ffn_up",
                      "mlp.fc2": "ffn_down", "final_layernorm": "output_norm"}),
    "starcoder2": ("Starcoder2", {"num_key_value_heads": KV_HEADS, "sliding_window": 24,
                                  "rope_parameters": {"rope_type": "default",
                                                      "rope_theta": 10000.0}},
                   "starcoder2", {**LLAMA_NAMES, "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}),
}
ENCODERS = {
    "bert": ("Bert", {"layer_norm_eps": 1e-12, "pad_token_id": 0}, "bert", BERT_NAMES),
    "roberta": ("XLMRoberta", {"layer_norm_eps": 1e-5, "pad_token_id": 1, "type_vocab_size": 1,
                               "max_position_embeddings": CONTEXT + 2}, "bert", BERT_NAMES),
    "nomic-bert": ("NomicBert", {"layer_norm_eps": 1e-12, "pad_token_id": 0,
                                 "rope_parameters": {"rope_type": "default", "rope_theta": 1000.0}},
                   "nomic-bert", NOMIC_NAMES),
    "gemma3-embed": ("Gemma3Text", {"num_hidden_layers": 6, "num_key_value_heads": 1, "head_dim": 16,
                                    "query_pre_attn_scalar": 16, "sliding_window": 16,
                                    "use_bidirectional_attention": True, "rms_norm_eps": 1e-6},
                     "gemma-embedding", GEMMA_NAMES),
}
POOLING = {"bert": "cls", "roberta": "mean", "nomic-bert": "mean", "gemma3-embed": "mean"}
GGUF_POOLING = {"mean": gguf.PoolingType.MEAN, "cls": gguf.PoolingType.CLS}
DENSE = {"gemma3-embed": (80, 48)}  # rows of the dense layers


def grid(rng, shape, scale, mean=0.0):
    """Multiples of a power of two with 8 bits: exact in F32, F16 and BF16."""
    step = 2.0 ** -10 if mean == 0.0 else 2.0 ** -7
    x = rng.standard_normal(shape) * scale + mean
    return np.clip(np.round(x / step), -255, 255) * step


def build(cls, kind, settings, rng, norm_mean):
    config = getattr(transformers, cls + "Config")(**{**SIZES, **settings})
    config._attn_implementation = "eager"
    model = getattr(transformers, cls + kind)(config).eval().float()
    for name, parameter in model.named_parameters():
        is_norm = "norm" in name.lower() and name.endswith("weight")
        x = grid(rng, tuple(parameter.shape), *((0.2, norm_mean) if is_norm else (0.09,)))
        parameter.data = torch.tensor(x, dtype=torch.float32)
    return config, model


def weights_of(model):
    tied = model.config.tie_word_embeddings
    return {n: p.numpy().astype(np.float64) for n, p in model.state_dict().items()
            if "position_ids" not in n and "token_type_ids" not in n and not n.startswith("pooler.")
            and not (tied and n.startswith("lm_head"))}


def published_nomic(w):
    """The names and fused matrices of nomic-ai's own files."""
    out = {}
    for name, x in w.items():
        name = (name.replace("embeddings.LayerNorm", "emb_ln").replace("layers.", "encoder.layers.")
                .replace("post_attention_layernorm", "norm1").replace("post_mlp_layernorm", "norm2")
                .replace("self_attn.o_proj", "attn.out_proj").replace("mlp.gate_proj", "mlp.fc12")
                .replace("mlp.up_proj", "mlp.fc11").replace("mlp.down_proj", "mlp.fc2"))
        if "self_attn.q_proj" in name:
            stem = [n for n in w if n.endswith(name.split("encoder.")[-1])][0]
            parts = [w[stem.replace("q_proj", s + "_proj")] for s in "qkv"]
            out[name.replace("self_attn.q_proj", "attn.Wqkv")] = np.concatenate(parts)
        elif "self_attn" not in name:
            out[name] = x
    return out


def published_nomic_config(c):
    return {"model_type": "nomic_bert", "activation_function": "swiglu", "n_embd": HIDDEN,
            "n_head": HEADS, "n_inner": FFN, "n_layer": LAYERS, "n_positions": CONTEXT,
            "layer_norm_epsilon": 1e-12, "rotary_emb_base": 1000, "rotary_emb_fraction": 1.0,
            "rotary_emb_interleaved": False, "prenorm": False, "qkv_proj_bias": False,
            "mlp_fc1_bias": False, "mlp_fc2_bias": False, "type_vocab_size": 2,
            "vocab_size": c["vocab_size"]}


def gguf_tensor_name(names, name):
    stem, ending = name.rsplit(".", 1)
    parts = stem.split(".")
    numbers = [i for i, part in enumerate(parts) if part.isdigit()]
    if numbers:
        return f"blk.{parts[numbers[0]]}.{names['.'.join(parts[numbers[0] + 1:])]}.{ending}"
    return f"{names[stem.removeprefix('model.')]}.{ending}"


def write_gguf(path, name, arch, names, c, w, extra):
    out = gguf.GGUFWriter(path, arch)
    out.add_name(name)
    out.add_block_count(c.num_hidden_layers)
    out.add_context_length(CONTEXT)
    out.add_embedding_length(c.hidden_size)
    out.add_feed_forward_length(c.intermediate_size)
    out.add_head_count(c.num_attention_heads)
    out.add_head_count_kv(getattr(c, "num_key_value_heads", c.num_attention_heads))
    if getattr(c, "rms_norm_eps", None):
        out.add_layer_norm_rms_eps(c.rms_norm_eps)
    else:
        out.add_layer_norm_eps(getattr(c, "layer_norm_eps", None) or c.norm_epsilon)
    rope = getattr(c, "rope_parameters", None) or {}
    if "rope_theta" in rope:
        out.add_rope_freq_base(rope["rope_theta"])
        head = c.hidden_size // c.num_attention_heads
        out.add_rope_dimension_count(int(head * rope.get("partial_rotary_factor", 1.0)))
    if hasattr(c, "logit_scale"):
        out.add_logit_scale(c.logit_scale)
    extra(out)
    for tensor, x in w.items():
        if arch == "gemma-embedding" and tensor.endswith("norm.weight"):
            x = x + 1.0
        if arch == "bert" and "position_embeddings" in tensor and name == "roberta":
            x = x[2:]
        out.add_tensor(gguf_tensor_name(names, tensor),
                       x.astype(np.float32 if x.ndim == 1 else np.float16))
    finish_gguf(out)


def vocabulary():
    """Letters at the beginning of a word and inside one, and a few words."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)]
    tokens = special + letters + ["##" + c for c in letters] + [".", ",", "the", "hello", "world"]
    return tokens + [f"[unused{i}]" for i in range(VOCAB - len(tokens))]


def write_tokenizer(folder):
    """A toy WordPiece in the form of BERT's tokenizer.json."""
    tokens = vocabulary()
    special = [{"id": i, "content": t, "special": True, "single_word": False, "lstrip": False,
                "rstrip": False, "normalized": False} for i, t in enumerate(tokens[:5])]
    piece = lambda t: {"SpecialToken": {"id": t, "type_id": 0}}
    text = {"Sequence": {"id": "A", "type_id": 0}}
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "added_tokens": special,
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                       "strip_accents": None, "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "TemplateProcessing", "single": [piece("[CLS]"), text, piece("[SEP]")],
                           "pair": [piece("[CLS]"), text, piece("[SEP]")],
                           "special_tokens": {t: {"id": t, "ids": [tokens.index(t)], "tokens": [t]}
                                              for t in ("[CLS]", "[SEP]")}},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100, "vocab": {t: i for i, t in enumerate(tokens)}},
    }) + "\n")


def add_tokenizer(out):
    """The same in GGUF's form: beginnings of words are marked, not their continuations."""
    tokens = vocabulary()
    mark = lambda t: t[2:] if t.startswith("##") else t if t.startswith("[") else "\u2581" + t
    out.add_tokenizer_model("bert")
    out.add_tokenizer_pre("default")
    out.add_token_list([mark(t) for t in tokens])
    out.add_token_types([gguf.TokenType.CONTROL if t.startswith("[") else gguf.TokenType.NORMAL
                         for t in tokens])
    out.add_pad_token_id(0)
    out.add_unk_token_id(1)
    out.add_uint32("tokenizer.ggml.cls_token_id", 2)
    out.add_bos_token_id(2)
    out.add_sep_token_id(3)
    out.add_eos_token_id(3)
    out.add_mask_token_id(4)
    out.add_token_type_count(2)


def run(model, ids):
    with torch.no_grad():
        return model(torch.tensor([ids]))


def write_logits(folder, name, model, rng):
    """Logits of two prompts and of their greedy continuations."""
    prompts = []
    for number, size in enumerate((7, 80)):
        ids = [0] + [int(i) for i in rng.integers(2, VOCAB, size - 1)]
        np.save(folder / f"logits_p{number}.npy", run(model.float(), ids).logits[0].numpy())
        rows, greedy = [], []
        for _ in range(16):
            rows.append(run(model.float(), ids + greedy).logits[0, -1].numpy())
            exact = run(model.double(), ids + greedy).logits[0, -1].numpy()
            greedy.append(int(exact.argmax()))
        np.save(folder / f"logits_gen{number}.npy", np.array(rows, np.float32))
        tops = [np.sort(row)[-2:] for row in rows]
        prompts.append({"ids": ids, "greedy": greedy,
                        "margins": [round(float(b - a), 4) for a, b in tops]})
    (folder / "golden.json").write_text(json.dumps({"name": name, "prompts": prompts}) + "\n")


def make_folder(name, c, model, rng, write):
    """Both forms of a model that writes, and its logits; write(path, name, c, weights): GGUF."""
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(c.to_dict(), indent=1) + "\n")
    w = weights_of(model)
    write_safetensors(folder / "model.safetensors", w)
    write(folder / f"{name}-f16.gguf", name, c, w)
    write_logits(folder, name, model, rng)


def make_writer(name, seed):
    cls, settings, arch, names = WRITERS[name]
    rng = np.random.default_rng(seed)
    c, model = build(cls, "ForCausalLM", settings, rng, 1.0)

    def extra(out):
        if getattr(c, "sliding_window", None):
            out.add_sliding_window(c.sliding_window)

    def write(path, name, c, w):
        write_gguf(path, name, arch, names, c, w, extra)
    make_folder(name, c, model, rng, write)


def write_modules(folder, pooling, dense):
    """The files of Sentence Transformers; dense: matrices (rows, cols)."""
    steps = ["Transformer", "Pooling"] + ["Dense"] * len(dense) + ["Normalize"]
    at = lambda i: "" if i == 0 else f"{i}_{steps[i]}"
    (folder / "modules.json").write_text(json.dumps(
        [{"idx": i, "name": str(i), "path": at(i), "type": "sentence_transformers.models." + s}
         for i, s in enumerate(steps)], indent=1) + "\n")
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "1_Pooling/config.json").write_text(json.dumps({
        "word_embedding_dimension": HIDDEN, "pooling_mode_cls_token": pooling == "cls",
        "pooling_mode_mean_tokens": pooling == "mean", "pooling_mode_max_tokens": False}) + "\n")
    for i, x in enumerate(dense):
        step = folder / at(2 + i)
        step.mkdir(exist_ok=True)
        (step / "config.json").write_text(json.dumps({
            "in_features": x.shape[1], "out_features": x.shape[0], "bias": False,
            "activation_function": "torch.nn.modules.linear.Identity"}) + "\n")
        write_safetensors(step / "model.safetensors", {"linear.weight": x})


def make_encoder(name, seed):
    cls, settings, arch, names = ENCODERS[name]
    rng = np.random.default_rng(seed)
    c, model = build(cls, "Model", settings, rng, 0.0 if "Gemma" in cls else 1.0)
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    w, config = weights_of(model), c.to_dict()
    if name == "nomic-bert":
        w, config = published_nomic(w), published_nomic_config(config)
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    write_safetensors(folder / "model.safetensors", w)
    dense, width = [], HIDDEN
    for rows in DENSE.get(name, ()):
        dense.append(grid(rng, (rows, width), 0.09))
        width = rows
    write_modules(folder, POOLING[name], dense)
    if name == "bert":
        write_tokenizer(folder)

    def extra(out):
        out.add_pooling_type(GGUF_POOLING[POOLING[name]])
        out.add_causal_attention(False)
        if name == "bert":
            add_tokenizer(out)
        if name == "gemma3-embed":
            out.add_key_length(c.head_dim)
            out.add_value_length(c.head_dim)
            out.add_rope_freq_base(c.rope_parameters["full_attention"]["rope_theta"])
            out.add_sliding_window(config["sliding_window"])
        for i, x in enumerate(dense):
            out.add_tensor(f"dense_{2 + i}.weight", x.astype(np.float16))
    write_gguf(folder / f"{name}-f16.gguf", name, arch, names, c, w, extra)
    texts = []
    for size in (1, 7, 80):
        ids = [int(i) for i in rng.integers(2, VOCAB, size)]
        rows = run(model.double(), ids).last_hidden_state[0].numpy()
        vector = rows[0] if POOLING[name] == "cls" else rows.mean(0)
        for x in dense:
            vector = x @ vector
        vector = vector / math.sqrt((vector * vector).sum())
        texts.append({"ids": ids, "vector": [round(float(x), 7) for x in vector]})
    (folder / "golden.json").write_text(json.dumps({"name": name, "texts": texts}) + "\n")


def main():
    known = [*WRITERS, *ENCODERS]
    for name in sys.argv[1:] or known:
        seed = 200 + known.index(name)
        (make_writer if name in WRITERS else make_encoder)(name, seed)
        files = [f for f in (HERE / name).rglob("*") if f.is_file()]
        print(f"{name}: {sum(f.stat().st_size for f in files)} bytes")


if __name__ == "__main__":
    main()
