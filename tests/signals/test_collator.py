from __future__ import annotations

import copy
import subprocess
import sys

import pytest
import torch
from miniatures import PAIRS, TEXTS, Repeats, tiny_tokenizer, tokenizer_of_kind
from torch.utils.data import DataLoader

from infuser.errors import InputError, SourceError
from infuser.signals.collator import Collator
from infuser.signals.maps import draw_maps, draw_ties
from infuser.sources import Entities
from infuser.types import OTHER, Annotations, Link, Span, Term, Vocabulary

SOURCES = (Repeats(), Repeats(0.5, term="lake"))
EXAMPLES = [
    *({"text": text, "pair": pair, "label": i % 2} for i, (text, pair) in enumerate(zip(TEXTS, PAIRS, strict=True))),
    {"text": "the river and the town", "pair": None, "label": 1},
    {"text": "", "pair": "", "label": 0},
]


def maps_of(batch, n_channels=2):
    """Return the maps of a batch, with the pieces of its terms as further columns."""
    n_tokens = batch["input_ids"].shape[-1]
    maps = draw_maps(
        batch["knowledge_boxes"],
        batch["knowledge_weights"],
        n_channels=n_channels,
        n_tokens=n_tokens,
        valid=batch["attention_mask"],
    )
    if "knowledge_terms" not in batch:
        return maps
    sizes = {"n_tokens": n_tokens, "n_pieces": batch["knowledge_terms"].shape[-1]}
    ties, weights = batch["knowledge_ties"], batch["knowledge_tie_weights"]
    beside = [draw_ties(ties, weights, source=channel, **sizes) for channel in range(n_channels)]
    return torch.cat([maps, torch.stack(beside, dim=1)], dim=-1)


def same(left, right):
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


@pytest.mark.parametrize("padding_side", ["left", "right"])
@pytest.mark.parametrize("kind", ["wordpiece", "byte-bpe", "unigram"])
def test_company_does_not_change_the_maps_of_an_example(kind, padding_side):
    collate = Collator(tokenizer_of_kind(kind, padding_side=padding_side), SOURCES, pad_to_multiple_of=8)
    batch = collate(EXAMPLES)
    n_tokens = batch["input_ids"].shape[1]
    assert n_tokens % 8 == 0
    together = maps_of(batch)
    for i, example in enumerate(EXAMPLES):
        alone = collate([example])
        inside = batch["attention_mask"][i].bool()
        own = alone["attention_mask"][0].bool()
        assert torch.equal(batch["input_ids"][i][inside], alone["input_ids"][0][own])
        n_terms = 0 if "knowledge_terms" not in alone else alone["knowledge_terms"].shape[1]
        cut = together[i][:, inside][:, :, torch.cat([inside, torch.arange(together.shape[-1] - n_tokens) < n_terms])]
        expected = maps_of(alone)[0][:, own][:, :, torch.cat([own, torch.ones(n_terms).bool()])]
        assert torch.equal(cut, expected)
        assert together[i].sum() == cut.sum()  # and nothing is drawn outside of it
    assert together[0].any()


def test_a_batch_carries_boxes_spans_and_terms(wordpiece):
    text = "the glipizide the"
    batch = Collator(wordpiece, SOURCES).encode([text, "a lake"])
    assert batch["knowledge_boxes"].tolist() == [[[0, 1, 2, 8, 9], [1, 1, 2, 8, 9]], [[-1, 0, 0, 0, 0]] * 2]
    assert batch["knowledge_weights"].tolist() == [[1.0, 0.5], [0.0, 0.0]]
    assert batch["knowledge_kinds"].tolist() == [[1, 1], [0, 0]]  # the one relation, behind the one type
    spans = [[1, 2], [2, 8], [8, 9]]
    assert batch["knowledge_spans"].tolist() == [
        [[source, 0, *span] for source in (0, 1) for span in spans],
        [[0, 0, 1, 2], [0, 0, 2, 3], [1, 0, 1, 2], [1, 0, 2, 3], [0, 0, 0, 0], [0, 0, 0, 0]],
    ]
    assert batch["knowledge_terms"].tolist() == [wordpiece.convert_tokens_to_ids(["lake"]), [0]]
    assert batch["knowledge_ties"].tolist() == [[[1, 0, 2, 8, 0, 1]], [[0, 0, 0, 0, 0, 0]]]
    assert batch["knowledge_tie_weights"].tolist() == [[0.25], [0.0]]
    weights = {name for name in batch if name.endswith("weights")}
    assert all(batch[name].dtype == (torch.float32 if name in weights else torch.int64) for name in batch)


