#!/usr/bin/env python3
"""Makes the small tokenizers of this folder with their vectors (PyPI: tokenizers, sentencepiece).

Each file holds a vocabulary in a form that the tests load and what the library gave for TEXTS. Run
it from anywhere; the outputs are committed, so that the tests need neither package.
"""

import base64
import io
import json
import pathlib
import re
import tempfile

import sentencepiece
from sentencepiece import sentencepiece_model_pb2 as spm_format
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

FOLDER = pathlib.Path(__file__).parent / "tokenizers"
LINES = [
    "The tokenizer reads every word of the text, and the text reads on.",
    "Ein T\u00f6ner h\u00f6rt die Stra\u00dfe: sch\u00f6n, sch\u00f6ner, am sch\u00f6nsten!",
    "def read(self, size=-1):  # reads 1024 bytes, 20 lines, 3.14 or 2718281828",
    "\u043f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440; "
    "\u043c\u0438\u0440\u0443 \u043c\u0438\u0440",
    "\u4f60\u597d\u4e16\u754c\uff0c\u4e16\u754c\u4f60\u597d\u3002",
    "caf\u00e9 na\u00efve r\u00e9sum\u00e9 co\u00f6perate",
    "words and words and more words make the sentences of the words",
] * 8
TEXTS = [
    "",
    " ",
    "  ",
    "a",
    " a",
    "a ",
    "  a  b  ",
    "the words",
    "The Words",
    "THE WORDS.",
    "reads 1024 bytes",
    "3.14 20 2718281828",
    "a\nb\n\n\nc",
    "\t\ttabs\tand\nlines\r\n",
    "don't, can't, we'll; I'D SAY",
    "caf\u00e9",
    "cafe\u0301",
    "\u00c4\u00d6\u00dc \u00e4\u00f6\u00fc\u00df",
    "na\u00efve r\u00e9sum\u00e9",
    "\u043f\u0440\u0438\u0432\u0435\u0442 \u043c\u0438\u0440",
    "\u4f60\u597d\u4e16\u754c",
    "\u4f60 \u597d,world",
    "\U0001f680 rocket",
    "\U0001f469\u200d\U0001f680",
    "\u2581the\u2581words",
    "a\u2581b",
    "\ufb01ne \u2460 \uff21\uff22",
    "x\u00a0y\u2003z\u3000w",
    "\u0000\u0001 control",
    "a\u200bb",
    "[MASK] and <mask>",
    "a<s>b</s>c",
    "<s> the <mask>   words</s>",
    "the<mask>words",
    "<tool>",
    "pre<tool>post",
    "pre <tool> post",
    "word<word>word",
    "word <word> word",
    "NAME name",
    "xNAMEx NAME",
    "[CLS] the [SEP]",
    "####",
    "--==--",
    "e\u0301\u0302 o\u0308",
    "\u1e9e \u0130stanbul \u017f",
    "\u2126 \u212b \u212a",
    "\u00bd \u2074 \u2167 \u0663",
    "http://a.b/c?d=e&f=g#h",
    "a" * 40,
    "ab" * 30,
    "\u00e9" * 20,
    " " * 20,
    "the" * 20,
    "1" * 25,
    "mixed \u4f60\u597d and caf\u00e9 and 12\u00bd \U0001f680!",
    "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35",
    "\u0939\u093f\u0928\u094d\u0926\u0940",
    "\u05e9\u05dc\u05d5\u05dd",
    "\u0627\u0644\u0633\u0644\u0627\u0645",
    "...!?!?,,",
    "'\u2019\u201cquoted\u201d'",
    "\ud55c\uad6d\uc5b4",
    "snake_case camelCase kebab-case",
    "(a+b)*c==d",
    "end. ",
    " .start",
    "\u00ad soft\u00adhyphen",
]


def vectors_of(tokenizer):
    out = []
    for text in TEXTS:
        tokenizer.encode_special_tokens = False
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        with_special = tokenizer.encode(text, add_special_tokens=True).ids
        tokenizer.encode_special_tokens = True
        plain = tokenizer.encode(text, add_special_tokens=False).ids
        out.append(
            {
                "text": text,
                "ids": ids,
                "ids_plain": plain,
                "ids_bos": with_special,
                "decoded": tokenizer.decode(ids, skip_special_tokens=False),
            }
        )
    return out


def write(name, tokenizer):
    document = {"tokenizer": json.loads(tokenizer.to_str()), "vectors": vectors_of(tokenizer)}
    (FOLDER / f"{name}.json").write_text(json.dumps(document, ensure_ascii=True) + "\n")


