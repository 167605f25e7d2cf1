#!/usr/bin/env python3
"""Makes golden models that rank with transformers: tiny random ones as safetensors and GGUF, with their
tokenizers, and in golden.json the tokens and the scores (float64) of a few pairs. Qwen3's is GGUF alone,
in the form in which llama.cpp converts Qwen3-Reranker: the rows of "yes" and "no" are its head.

    make_rerank.py

Needs pip install gguf numpy tokenizers torch transformers (5.24). Writes into the folder of this file."""
import json
import math
import pathlib

import gguf
import numpy as np
import tokenizers
import torch
from tokenizers import AddedToken, models, normalizers, pre_tokenizers, processors

from make import write_safetensors
from make_dense import BERT_NAMES, LLAMA_NAMES, VOCAB, add_tokenizer, build, weights_of, write_gguf
from make_dense import write_tokenizer

HERE = pathlib.Path(__file__).parent
SIZES = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
HEAD_NAMES = {"pooler.dense": "cls", "classifier": "cls.output", "classifier.dense": "cls",
              "classifier.out_proj": "cls.output"}
PAIRS = [("hello world", "the world"), ("hello", "hello, world. hello"), ("the", "abc def [SEP]."),
         ("a long query about the world", "hello world " * 6 + "the world.")]
RERANK = ("<|im_start|>system\nyes or no?<|im_end|>\n<|im_start|>user\n<Query>: {query}\n"
          "<Document>: {document}<|im_end|>\n<|im_start|>assistant\n")


def bert_tokenizer(folder):
    """make_dense's, with the pairs that BERT has."""
    write_tokenizer(folder)
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    special = lambda t, i: {"SpecialToken": {"id": t, "type_id": i}}
    text = lambda t, i: {"Sequence": {"id": t, "type_id": i}}
    tokenizer["post_processor"]["pair"] = [special("[CLS]", 0), text("A", 0), special("[SEP]", 0),
                                           text("B", 1), special("[SEP]", 1)]
    path.write_text(json.dumps(tokenizer) + "\n")


def unigram_vocabulary():
    """Ids as in XLM-R's files: <s>, <pad>, </s>, <unk>, then pieces with their scores."""
    words = ["hello", "world", "the", "long", "query", "about"]
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)]
    pieces = [("\u2581" + w, -3.0) for w in words] + [("\u2581", -4.0), (".", -5.0), (",", -5.0)]
    pieces += [(c, -6.0) for c in letters] + [("\u2581" + c, -7.0) for c in letters]
    pieces += [("</", -6.0), (">", -6.0), ("[", -6.0), ("]", -6.0)]
    vocabulary = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), *pieces]
    return vocabulary + [(f"[PAD{i}]", -10000.0) for i in range(VOCAB - len(vocabulary))]


def unigram_tokenizer(folder):
    tokenizer = tokenizers.Tokenizer(models.Unigram(unigram_vocabulary(), unk_id=3))
    tokenizer.normalizer = normalizers.Replace(tokenizers.Regex(" {2,}"), " ")
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace("\u2581", prepend_scheme="always")
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False)
                                  for t in ("<s>", "<pad>", "</s>", "<unk>")])
    tokenizer.post_processor = processors.TemplateProcessing(
        "<s> $A </s>", "<s> $A </s> </s> $B </s>", [("<s>", 0), ("</s>", 2)])
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)


def add_unigram(out):
    vocabulary = unigram_vocabulary()
    kinds = [gguf.TokenType.CONTROL] * 3 + [gguf.TokenType.UNKNOWN]
    kinds += [gguf.TokenType.UNUSED if t.startswith("[PAD") else gguf.TokenType.NORMAL
              for t, _ in vocabulary[4:]]
    out.add_tokenizer_model("t5")
    out.add_tokenizer_pre("default")
    out.add_token_list([t for t, _ in vocabulary])
    out.add_token_scores([s for _, s in vocabulary])
    out.add_token_types(kinds)
    out.add_add_space_prefix(True)
    out.add_remove_extra_whitespaces(True)
    out.add_token_type_count(1)
    for add, token in ((out.add_bos_token_id, 0), (out.add_pad_token_id, 1), (out.add_eos_token_id, 2),
                       (out.add_sep_token_id, 2), (out.add_unk_token_id, 3)):
        add(token)
    for add in (out.add_add_bos_token, out.add_add_eos_token, out.add_add_sep_token):
        add(True)


def pairs_of(folder, score):
    """score(ids, types): what the model says. What looks special in a text is none."""
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.encode_special_tokens = True
    pairs = []
    for query, document in PAIRS:
        encoded = tokenizer.encode(query, document)
        ids, types = encoded.ids, encoded.type_ids
        second = encoded.sequence_ids.index(1)
        pairs.append({"query": query, "document": document, "ids": ids, "second": second,
                      "score": round(score(ids, types), 7)})
    return pairs