def test_types_and_relations_are_numbered_by_the_vocabulary_of_the_model_not_by_that_of_the_sources(wordpiece):
    source = Entities({"Bern": "city", "lake": "water", "shop": "place"}, n_terms=1)
    assert Vocabulary.of([source]).types[0][-1] == OTHER
    vocabulary = Vocabulary((("water", "city", OTHER),), (("unused", "type", OTHER),), with_terms=True)
    batch = Collator(wordpiece, [source], vocabulary=vocabulary).encode(["shop Bern lake"])
    kinds = {tuple(span[2:]): span[1] for span in batch["knowledge_spans"][0].tolist()}
    assert [kinds[place] for place in sorted(kinds)] == [2, 1, 0]  # a type that the model does not know is another one
    assert set(batch["knowledge_ties"][0, :, 1].tolist()) == {1}


def test_ties_name_the_pieces_of_their_term_among_those_of_all_terms(wordpiece):
    text = "buy medicine"
    terms = (Term("gliglipizide", ((0, 1.0),)), Term("lake", ((1, 0.5), (0, 0.25))))
    found = Annotations(text, (Span(0, 3), Span(4, 12)), terms=terms)
    batch = Collator(wordpiece, [Repeats()])([{"text": text, "annotations": (found,)}])
    n_long = len(wordpiece.tokenize("gliglipizide"))
    ends = [range_.tolist() for range_ in batch["knowledge_ties"][0, :, 4:]]
    assert ends == [[0, n_long], [n_long, n_long + 1], [n_long, n_long + 1]]
    assert [tie[2:4] for tie in batch["knowledge_ties"][0].tolist()] == [[1, 2], [2, 3], [1, 2]]
    assert batch["knowledge_tie_weights"].tolist() == [[1.0, 0.5, 0.25]]


def test_a_batch_in_which_nothing_was_found_still_carries_the_keys(tokenizer):
    batch = Collator(tokenizer, [Entities({"Bern": "city"}, n_terms=1)]).encode(["a lake", ""])
    assert batch["knowledge_boxes"].tolist() == [[[-1, 0, 0, 0, 0]]] * 2
    assert batch["knowledge_weights"].tolist() == [[0.0]] * 2
    assert batch["knowledge_kinds"].tolist() == [[0]] * 2
    assert batch["knowledge_spans"].tolist() == [[[0, 0, 0, 0]]] * 2
    assert "knowledge_terms" not in batch and "knowledge_ties" not in batch


def test_without_sources_there_is_no_knowledge_in_the_batch(wordpiece):
    example = {"text": "the lake", "annotations": (Annotations("the lake"),)}
    batch = Collator(wordpiece)([example])
    assert sorted(batch) == ["attention_mask", "input_ids", "token_type_ids"]


def test_tokens_are_those_of_the_tokenizer_itself(tokenizer, texts, pairs):
    expected = tokenizer(texts, pairs, padding=True, return_tensors="pt")
    batch = Collator(tokenizer, SOURCES).encode(texts, pairs)
    for name, tensor in expected.items():
        assert torch.equal(batch[name], tensor)


@pytest.mark.parametrize("padding_side", ["left", "right"])
def test_a_term_begins_a_word_of_the_vocabulary(padding_side, tokenizer):
    tokenizer.padding_side = padding_side
    batch = Collator(tokenizer, [Repeats(term="pharmacy")]).encode(["medicine", "the red bridge and the medicine"])
    pieces = tokenizer.convert_ids_to_tokens(batch["knowledge_terms"][0])
    assert pieces in (["pharmacy"], ["Ġpharmacy"], ["▁pharmacy"])