def wordpiece():
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=30))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(
        LINES, trainers.WordPieceTrainer(vocab_size=300, special_tokens=names)
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    tokenizer.decoder = decoders.WordPiece()
    write("wordpiece", tokenizer)


def llama():
    """BPE over characters as Llama 2 has it, with added tokens of every kind."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]
    )
    names = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    tokenizer.train_from_iterator(
        LINES, trainers.BpeTrainer(vocab_size=600, special_tokens=names, limit_alphabet=60)
    )
    # Training adds the byte tokens as special ones; here they are only reached by fallback.
    document = json.loads(tokenizer.to_str())
    document["added_tokens"] = [
        t for t in document["added_tokens"] if not t["content"].startswith("<0x")
    ]
    tokenizer = Tokenizer.from_str(json.dumps(document))
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, rstrip=True, normalized=False)])
    tokenizer.add_tokens(
        [
            AddedToken("<tool>", normalized=True),
            AddedToken("<word>", single_word=True),
            AddedToken("NAME", normalized=False, single_word=True),
        ]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("\u2581", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    write("llama", tokenizer)


def roberta():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    names = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer.train_from_iterator(
        LINES,
        trainers.BpeTrainer(
            vocab_size=500,
            special_tokens=names,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        ),
    )
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    tokenizer.decoder = decoders.ByteLevel()
    write("roberta", tokenizer)


def steps():
    """Byte-level BPE behind many normalizers and pre-tokenizers."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.NFKC(),
            normalizers.Lowercase(),
            normalizers.NFD(),
            normalizers.StripAccents(),
            normalizers.Replace(Regex("[-=]{2,}"), "-"),
            normalizers.Strip(),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex("\\s+"), "merged_with_next"),
            pre_tokenizers.Punctuation("contiguous"),
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.Split("r", "merged_with_previous"),
            pre_tokenizers.Split(Regex("[a-y]+"), "isolated", invert=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.train_from_iterator(
        LINES,
        trainers.BpeTrainer(vocab_size=450, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()),
    )
    tokenizer.decoder = decoders.ByteLevel()
    write("steps", tokenizer)


def words():
    """Characters without fallback: unknown ones vanish into <unk>; only words count."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Whitespace(), pre_tokenizers.Digits(individual_digits=False)]
    )
    tokenizer.train_from_iterator(
        LINES, trainers.BpeTrainer(vocab_size=250, special_tokens=["<unk>"], limit_alphabet=50)
    )
    write("words", tokenizer)


def train_sentencepiece(kind, **options):
    out = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder:
        rules = pathlib.Path(folder) / "rules.tsv"
        # Small letters for three capitals, a ligature, a wide letter, a character that vanishes.
        pairs = [
            ("T", "t"),
            ("E", "e"),
            ("S", "s"),
            ("\ufb01", "fi"),
            ("\uff21", "a"),
            ("\u00ad", ""),
        ]
        rules.write_text(
            "".join(
                " ".join(f"{ord(c):X}" for c in a)
                + "\t"
                + " ".join(f"{ord(c):X}" for c in b)
                + "\n"
                for a, b in pairs
            )
        )
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(LINES),
            model_writer=out,
            model_type=kind,
            normalization_rule_tsv=str(rules),
            minloglevel=2,
            num_threads=1,
            **options,
        )
    return out.getvalue()


def from_sentencepiece(name, kind, **options):
    """Pieces, scores and types as GGUF stores them; the ids are SentencePiece's own."""
    raw = train_sentencepiece(kind, **options)
    model = spm_format.ModelProto.FromString(raw)
    processor = sentencepiece.SentencePieceProcessor(model_proto=raw)
    texts = [t for t in TEXTS if "\u2581" not in t and not re.search("[<\\0]", t)]
    document = {
        "tokens": [p.piece for p in model.pieces],
        "scores": [p.score for p in model.pieces],
        "types": [p.type for p in model.pieces],
        "charsmap": base64.b64encode(model.normalizer_spec.precompiled_charsmap).decode(),
        "add_space_prefix": model.normalizer_spec.add_dummy_prefix,
        "remove_extra_whitespaces": model.normalizer_spec.remove_extra_whitespaces,
        "vectors": [
            {
                "text": t,
                "ids": processor.encode(t),
                "decoded": processor.decode(processor.encode(t)),
            }
            for t in texts
        ],
    }
    (FOLDER / f"{name}.json").write_text(json.dumps(document, ensure_ascii=True) + "\n")
    return model


def unigram():
    model = from_sentencepiece("sp_unigram", "unigram", vocab_size=180, hard_vocab_limit=False)
    vocabulary = [(p.piece, p.score) for p in model.pieces]
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=0, byte_fallback=False))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC()])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 2)]
    )
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="first")
    write("unigram", tokenizer)


def main():
    FOLDER.mkdir(exist_ok=True)
    wordpiece()
    llama()
    roberta()
    steps()
    words()
    unigram()
    from_sentencepiece(
        "sp_bpe",
        "bpe",
        vocab_size=480,
        byte_fallback=True,
        character_coverage=0.98,
        remove_extra_whitespaces=False,
    )


if __name__ == "__main__":
    main()
