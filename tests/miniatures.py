"""Miniatures built in memory: tokenizers of the three kinds, and every host with every head.

Wide weights (`initializer_range=0.3`) and float64 make a real change visible and rounding invisible.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Self

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForMultipleChoice,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)

from infuser.types import Annotations, Link, Span, Term

_VOCABULARY = """
the a of on in near me is was buy sell cheap old new river city bridge bank pharmacy medicine drug tablets shop book
author wrote lies flows town lake train runs from to and blue green red small big house garden
"""
WORDS = tuple(_VOCABULARY.split())
"""Whole pieces of every tiny tokenizer; all other words fall into subwords."""

TEXTS = (
    "Bern lies on the Aare.",
    "buy glipizide tablets",
    "the old bridge of the town",
    "a train runs from Zürich to Bern and Basel",
)
PAIRS = (
    "the river Aare flows in the city",
    "Fred Meyer pharmacy near me",
    "cheap books on a red bridge",
    "the lake",
)

_KINDS = {
    "bert": "wordpiece",
    "roberta": "byte-bpe",
    "xlm-roberta": "unigram",
    "camembert": "unigram",
    "electra": "wordpiece",
    "distilbert": "wordpiece",
    "albert": "unigram",
    "modernbert": "byte-bpe",
    "nomic_bert": "wordpiece",
    "jina_embeddings_v3": "unigram",
    "eurobert": "byte-bpe",
    "roberta-prelayernorm": "byte-bpe",
    "xlm-roberta-xl": "unigram",
    "xmod": "unigram",
    "ernie": "wordpiece",
    "mobilebert": "wordpiece",
    "esm": "byte-bpe",
    "megatron-bert": "wordpiece",
    "rembert": "unigram",
    "mpnet": "byte-bpe",
    "deberta": "byte-bpe",
    "deberta-v2": "unigram",
}
"""The tokenizer of each host's family."""
HOSTS = tuple(_KINDS)
FIRST_HOSTS = HOSTS[:8]
"""Hosts on which contract tests try every method under every head; the others meet each of both once."""
CAN_AUTOCAST = [host for host in HOSTS if host not in ("xmod", "deberta")]
"""Hosts that transformers can run under autocast: X-MOD's adapters write into a tensor of another type, and the first
DeBERTa masks with the lowest float32, which is too low for bfloat16."""
CAN_CHECKPOINT = [host for host in HOSTS if host not in ("albert", "mpnet")]
"""Hosts for which transformers offers gradient checkpointing."""
COUNT_FROM_PADDING = (
    "roberta",
    "xlm-roberta",
    "camembert",
    "roberta-prelayernorm",
    "xlm-roberta-xl",
    "xmod",
    "esm",
    "mpnet",
)
"""Hosts that read positions off the ids."""
ROTARY = ("modernbert", "nomic_bert", "jina_embeddings_v3", "eurobert", "esm")
"""Hosts that turn queries and keys by their position, in float32 whatever their own type is."""
OWN_ATTENTION = ("megatron-bert", "rembert", "mpnet", "deberta", "deberta-v2")
"""Hosts that do not call transformers' attention function."""
NORM_AT_THE_END = ("modernbert", "eurobert", "roberta-prelayernorm", "xlm-roberta-xl", "xmod", "esm", "megatron-bert")
"""Hosts with a norm behind the last block."""
HEADS = (
    "encoder",
    "sequence-classification",
    "token-classification",
    "multiple-choice",
    "question-answering",
    "masked-lm",
)
TOKENIZERS = ("wordpiece", "byte-bpe", "unigram")

N_POSITIONS = 64
"""Longest sequence, special tokens included, that a tiny host reads."""