def test_terms_are_kept_whole_and_within_the_limit(wordpiece):
    text = "medicine"
    long, short, strange = "gliglipizide", "lake", "☃"
    found = Annotations(text, (Span(0, 8),), terms=tuple(Term(term, ((0, 1.0),)) for term in (long, strange, short)))
    examples = [{"text": text, "annotations": (found,)}]
    n_long = len(wordpiece.tokenize(long))
    lake = wordpiece.convert_tokens_to_ids("lake")
    assert Collator(wordpiece, [Repeats()])(examples)["knowledge_terms"].shape == (1, n_long + 1)
    assert Collator(wordpiece, [Repeats()], max_term_tokens=n_long - 1)(examples)["knowledge_terms"].tolist() == [
        [lake]
    ]
    assert "knowledge_terms" not in Collator(wordpiece, [Repeats()], max_term_tokens=0)(examples)


def test_annotations_made_before_give_the_same_batch_and_ask_no_source_again(wordpiece, texts, pairs):
    class Once(Repeats):
        calls = 0

        def annotate(self, asked):
            Once.calls += 1
            return super().annotate(asked)

    collate = Collator(wordpiece, [Once(), Repeats(term="lake")])
    found = collate.annotate(texts, pairs, batch_size=3)
    assert (len(found), Once.calls) == (4, 2)
    rows = [{"text": t, "pair": p, "annotations": f} for t, p, f in zip(texts, pairs, found, strict=True)]
    ready = collate(rows)
    assert Once.calls == 2
    assert same(ready, collate.encode(texts, pairs))
    assert Once.calls == 3
    del rows[1]["annotations"]
    assert same(collate(rows), ready)


