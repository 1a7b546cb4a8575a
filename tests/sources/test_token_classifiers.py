"""Entities of token-classification checkpoints: joining tags, windows, loading."""

from __future__ import annotations

import itertools
import random
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from miniatures import TEXTS, tiny_tokenizer
from transformers import AutoConfig, AutoModel, AutoModelForTokenClassification

from infuser.errors import CheckpointError, SourceError
from infuser.sources.storage import load_source, save_source
from infuser.sources.token_classifiers import TokenClassifier, _longest_input, _tiny, join_words
from infuser.types import Annotations, Link, Span, join_pair
from infuser.words import find_tokens

TAGS = {0: "O", 1: "B-PER", 2: "I-PER", 3: "B-LOC", 4: "I-LOC"}


def random_classifier(host: str, n_positions: int = 64) -> Any:
    settings = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        host,
        vocab_size=len(tiny_tokenizer(host)),
        max_position_embeddings=n_positions,
        pad_token_id=1 if host == "roberta" else 0,
        initializer_range=0.5,
        id2label=TAGS,
        label2id={tag: number for number, tag in TAGS.items()},
        **settings,
    )
    return AutoModelForTokenClassification.from_config(config).eval()


def joined(tags: str) -> list[tuple[int, int, str]]:
    words = [(place, place + 1, tag) for place, tag in enumerate(tags.split())]
    return [(start, end, label) for start, end, label, _ in join_words(words)]


@pytest.mark.parametrize(
    ("tags", "entities"),
    [
        ("O B-PER I-PER O", [(1, 3, "PER")]),
        ("B-PER B-PER I-PER", [(0, 1, "PER"), (1, 3, "PER")]),
        ("I-PER I-PER I-LOC O I-LOC", [(0, 2, "PER"), (2, 3, "LOC"), (4, 5, "LOC")]),  # as old CoNLL files have it
        ("B-PER I-LOC", [(0, 1, "PER"), (1, 2, "LOC")]),
        ("PER PER O LOC", [(0, 2, "PER"), (3, 4, "LOC")]),
        ("B-X I-X E-X S-X S-X E-X", [(0, 3, "X"), (3, 4, "X"), (4, 5, "X"), (5, 6, "X")]),
        ("B_X L_X U_X I_X", [(0, 2, "X"), (2, 3, "X"), (3, 4, "X")]),
        ("B-MISC-ART I-MISC-ART", [(0, 2, "MISC-ART")]),
        ("O O", []),
    ],
)
def test_tags_of_every_scheme_become_entities(tags: str, entities: list[tuple[int, int, str]]) -> None:
    assert joined(tags) == entities


@given(st.lists(st.sampled_from(["O", "B-X", "I-X", "E-X", "S-X", "B-Y", "I-Y", "Z"]), max_size=12))
def test_every_tagged_word_is_in_exactly_one_entity(tags: list[str]) -> None:
    found = joined(" ".join(tags))
    covered = [place for start, end, _ in found for place in range(start, end)]
    assert covered == [place for place, tag in enumerate(tags) if tag != "O"]
    assert all(tags[place].endswith(label) for start, end, label in found for place in range(start, end))


def test_names_of_several_words_and_subwords_are_found() -> None:
    text = "Hibernians left NEW York, and Bérn; Fred  Meyer did not"
    assert TokenClassifier.tiny().annotate([text]) == [
        Annotations(
            text,
            (Span(16, 24, "LOC"), Span(30, 34, "LOC"), Span(36, 47, "ORG")),
            (Link(0, 0), Link(1, 1), Link(2, 2)),
        )
    ]
    [only] = TokenClassifier("tiny", labels=["ORG"]).annotate([text])
    assert only.spans == (Span(36, 47, "ORG"),)


def test_the_first_subword_decides_for_its_word() -> None:
    model, tokenizer = _tiny()
    pieces = tokenizer.get_vocab()
    with torch.no_grad():
        model.bert.embeddings.word_embeddings.weight[pieces["z"]] = torch.eye(5)[3]  # z: B-ORG
        model.bert.embeddings.word_embeddings.weight[pieces["##q"]] = torch.eye(5)[1]  # inside of a word: B-LOC
    source = TokenClassifier(model, tokenizer)
    [found] = source.annotate(["aqq zqq q z bernadette"])
    assert found.spans == (Span(4, 7, "ORG"), Span(10, 11, "ORG"), Span(12, 22, "LOC"))