_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.,:;!?'-"
_AUTO = {
    "encoder": AutoModel,
    "sequence-classification": AutoModelForSequenceClassification,
    "token-classification": AutoModelForTokenClassification,
    "multiple-choice": AutoModelForMultipleChoice,
    "question-answering": AutoModelForQuestionAnswering,
    "masked-lm": AutoModelForMaskedLM,
}
_OF_ITS_OWN: dict[str, dict[str, Any]] = {
    "eurobert": {"num_key_value_heads": 1},  # two heads read the same keys
    "xmod": {"languages": ["en_XX", "de_DE"], "default_language": "de_DE", "pre_norm": True},
    "ernie": {"use_task_id": True},
    "mobilebert": {
        "embedding_size": 8,
        "intra_bottleneck_size": 16,
        "num_feedforward_networks": 2,
        "initializer_range": 0.25,  # without norms its states grow: at 0.3 some gradients vanish (1e-53)
    },
    "esm": {"position_embedding_type": "rotary", "token_dropout": True, "mask_token_id": 4},
    "rembert": {"input_embedding_size": 8, "output_embedding_size": 24},
    "deberta": {
        "relative_attention": True,
        "pos_att_type": ["c2p", "p2c"],
        "position_biased_input": False,
        "type_vocab_size": 0,
    },
    "deberta-v2": {  # as the third version has it, and with the convolution of the second
        "relative_attention": True,
        "pos_att_type": ["p2c", "c2p"],
        "position_biased_input": False,
        "type_vocab_size": 0,
        "position_buckets": 8,
        "share_att_key": True,
        "norm_rel_ebd": "layer_norm",
        "conv_kernel_size": 3,
    },
}
"""Settings that only one host has; those that checkpoints have, if they change what it computes."""


def tiny_tokenizer(host: str, **settings: Any) -> PreTrainedTokenizerFast:
    """Return the tiny fast tokenizer that goes with a host's family."""
    if host == "distilbert":  # it has no segment embeddings
        settings.setdefault("model_input_names", ["input_ids", "attention_mask"])
    if host == "albert":
        settings.setdefault("model_input_names", ["input_ids", "token_type_ids", "attention_mask"])
    return tokenizer_of_kind(_KINDS[host], **settings)


def tokenizer_of_kind(kind: str, **settings: Any) -> PreTrainedTokenizerFast:
    """Return a tiny fast tokenizer: "wordpiece", "byte-bpe" or "unigram"; settings as of transformers."""
    settings = {"model_max_length": N_POSITIONS, **settings}
    if kind == "wordpiece":
        special = {"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]"}
        special |= {"unk_token": "[UNK]", "mask_token": "[MASK]"}
        names = ["input_ids", "token_type_ids", "attention_mask"]
    else:
        special = {"bos_token": "<s>", "eos_token": "</s>", "cls_token": "<s>", "sep_token": "</s>"}
        special |= {"pad_token": "<pad>", "unk_token": "<unk>", "mask_token": "<mask>"}
        names = ["input_ids", "attention_mask"]
    settings.setdefault("model_input_names", names)
    inside = Tokenizer.from_str(_inside(kind))  # a fresh copy: truncation and padding are states of it
    return PreTrainedTokenizerFast(tokenizer_object=inside, **special, **settings)


@cache
def _inside(kind: str) -> str:
    return {"wordpiece": _wordpiece, "byte-bpe": _byte_bpe, "unigram": _unigram}[kind]().to_str()


def _wordpiece() -> Tokenizer:
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *_LETTERS, *(f"##{letter}" for letter in _LETTERS)]
    pieces += [word for word in WORDS if len(word) > 1] + ["##ing", "##er", "##s", "gli", "##pi", "京", "中", "👍"]
    vocabulary = {piece: i for i, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])],
    )
    return tokenizer


def _byte_bpe() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([" ".join(WORDS)] * 4, trainer)
    # offsets keep their leading space here, the harder case: RoBERTa trims it, other byte-level tokenizers do not
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), False, False)
    return tokenizer