def test_progress_is_shown_when_wanted(wordpiece, texts, capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    collate = Collator(wordpiece, SOURCES)
    collate.annotate(texts)
    assert capsys.readouterr().err == ""
    collate.annotate(texts, progress=True)
    assert "4/4" in capsys.readouterr().err


@pytest.mark.parametrize("context", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_workers_give_the_same_batches_as_none(context):
    examples, n_workers = EXAMPLES[:4], 2 if context == "fork" else 1
    collate = Collator(tokenizer_of_kind("byte-bpe"), SOURCES)
    expected = list(DataLoader(examples, batch_size=2, collate_fn=collate))
    workers = DataLoader(
        examples, batch_size=2, collate_fn=collate, num_workers=n_workers, multiprocessing_context=context
    )
    batches = list(workers)
    assert len(batches) == 2
    assert all(same(left, right) for left, right in zip(batches, expected, strict=True))


def test_a_copy_gives_the_same_batches(wordpiece):
    collate = Collator(wordpiece, SOURCES, max_length=9)
    expected = collate(EXAMPLES)
    assert same(copy.deepcopy(collate)(EXAMPLES), expected)


@pytest.mark.parametrize("padding_side", ["left", "right"])
def test_long_texts_are_cut_and_keep_the_knowledge_that_is_left(padding_side):
    tokenizer = tokenizer_of_kind("wordpiece", padding_side=padding_side)
    text = "the red river the " + "big house garden " * 6000 + "the"
    assert len(text) > 100_000
    batch = Collator(tokenizer, [Repeats()], max_length=8).encode([text[:80], "the the"])
    assert batch["input_ids"].shape == (2, 8)
    maps = maps_of(batch, 1)
    start = 0 if padding_side == "right" else 4
    assert maps[0].nonzero().tolist() == [[0, 1, 4], [0, 4, 1]]
    assert maps[1].nonzero().tolist() == [[0, start + 1, start + 2], [0, start + 2, start + 1]]

    spans = (Span(0, 3), Span(14, 17), Span(len(text) - 3, len(text)))
    found = Annotations(text, spans, (Link(0, 1), Link(0, 2)))
    batch = Collator(tokenizer, [Repeats()])([{"text": text, "annotations": (found,)}])
    assert batch["input_ids"].shape == (1, 64)  # as long as the tokenizer allows
    assert batch["knowledge_boxes"].tolist() == [[[0, 1, 2, 4, 5]]]


def test_a_tokenizer_without_a_longest_sequence_cuts_nothing():
    tokenizer = tokenizer_of_kind("wordpiece", model_max_length=int(1e30))
    assert Collator(tokenizer).encode(["the " * 700])["input_ids"].shape == (1, 702)


def test_choices_have_a_dimension_of_their_own(wordpiece):
    texts, pairs = ["the red lake", "the town"], ["the river the", "a book"]
    collate = Collator(wordpiece, SOURCES)
    flat = collate.encode([texts[0], texts[1], "a", "big bridge"], [*pairs, "medicine", "medicine"])
    batch = collate(
        [
            {"text": texts, "pair": pairs, "label": 1},
            {"text": ["a", "big bridge"], "pair": "medicine", "label": 0},
        ]
    )
    assert batch.pop("labels").tolist() == [1, 0]
    assert batch["knowledge_boxes"].dim() == 4
    assert same({name: tensor.flatten(0, 1) for name, tensor in batch.items()}, flat)
    with pytest.raises(InputError, match=r"\[1, 2\] choices"):
        collate([{"text": ["a", "b"]}, {"text": ["a"]}])
    with pytest.raises(InputError, match=r"lists \[2, 3\] choices"):
        collate([{"text": ["a", "b"], "pair": ["a", "b", "c"]}])


@pytest.mark.parametrize(
    ("labels", "dtype"),
    [([1, 0], torch.int64), ([True, False], torch.int64), ([0.5, 2], torch.float32), ([[0.0, 1.0], [1.0, 1.0]], None)],
)
def test_labels_are_classes_scores_or_several_per_text(wordpiece, labels, dtype):
    for spelling in ("label", "labels"):
        batch = Collator(wordpiece)([{"text": "a", spelling: label} for label in labels])
        assert torch.equal(batch["labels"], torch.tensor(labels, dtype=dtype))


@pytest.mark.parametrize(("side", "row"), [("left", [-100] * 2 + [1, 2, 3]), ("right", [1, 2, 3] + [-100] * 2)])
def test_token_labels_are_padded_like_the_tokens(side, row):
    collate = Collator(tokenizer_of_kind("wordpiece", padding_side=side))
    batch = collate([{"text": "a", "labels": [1, 2, 3]}, {"text": "the red book", "labels": torch.arange(5)}])
    assert batch["labels"].tolist() == [row, [0, 1, 2, 3, 4]]
    with pytest.raises(InputError, match="2 token labels but 3 tokens"):
        collate([{"text": "a", "labels": [1, 2]}])


def test_answer_positions_come_along(wordpiece):
    batch = Collator(wordpiece)([{"text": "a", "start_positions": 1, "end_positions": 2}])
    assert (batch["start_positions"].tolist(), batch["end_positions"].tolist()) == ([1], [2])


@pytest.mark.parametrize("labels", [["yes", "no"], [1, None], [0.5, float("nan")], [[1, 2], 3], [[0.5], [0.5, 1.0]]])
def test_labels_that_cannot_be_used_are_refused(wordpiece, labels):
    with pytest.raises(InputError, match="label"):
        Collator(wordpiece)([{"text": "a", "label": label} for label in labels])


@pytest.mark.parametrize(
    ("examples", "words"),
    [
        ([], "empty"),
        ([{"text": "a"}, {"text": None}], "Example 1 .* NoneType"),
        ([{"text": float("nan")}], "Example 0 .* float"),
        ([{"text": "a", "pair": 3}], "pair of type int"),
        ([{"text": ["a", None]}], "Example 0 .* choice 1, .* NoneType"),
        ([{"sentence": "a"}], r"no 'text' but \['sentence'\]"),
        ([{"text": "a\ud800"}], "surrogate"),
    ],
)
def test_examples_that_cannot_be_read_are_refused(wordpiece, examples, words):
    with pytest.raises(InputError, match=words):
        Collator(wordpiece, SOURCES)(examples)


def test_other_mistakes_are_named(wordpiece):
    with pytest.raises(InputError, match="2 texts but 1 pairs"):
        Collator(wordpiece).encode(["a", "b"], ["c"])
    with pytest.raises(InputError, match="max_length=3 leaves no room"):
        Collator(wordpiece, max_length=3).encode(["a"], ["b"])
    with pytest.raises(InputError, match="annotations of 1 sources, but this collator has 2"):
        Collator(wordpiece, SOURCES)([{"text": "a", "annotations": (Annotations("a"),)}])
    unpadded = tokenizer_of_kind("wordpiece")
    unpadded.pad_token = None
    with pytest.raises(InputError, match="no padding token"):
        Collator(unpadded)

    class Lazy(Repeats):
        def annotate(self, texts):
            return super().annotate(texts)[1:]

    with pytest.raises(SourceError, match=r"Lazy\.annotate gave 1 answers for 2 texts"):
        Collator(wordpiece, [Lazy()]).encode(["a", "b"])


def test_a_slow_tokenizer_is_refused():
    from transformers import CanineTokenizer

    with pytest.raises(InputError, match="CanineTokenizer is a slow tokenizer"):
        Collator(CanineTokenizer())


def test_one_string_is_one_text(wordpiece):
    collate = Collator(wordpiece, SOURCES)
    assert same(collate.encode("the lake", "the"), collate.encode(["the lake"], ["the"]))


@pytest.mark.parametrize("host", ["distilbert", "roberta", "albert"])
def test_batches_hold_what_the_host_reads(host):
    tokenizer = tiny_tokenizer(host)
    batch = Collator(tokenizer, SOURCES).encode(["the river the"])
    knowledge = {name for name in batch if name.startswith("knowledge_")}
    assert set(batch) - knowledge == set(tokenizer.model_input_names)


def test_alignment_loads_no_torch():
    code = "import sys, infuser.signals; from infuser.signals import align; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("padding_side", ["right", "left"])
def test_spans_are_placed_in_the_tokens_of_their_batch(padding_side):
    tokenizer = tiny_tokenizer("bert", padding_side=padding_side)
    collator = Collator(tokenizer, SOURCES, max_length=16)
    examples = [
        {"text": "the river and the river"},
        {"text": "buy glipizide", "pair": "the old river"},
        {"text": ""},
        {"text": "old " * 20 + "town"},
    ]
    spans = [
        [Span(18, 23), Span(4, 9), Span(0, 0)],
        [Span(4, 13), Span(23, 28)],  # a pair is one text with a break of two characters between its sides
        [],
        [Span(80, 84), Span(0, 3)],
    ]
    batch, ranges = collator.place(examples, spans)
    assert same(batch, collator(examples))  # knowledge and all

    def tokens(row, place):
        return tokenizer.convert_ids_to_tokens(batch["input_ids"][row, slice(*place)].tolist())

    assert ranges[0][2] is None and ranges[3][0] is None  # blank, and cut off
    assert tokens(0, ranges[0][0]) == tokens(0, ranges[0][1]) == ["river"]
    assert ranges[0][0][0] - ranges[0][1][0] == 3
    assert tokens(1, ranges[1][0]) == tokenizer.tokenize("glipizide") and tokens(1, ranges[1][1]) == ["river"]
    assert ranges[2] == [] and tokens(3, ranges[3][1]) == ["old"]


def test_spans_are_placed_for_every_example_and_not_in_choices(wordpiece):
    with pytest.raises(InputError, match="multiple choice"):
        Collator(wordpiece).place([{"text": ["a", "b"]}], [[]])
    with pytest.raises(ValueError, match="shorter"):
        Collator(wordpiece).place([{"text": "a"}, {"text": "b"}], [[]])