def test_an_entity_does_not_reach_across_the_break_of_a_pair() -> None:
    one, pair = TokenClassifier.tiny().annotate(["New York", join_pair("New", "York")])
    assert one.spans == (Span(0, 8, "LOC"),)
    assert pair.spans == (Span(0, 3, "LOC"), Span(5, 9, "LOC"))


def test_no_part_of_a_long_text_is_left_out() -> None:
    chance = random.Random(0)
    words = [chance.choice(["Bern", "the", "old", "Aare", "New York", "x"]) for _ in range(3000)]
    text = " ".join(words)
    [found] = TokenClassifier.tiny().annotate([text])
    assert [text[span.start : span.end] for span in found.spans] == [
        word for word in words if word in ("Bern", "Aare", "New York")
    ]


@pytest.mark.parametrize("host", ["bert", "roberta", "distilbert"])
def test_tags_are_those_of_the_model_read_one_text_at_a_time(host: str) -> None:
    model, tokenizer = random_classifier(host), tiny_tokenizer(host)
    source = TokenClassifier(model, tokenizer, batch_size=3)
    answers = source.annotate(TEXTS)
    for text, found in zip(TEXTS, answers, strict=True):
        encoding = tokenizer(text, return_tensors="pt", return_offsets_mapping=True)
        offsets = encoding.pop("offset_mapping")[0].tolist()
        with torch.no_grad():
            tags = model(**encoding).logits[0].argmax(-1).tolist()
        words = []
        for start, end, _ in find_tokens(text):
            first = min(i for i, (low, high) in enumerate(offsets) if low < end and high > start)
            words.append((start, end, TAGS[tags[first]]))
        expected = {(start, end, label) for start, end, label, _ in join_words(words)}
        assert {(s.start, s.end, s.label) for s in found.spans} == {
            place for place in expected if any(char.isalnum() for char in text[place[0] : place[1]])
        }
    assert any(found.spans for found in answers)


@pytest.mark.parametrize(("host", "n_positions", "longest"), [("bert", 64, 64), ("roberta", 42, 40), ("bert", 80, 64)])
def test_a_model_is_never_given_more_than_it_can_read(host: str, n_positions: int, longest: int) -> None:
    model, tokenizer = random_classifier(host, n_positions), tiny_tokenizer(host)
    assert _longest_input(model, tokenizer) == longest  # the tokenizer of the last one says 64
    lengths: list[int] = []
    model.register_forward_pre_hook(
        lambda _, args, kwargs: lengths.append(kwargs["input_ids"].shape[1]), with_kwargs=True
    )
    TokenClassifier(model, tokenizer).annotate(["the old river of the town " * 20])
    assert max(lengths) == longest


def test_in_a_long_text_each_window_decides_up_to_the_middle_of_the_overlap() -> None:
    model, tokenizer = random_classifier("bert"), tiny_tokenizer("bert")
    tagger = TokenClassifier(model, tokenizer, window=18, overlap=4)._tagger
    reading = tagger.split("the old river of the town is near the big lake " * 3)
    assert reading.windows[:2] == [range(16), range(12, 28)]
    alone = [tagger.predict([reading.ids[run.start : run.stop]], batch_size=1)[0] for run in reading.windows]
    together = tagger.predict([reading.ids[run.start : run.stop] for run in reading.windows], batch_size=8)
    assert together == alone
    assert [len(tags) for tags in alone] == [len(run) for run in reading.windows]


def test_a_checkpoint_in_a_folder_is_loaded_and_saved_by_its_folder(tmp_path: Path) -> None:
    model, tokenizer = _tiny()
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    source = TokenClassifier(tmp_path / "model", labels=["LOC"], window=32)
    again = load_source(save_source(source, tmp_path), tmp_path)
    assert again == source
    text = "Fred Meyer in New York " * 30
    assert again.annotate([text]) == TokenClassifier("tiny", labels=["LOC"]).annotate([text])