def _unigram() -> Tokenizer:
    pieces = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("<mask>", 0.0), ("▁", -6.0)]
    pieces += [(f"▁{word}", -4.0 - i / 100) for i, word in enumerate(WORDS)]
    pieces += [(piece, -7.0) for piece in ("ing", "er", "gli", "pi", "▁B", "ern", "京", "中国", "👍")]
    pieces += [(letter, -9.0 - i / 100) for i, letter in enumerate(_LETTERS + "ABCDEFGHIJKLMNOPQRSTUVWXYZü")]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=3, byte_fallback=False))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace("\n", " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s>:0 $A:0 </s>:0",
        pair="<s>:0 $A:0 </s>:0 </s>:0 $B:1 </s>:1",
        special_tokens=[("<s>", 0), ("</s>", 2)],
    )
    return tokenizer


def tiny_config(host: str, **changes: Any) -> PreTrainedConfig:
    """Return the settings of a tiny host: hidden size 16, two heads, two layers (ModernBERT three)."""
    tokenizer = tiny_tokenizer(host)
    settings: dict[str, Any] = {
        "vocab_size": len(tokenizer),
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "initializer_range": 0.3,
        "max_position_embeddings": N_POSITIONS + 2,  # RoBERTa counts positions from the padding id + 1
        "pad_token_id": tokenizer.pad_token_id,
        "num_labels": 3,
    }
    if host == "distilbert":
        names = {"hidden_size": "dim", "num_hidden_layers": "n_layers", "num_attention_heads": "n_heads"}
        names["intermediate_size"] = "hidden_dim"
        settings = {names.get(name, name): value for name, value in settings.items()}
    if host in ("electra", "albert"):
        settings["embedding_size"] = 8
    if _KINDS[host] != "wordpiece":
        settings |= {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
    if host == "modernbert":  # three layers: one that sees everything, two that see a window
        settings |= {"num_hidden_layers": 3, "local_attention": 8}
        settings |= {"cls_token_id": tokenizer.cls_token_id, "sep_token_id": tokenizer.sep_token_id}
    return AutoConfig.for_model(host, **{**settings, **_OF_ITS_OWN.get(host, {}), **changes})


def tiny_host(host: str, head: str | None = None, *, seed: int = 0, **changes: Any) -> PreTrainedModel:
    """Return a tiny host with a head of `HEADS` (None: the bare encoder), in float64 and evaluation mode."""
    attention = changes.pop("attn_implementation", None)
    if host in OWN_ATTENTION:  # it has one implementation
        attention = None
    if head == "question-answering":
        changes.setdefault("num_labels", 2)  # the start and the end of the answer
    torch.manual_seed(seed)
    model = _AUTO[head or "encoder"].from_config(tiny_config(host, **changes), attn_implementation=attention)
    return model.eval().double()


@dataclass(frozen=True)
class Repeats:
    """A source of the tests: ties equal words to each other, and long words to an auxiliary term."""

    weight: float = 1.0
    term: str = ""

    def annotate(self, texts: Sequence[str]) -> list[Annotations]:
        return [self._annotate(text) for text in texts]

    def _annotate(self, text: str) -> Annotations:
        words = list(re.finditer(r"\w+", text))
        spans = tuple(Span(*word.span()) for word in words)
        links = tuple(
            Link(i, j, self.weight)
            for i, j in itertools.combinations(range(len(words)), 2)
            if words[i].group() == words[j].group()
        )
        ties = tuple((i, self.weight / 2) for i, word in enumerate(words) if len(word.group()) > 5)
        return Annotations(text, spans, links, (Term(self.term, ties),) if self.term and ties else ())

    @classmethod
    def tiny(cls) -> Self:
        return cls()


def every_host_and_head() -> list[tuple[str, str]]:
    """Return all combinations of host and head that the installed transformers has."""
    return [
        (host, head)
        for host, head in itertools.product(HOSTS, HEADS)
        if type(AutoConfig.for_model(host)) in _AUTO[head]._model_mapping
    ]