def write_golden(name, pairs):
    folder = HERE / name
    (folder / "golden.json").write_text(json.dumps({"name": name, "pairs": pairs}, indent=1) + "\n")
    files = [f for f in folder.rglob("*") if f.is_file()]
    print(f"{name}: {sum(f.stat().st_size for f in files)} bytes", [p["score"] for p in pairs])


def make_encoder(name, cls, prefix, settings, tokenizer, add, seed):
    rng = np.random.default_rng(seed)
    c, model = build(cls, "ForSequenceClassification", {**SIZES, "num_labels": 1, **settings}, rng, 1.0)
    for parameter in (p for n, p in model.named_parameters() if "classifier" in n or "pooler" in n):
        parameter.data *= 4.0  # scores that differ
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    config = {**c.to_dict(), "architectures": [cls + "ForSequenceClassification"]}
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    w = weights_of(model)
    write_safetensors(folder / "model.safetensors", w)
    tokenizer(folder)

    def extra(out):
        out.add_causal_attention(False)
        out.add_pooling_type(gguf.PoolingType.RANK)
        out.add_classifier_output_labels(["LABEL_0"])
        add(out)
    bare = {n.removeprefix(prefix): x for n, x in w.items()}
    padding = "embeddings.position_embeddings.weight"
    if prefix == "roberta.":
        bare[padding] = bare[padding][2:]
    write_gguf(folder / f"{name}-f16.gguf", name, "bert", {**BERT_NAMES, **HEAD_NAMES}, c, bare, extra)

    def score(ids, types):
        given = {"token_type_ids": torch.tensor([types])} if c.type_vocab_size > 1 else {}
        with torch.no_grad():
            return model.double()(torch.tensor([ids]), **given).logits.item()
    write_golden(name, pairs_of(folder, score))


def byte_tokenizer():
    """Bytes, one merge, and the marks of a template."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    marks = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    tokens = [*alphabet, "es", *marks]
    tokenizer = tokenizers.Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, [("e", "s")]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.add_special_tokens(marks)
    return tokens, tokenizer


def make_qwen3(name, seed):
    rng = np.random.default_rng(seed)
    tokens, tokenizer = byte_tokenizer()
    c, model = build("Qwen3", "ForCausalLM", {
        **SIZES, "num_key_value_heads": 1, "head_dim": 16, "vocab_size": len(tokens),
        "max_position_embeddings": 512, "tie_word_embeddings": True, "bos_token_id": None,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}, rng, 1.0)
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    yes, no = tokens.index("y"), tokens.index("n")
    w = weights_of(model)
    w["cls.output.weight"] = w["model.embed_tokens.weight"][[yes, no]]
    names = {**LLAMA_NAMES, "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
             "cls.output": "cls.output"}

    def extra(out):
        out.add_key_length(c.head_dim)
        out.add_value_length(c.head_dim)
        out.add_pooling_type(gguf.PoolingType.RANK)
        out.add_classifier_output_labels(["yes", "no"])
        out.add_chat_template([{"name": "rerank", "template": RERANK}])
        out.add_tokenizer_model("gpt2")
        out.add_tokenizer_pre("qwen2")
        out.add_token_list(tokens)
        out.add_token_types([gguf.TokenType.NORMAL] * (len(tokens) - 3) + [gguf.TokenType.CONTROL] * 3)
        out.add_token_merges(["e s"])
        out.add_eos_token_id(tokens.index("<|im_end|>"))
        out.add_pad_token_id(tokens.index("<|endoftext|>"))
        out.add_add_bos_token(False)
    write_gguf(folder / f"{name}-f16.gguf", name, "qwen3", names, c, w, extra)
    pairs = []
    for query, document in [*PAIRS[:2], ("is {document} a place?", "no <|im_end|> of it")]:
        ids = []
        for text, is_literal in ((RERANK.split("{query}")[0], False), (query, True),
                                 ("\n<Document>: ", False), (document, True),
                                 (RERANK.split("{document}")[1], False)):
            tokenizer.encode_special_tokens = is_literal
            ids += tokenizer.encode(text).ids
        with torch.no_grad():
            logits = model.double()(torch.tensor([ids])).logits[0, -1]
        pairs.append({"query": query, "document": document, "ids": ids, "second": 0,
                      "score": round(1 / (1 + math.exp(logits[no] - logits[yes])), 7)})
    write_golden(name, pairs)


def main():
    make_encoder("bert-rank", "Bert", "bert.", {"layer_norm_eps": 1e-12, "pad_token_id": 0},
                 bert_tokenizer, add_tokenizer, 400)
    make_encoder("xlmr-rank", "XLMRoberta", "roberta.", {
        "layer_norm_eps": 1e-5, "pad_token_id": 1, "type_vocab_size": 1,
        "max_position_embeddings": 130}, unigram_tokenizer, add_unigram, 401)
    make_qwen3("qwen3-rank", 402)


if __name__ == "__main__":
    main()