def test_a_model_given_as_an_object_is_asked_for_again(tmp_path: Path) -> None:
    record = save_source(TokenClassifier(*_tiny()), tmp_path)
    with pytest.raises(SourceError, match=r"given as an object, a BertForTokenClassification\. Write both with"):
        load_source(record, tmp_path)


def test_answers_that_are_no_numbers_are_no_tags() -> None:
    model, tokenizer = _tiny()
    with torch.no_grad():
        model.classifier.bias[0] = float("nan")
    with pytest.raises(CheckpointError, match="infinite or not numbers"):
        TokenClassifier(model, tokenizer).annotate(["Bern lies on the Aare."])


@pytest.mark.parametrize(
    ("name", "content"),
    [
        *itertools.product(("config.json", "tokenizer_config.json"), ("[" * 100_000, "null")),
        *itertools.product(("tokenizer.json",), ("[" * 100_000, "null", "[]", "{}")),
        ("config.json", '{"model_type": "bert", "hidden_size": "x"}'),
    ],
    ids=lambda value: value[:4],
)
def test_a_checkpoint_with_a_damaged_file_is_named_in_one_line(name: str, content: str, tmp_path: Path) -> None:
    random_classifier("bert").save_pretrained(tmp_path)
    tiny_tokenizer("bert").save_pretrained(tmp_path)
    (tmp_path / name).write_text(content)
    with pytest.raises(CheckpointError, match=rf"^[^\n]*{re.escape(str(tmp_path))}[^\n]*$"):
        TokenClassifier(tmp_path).annotate(["a text"])
    if name == "config.json":  # tags need nothing else
        with pytest.raises(CheckpointError, match=re.escape(str(tmp_path))):
            list(TokenClassifier(tmp_path).span_types)


def test_checkpoints_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="Cannot load the token classifier"):
        TokenClassifier(tmp_path).annotate(["a text"])
    tiny_tokenizer("bert").save_pretrained(tmp_path)
    encoder = AutoModel.from_config(random_classifier("bert").config)
    encoder.save_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match=r"lacks the weights classifier\.bias.* not trained to tag"):
        TokenClassifier(tmp_path).annotate(["a text"])


def test_pickled_weights_are_not_read(tmp_path: Path) -> None:
    model, tokenizer = _tiny()
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match=r"model\.safetensors"):
        TokenClassifier(tmp_path).annotate(["a text"])


def test_models_and_settings_that_cannot_be_used_are_refused() -> None:
    model, tokenizer = _tiny()
    with pytest.raises(SourceError, match="without its tokenizer"):
        TokenClassifier(model)
    with pytest.raises(SourceError, match="window is 100, but the model reads 64"):
        TokenClassifier(model, tokenizer, window=100).annotate(["a text"])
    with pytest.raises(SourceError, match="window=3, overlap=64"):
        TokenClassifier("tiny", window=3)
    model.config.id2label = {number: f"LABEL_{number}" for number in range(5)}
    with pytest.raises(SourceError, match="tags are called LABEL_0, LABEL_1, LABEL_2"):
        TokenClassifier(model, tokenizer).annotate(["a text"])


def test_making_a_miniature_leaves_random_numbers_alone() -> None:
    before = torch.get_rng_state()
    TokenClassifier.tiny().annotate(["Bern"])
    assert torch.equal(torch.get_rng_state(), before)


def test_the_types_are_those_of_the_tags_without_their_prefixes() -> None:
    assert TokenClassifier.tiny().span_types == ("LOC", "ORG")
    assert TokenClassifier("tiny", labels=["ORG"]).span_types == ("ORG",)


def test_the_types_of_a_checkpoint_are_read_without_its_weights(tmp_path: Path) -> None:
    tagger = TokenClassifier.tiny()._tagger
    tagger._model.config.save_pretrained(tmp_path)
    source = TokenClassifier(tmp_path)
    assert source.span_types == ("LOC", "ORG")
    assert "_tagger" not in source.__dict__
