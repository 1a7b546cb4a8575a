"""A miniature BERT and a toy task, made in a moment, so that every example runs anywhere and offline.

The task is query-to-ad relevance with made-up products: does the shop in the ad sell what the query asks for? A product
of the test set never occurs in training, so only the graph can know it; and the graph does not know every product.
"""

from __future__ import annotations

import atexit
import functools
import random
import tempfile
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast
from transformers.utils import logging

from infuser import Graph, Infused, Kam, Span, TrainSettings, infuse, train
from infuser.linking.examples import LinkedText

SHOPS = ("pharmacy", "florist", "bakery", "garage")
QUERIES = ("buy {} online", "cheap {}", "where to get {}", "{} for sale")
ADS = ("{} near me", "the best {} in town", "your local {}", "{} open today")
OTHER_WORDS = "Bern lies on the Aare natural language processing of medicine New York Fred Meyer drug"

logging.disable_progress_bar()
logging.set_verbosity_error()  # a fresh head on a checkpoint is expected here


def scratch() -> Path:
    """Return a new directory that goes away when the example ends."""
    directory = tempfile.TemporaryDirectory(prefix="infuser-example-")
    atexit.register(directory.cleanup)
    return Path(directory.name)


@functools.cache
def checkpoint() -> str:
    """Write a BERT with 2 layers and random weights, and its tokenizer, and return where."""
    directory = scratch()
    tokenizer = _tokenizer()
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
        initializer_range=0.2,  # wide, because nothing was learned before
    )
    torch.manual_seed(0)
    BertModel(config).save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return str(directory)


@functools.cache
def trained() -> Infused:
    """Return the miniature, infused with a graph and trained on the toy task."""
    examples, triples = query_ads(240, seed=0)
    _, more = query_ads(40, seed=1)  # products that training does not see
    infused = infuse(
        checkpoint(), Kam(), sources=[Graph([*triples, *more])], task="sequence-classification", num_labels=2
    )
    settings = TrainSettings(epochs=3, batch_size=16, learning_rate=3e-3)
    train(infused.model, examples, infused.collator(), settings=settings, progress=False)
    return infused


def query_ads(n_pairs: int, *, seed: int) -> tuple[list[dict[str, object]], list[tuple[str, str, str]]]:
    """Return labelled pairs about products that only this seed has, and the graph of who sells them."""
    chance = random.Random(seed)
    examples: list[dict[str, object]] = []
    triples: list[tuple[str, str, str]] = []
    for number in range(n_pairs):
        product = "".join(chance.choice("bdfgklmnprstvz") + chance.choice("aeiou") for _ in range(4))
        shop, *others = chance.sample(SHOPS, len(SHOPS))
        relevant = number % 2
        query = chance.choice(QUERIES).format(product)
        ad = chance.choice(ADS).format(shop if relevant else others[0])
        examples.append({"text": query, "pair": ad, "label": relevant})
        if chance.random() < 0.9:
            triples.append((product, "sold by", shop))
    return examples, triples


def linked_goods(
    n_names: int, *, seed: int
) -> tuple[list[LinkedText], dict[str, dict[str, float]], list[tuple[str, str]]]:
    """Return linked texts, what their names may mean, and what is said about each entity.

    Each name is that of two goods, which two different shops sell; only the shop in the text tells which one is meant.
    """
    chance = random.Random(seed)
    meanings: dict[str, dict[str, float]] = {shop: {shop: 1.0} for shop in SHOPS}
    described = [(shop, shop) for shop in SHOPS]
    texts = []
    for _ in range(n_names):
        name = "".join(chance.choice("bdfgklmnprstvz") + chance.choice("aeiou") for _ in range(3))
        often = iter((2.0, 1.0))
        for shop in chance.sample(SHOPS, 2):
            entity = f"{name} of the {shop}"
            meanings.setdefault(name, {})[entity] = next(often)
            described.append((entity, chance.choice(ADS).format(shop)))
            text = f"{chance.choice(QUERIES).format(name)} , {chance.choice(ADS).format(shop)}"
            first, second = text.index(name), text.rindex(shop)
            gold = Span(first, first + len(name), id=entity), Span(second, second + len(shop), id=shop)
            texts.append(LinkedText(text, gold))
    return texts, meanings, described


def _tokenizer() -> PreTrainedTokenizerFast:
    letters = "abcdefghijklmnopqrstuvwxyz0123456789.,()?!"
    words = " ".join([*SHOPS, *QUERIES, *ADS, OTHER_WORDS]).replace("{}", "").lower().split()
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters), *words]
    vocabulary = {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}
    inside = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    inside.normalizer = normalizers.BertNormalizer(lowercase=True)
    inside.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inside.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=inside,
        model_max_length=64,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        cls_token="[CLS]",
        sep_token="[SEP]",
        pad_token="[PAD]",
        unk_token="[UNK]",
        mask_token="[MASK]",
    )
