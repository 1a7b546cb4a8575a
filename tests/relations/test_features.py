"""Attention between spans, pooled for whole batches, against the literal loop over sentences, heads and subwords."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from miniatures import HOSTS, N_POSITIONS, tiny_host, tiny_tokenizer
from relations.literal_features import attention_maps, literal_features, token_positions
from tiny_infusions import KNOWN_TEXT, infuse_tiny

from infuser.errors import InputError
from infuser.hosts import n_blocks, watching_attention
from infuser.relations import features as inside
from infuser.relations.examples import RelationText, Triple
from infuser.relations.features import DIRECTIONS, FeatureSettings, SpanReader
from infuser.types import Span


def place(text, part, nth=0):
    start = -1
    for _ in range(nth + 1):
        start = text.index(part, start + 1)
    return Span(start, start + len(part))


def asked(text, *triples):
    """Return a text with triples; each part is its words, or (words, how many times they stand before)."""
    spans = [[place(text, *((one,) if isinstance(one, str) else one)) for one in triple] for triple in triples]
    return RelationText(text, tuple(Triple(head, tail, "P1", trigger) for head, tail, trigger in spans))


TEXTS = [
    asked(KNOWN_TEXT, ("bridge", "river", "lies on"), ("old town", "old bridge", "of"), ("river", "town", "old")),
    asked("buy glipizide tablets", ("buy", "tablets", "glipizide")),
    RelationText("a text without triples"),
    asked("a train runs from Zürich to Bern", ("train", "Bern", "runs from"), ("Zürich", "Bern", "to")),
]
NEW_YORK = "New New York York is in the new New York"


@pytest.fixture(scope="module")
def bert():
    return tiny_host("bert"), tiny_tokenizer("bert")


def agree(model, tokenizer, texts, *, sources=(), batch_size=2, **chosen):
    """Read texts both ways, compare, and return what was read."""
    reader = SpanReader(model, tokenizer, sources, settings=FeatureSettings(**chosen), batch_size=batch_size)
    got = reader.read(texts)
    values, readable = literal_features(model, tokenizer, texts, sources=sources, **chosen)
    assert got.values.shape == (len(readable), *reader.shape)
    assert got.readable.tolist() == readable.tolist()
    np.testing.assert_allclose(got.values, values.reshape(got.values.shape), rtol=0, atol=1e-6)
    return got


# --- every host, plain and infused ---------------------------------------------------------------------------------


@pytest.mark.parametrize("host", HOSTS)
def test_every_host_says_what_the_literal_loop_says(host):
    model, tokenizer = tiny_host(host), tiny_tokenizer(host)
    for pooling, trigger in (("mean", False), ("sum", True)):
        got = agree(model, tokenizer, TEXTS, pooling=pooling, trigger=trigger)
        assert got.readable.all() and (got.values[:, 0] > 0).all()
    assert got.values.shape == (6, 3 if host == "modernbert" else 2, 2, 6)
    assert not np.array_equal(got.values[:, 0], got.values[:, 1])  # also where layers share their weights


@pytest.mark.parametrize(
    ("host", "method"),
    [("bert", "kam"), ("albert", "kam"), ("modernbert", "kam"), ("roberta", "kar"), ("bert", "kar"), ("bert", "ernie")],
)
def test_infused_hosts_are_read_with_their_knowledge(host, method):
    infused = infuse_tiny(host, method=method)
    got = agree(infused.model, infused.tokenizer, TEXTS, sources=infused.sources)
    without = SpanReader(infused.model, infused.tokenizer).read(TEXTS)
    assert not np.allclose(got.values[:3], without.values[:3], atol=1e-4)


def test_attention_to_auxiliary_terms_is_apart_from_that_over_the_text():
    infused = infuse_tiny("bert", method="kam")
    sums = []
    batch = infused.batch([KNOWN_TEXT, "buy glipizide tablets"])
    assert batch["knowledge_terms"].shape[1] > 0
    with watching_attention(infused.model, lambda weights: sums.append(weights.sum(dim=-1))), torch.no_grad():
        infused.model(**batch)
    assert sums and all(torch.allclose(of_layer, torch.ones_like(of_layer)) for of_layer in sums)
    agree(infused.model, infused.tokenizer, TEXTS, sources=infused.sources)


@pytest.mark.parametrize(
    ("head", "method"), [("sequence-classification", None), ("masked-lm", "kam"), ("sequence-classification", "kar")]
)
def test_a_head_changes_nothing(head, method):
    models = []
    for one in (head, "encoder"):
        if method is None:
            models.append((tiny_host("bert", one), tiny_tokenizer("bert"), ()))
        else:
            infused = infuse_tiny("bert", one, method)
            models.append((infused.model, infused.tokenizer, infused.sources))
    with_head, bare = models
    bare[0].base_model.load_state_dict(with_head[0].base_model.state_dict(), strict=False)  # a head may bring no pooler
    np.testing.assert_array_equal(SpanReader(*with_head).read(TEXTS).values, SpanReader(*bare).read(TEXTS).values)


@pytest.mark.parametrize("host", ["bert", "roberta", "modernbert"])
def test_the_side_of_padding_changes_nothing(host):
    model = tiny_host(host)
    tokenizers = [tiny_tokenizer(host, padding_side=side) for side in ("right", "left")]
    right, left = (SpanReader(model, tokenizer).read(TEXTS).values for tokenizer in tokenizers)
    np.testing.assert_array_equal(right, left)
    agree(model, tokenizers[1], TEXTS)
    assert [tokenizer.padding_side for tokenizer in tokenizers] == ["right", "left"]


@pytest.mark.parametrize("host", ["bert", "roberta", "distilbert", "albert", "modernbert"])
def test_embeddings_are_the_mean_states_of_spans_at_every_layer(host):
    model, tokenizer = tiny_host(host), tiny_tokenizer(host)
    reader = SpanReader(model, tokenizer, settings=FeatureSettings("embeddings"), batch_size=3)
    got = reader.read(TEXTS)
    assert got.values.shape == (6, *reader.shape) == (6, n_blocks(model) + 1, 3, 16)
    number = 0
    for text in TEXTS:
        offsets, _ = attention_maps(model, tokenizer, text.text)
        with torch.no_grad():
            states = model(**tokenizer([text.text], return_tensors="pt"), output_hidden_states=True).hidden_states
        for triple in text.triples:
            for part, span in enumerate((triple.head, triple.tail, triple.trigger)):
                positions = token_positions(span, text.text, offsets)
                by_hand = [layer[0, positions].mean(dim=0).numpy() for layer in states]
                np.testing.assert_allclose(got.values[number, :, part], by_hand, rtol=0, atol=1e-6)
            number += 1
    pairs = SpanReader(model, tokenizer, settings=FeatureSettings("embeddings", trigger=False)).read(TEXTS)
    np.testing.assert_allclose(pairs.values, got.values[:, :, :2], atol=1e-7)


def test_a_host_in_half_precision_is_read_nearly_as_well(bert):
    model, tokenizer = tiny_host("bert").bfloat16(), bert[1]
    for pooling in ("sum", "mean"):
        got = SpanReader(model, tokenizer, settings=FeatureSettings(pooling=pooling)).read(TEXTS)
        values, _ = literal_features(*bert, TEXTS, pooling=pooling)
        np.testing.assert_allclose(got.values, values, atol=0.05)


# --- what does not matter ------------------------------------------------------------------------------------------


def test_batches_and_neighbours_do_not_change_the_numbers(bert):
    together, alone, pairs = (SpanReader(*bert, batch_size=size).read(TEXTS).values for size in (32, 1, 2))
    np.testing.assert_allclose(together, alone, rtol=2e-7, atol=1e-9)  # float32 has no more digits
    np.testing.assert_allclose(pairs, alone, rtol=2e-7, atol=1e-9)


def test_results_stand_in_the_order_of_texts_and_triples(bert):
    read = SpanReader(*bert).read
    in_order, turned = read(TEXTS).values, read(TEXTS[::-1]).values
    np.testing.assert_allclose(turned, in_order[[4, 5, 3, 0, 1, 2]], rtol=2e-7, atol=1e-9)
    first = TEXTS[0]
    turned_triples = read([RelationText(first.text, first.triples[::-1])]).values
    np.testing.assert_allclose(turned_triples, in_order[[2, 1, 0]], rtol=2e-7, atol=1e-9)


def test_long_texts_make_batches_smaller_and_change_nothing(bert, monkeypatch):
    whole = SpanReader(*bert).read(TEXTS).values
    sizes = []
    monkeypatch.setattr(inside, "_MOST_WEIGHTS", 1200)
    read_batch = SpanReader._read_batch
    monkeypatch.setattr(
        SpanReader, "_read_batch", lambda self, some: (sizes.append(len(some)), read_batch(self, some))[1]
    )
    np.testing.assert_allclose(SpanReader(*bert).read(TEXTS).values, whole, rtol=2e-7, atol=1e-9)
    assert len(sizes) > 1 and sum(sizes) == 3  # texts without triples are not read at all


def test_a_stream_gives_the_same_some_texts_at_a_time(bert):
    reader = SpanReader(*bert, batch_size=1)
    many = TEXTS * 5
    parts = list(reader.stream(iter(many)))
    assert [len(texts) for texts, _ in parts] == [16, 4]
    assert [text for texts, _ in parts for text in texts] == many
    np.testing.assert_array_equal(np.concatenate([some.values for _, some in parts]), reader.read(many).values)


# --- the model is given back as it was -----------------------------------------------------------------------------


def state_of(model):
    hooks = sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules())
    return model.training, model.config._attn_implementation, hooks, torch.is_grad_enabled()


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_model_is_given_back_as_it_was(bert, attention, training, dtype, monkeypatch):
    model = tiny_host("bert", attn_implementation=attention).to(dtype).train(training)
    before = state_of(model)
    assert before[:2] == (training, attention)
    got = SpanReader(model, bert[1]).read(TEXTS)
    assert state_of(model) == before
    np.testing.assert_allclose(got.values, SpanReader(*bert).read(TEXTS).values, atol=1e-5)  # read without dropout
    monkeypatch.setattr(model.encoder.layer[1], "forward", lambda *args, **options: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        SpanReader(model, bert[1]).read(TEXTS)
    assert state_of(model) == before


def test_an_infused_model_is_given_back_as_it_was(monkeypatch):
    infused = infuse_tiny("bert", method="kam")
    before = state_of(infused.model)
    SpanReader(infused.model, infused.tokenizer, infused.sources).read(TEXTS)
    assert state_of(infused.model) == before
    assert before[1] == "infuser_sdpa"


# --- texts and spans of every kind ---------------------------------------------------------------------------------


def test_texts_with_nothing_to_read(bert):
    reader = SpanReader(*bert)
    for texts in ([], [RelationText("")], [RelationText("the river"), RelationText("")]):
        nothing = reader.read(texts)
        assert nothing.values.shape == (0, 2, 2, 6) and nothing.readable.shape == (0,)
    assert list(reader.stream([])) == []
    in_nothing = RelationText("", (Triple(Span(0, 0), Span(0, 0), "P1", Span(0, 0)),))
    got = agree(*bert, [in_nothing, *TEXTS, in_nothing])
    assert got.readable.tolist() == [False, *[True] * 6, False]


def test_the_same_name_twice_is_two_places(bert):
    text = "Bern lies near Bern on the river"
    got = agree(*bert, [asked(text, ("Bern", "river", "lies"), (("Bern", 1), "river", "lies"))])
    assert (np.abs(got.values[0] - got.values[1]) > 1e-3).any()


def test_equal_tokens_side_by_side_are_told_apart_by_their_offsets(bert):
    wanted = [(("New", 0), ("York", 0), "in"), (("New", 1), ("York", 1), "in"), ("New York", "York is", "the new New")]
    got = agree(*bert, [asked(NEW_YORK, *wanted, *((a, b, "is") for a, b, _ in wanted[:2]))])
    for one in range(5):
        for other in range(one):
            assert (np.abs(got.values[one] - got.values[other]) > 1e-3).any()


def test_overlapping_spans_and_a_span_with_itself_are_read(bert):
    text = "the old bridge of the old town"
    overlapping = asked(text, ("the old bridge", "old bridge of", "bridge"), ("town", "town", "town"))
    for pooling in ("sum", "mean"):
        assert agree(*bert, [overlapping], pooling=pooling).readable.all()


@pytest.mark.parametrize("truncation_side", ["right", "left"])
def test_spans_that_are_cut_off_are_zeros_and_disturb_no_other(bert, truncation_side):
    tokenizer = tiny_tokenizer("bert", truncation_side=truncation_side)
    text = "the river " + "near the town " * 40 + "lies on the lake"
    long = asked(text, ("river", "lake", "lies on"), ("river", "town", "near"), (("town", 39), "lake", "lies on"))
    got = agree(bert[0], tokenizer, [TEXTS[0], long, TEXTS[3]])
    within = [False, True, False] if truncation_side == "right" else [False, False, True]
    assert got.readable.tolist() == [True] * 3 + within + [True] * 2
    assert not got.values[~got.readable].any()
    np.testing.assert_allclose(got.values[[0, 1, 2]], SpanReader(*bert).read([TEXTS[0]]).values, rtol=2e-7, atol=1e-9)


def test_a_span_that_is_cut_through_keeps_what_is_left(bert):
    text = "the river " + "house " * (N_POSITIONS - 5) + "glipizide"  # two special tokens, two words: one piece is left
    long = asked(text, ("river", "glipizide", "the"))
    assert len(bert[1].tokenize("glipizide")) > 1
    assert agree(*bert, [long], pooling="mean").readable.all()


def test_blank_spans_and_missing_triggers_are_zeros(bert):
    text = "the  river and the lake"
    head, tail, trigger = place(text, "river"), place(text, "lake"), place(text, "and")
    triples = [
        Triple(head, tail, "P1", trigger),
        Triple(Span(3, 5), tail, "P1", trigger),
        Triple(head, Span(7, 7), "P1", trigger),
        Triple(head, tail, "P1", None),
        Triple(head, tail, "P1", Span(len(text), len(text))),
    ]
    got = agree(*bert, [RelationText(text, tuple(triples))])
    assert got.readable.tolist() == [True, False, False, False, False]
    assert got.values[0].any() and not got.values[1:].any()
    without = agree(*bert, [RelationText(text, tuple(triples))], trigger=False)
    assert without.readable.tolist() == [True, False, False, True, True]
    np.testing.assert_array_equal(without.values[3], got.values[0][..., :2])


def test_part_of_a_word_stands_for_the_word(bert):
    part = asked("buy glipizide tablets", ("u", "ablet", "pizi"))
    np.testing.assert_array_equal(agree(*bert, [part]).values, SpanReader(*bert).read([TEXTS[1]]).values)


@pytest.mark.parametrize("host", ["bert", "roberta"])
@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("cafe\u0301 Zu\u0308rich is near me", ("cafe", "Zu\u0308rich", "near")),
        ("👍🏽 and 👩\u200d👧 👍", ("👍🏽", "👍", "and")),
        ("中国京 is 中", ("国", "中", "is")),
        ("中国京 is 中", (("中", 1), "中国京", "is")),
        ("हिन्दी of 한국어", ("हिन्दी", "한국어", "of")),
    ],
)
def test_marks_emoji_and_scripts_without_spaces_stand_where_they_stand(host, text, parts):
    assert agree(tiny_host(host), tiny_tokenizer(host), [asked(text, parts)]).readable.all()


def test_a_span_outside_its_text_is_refused(bert):
    with pytest.raises(InputError, match=r"3\.\.9.*9|Span 3\.\.9"):
        SpanReader(*bert).read([RelationText("Bern", (Triple(Span(0, 4), Span(3, 9), "P1", Span(0, 4)),))])


@pytest.mark.parametrize(("wrong", "words"), [({"kind": "gradients"}, "gradients"), ({"pooling": "max"}, "'max'")])
def test_settings_that_do_not_exist_are_refused(wrong, words):
    with pytest.raises(InputError, match=words):
        FeatureSettings(**wrong)


def test_a_batch_has_at_least_one_text(bert):
    with pytest.raises(InputError, match="batch_size=0"):
        SpanReader(*bert, batch_size=0)


def test_directions_are_named_in_their_order(bert):
    text = asked("the river and the lake", ("river", "lake", "and"))
    _, maps = attention_maps(*bert, text.text)
    at = {"head": 2, "trigger": 3, "tail": 5}  # the special token stands at 0, and all words are whole tokens
    got = SpanReader(*bert).read([text]).values[0]
    for number, direction in enumerate(DIRECTIONS):
        origin, target = direction.split(">")
        by_hand = [layer[:, at[origin], at[target]] for layer in maps]
        np.testing.assert_allclose(got[..., number], by_hand, atol=1e-7)


PIECES = (
    *(
        "Bern",
        "glipizide",
        "the",
        "river",
        "a_b",
        "don't",
        "Zürich",
        "-",
        ".",
        "New",
        "York",
        "e\u0301",
        "👍🏽",
        "中国",
    ),
    *(" ", " ", " ", "  ", "\n", "\u00a0"),
)


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), pooling=st.sampled_from(("sum", "mean")), trigger=st.booleans(), batch_size=st.integers(1, 3))
def test_random_spans_of_random_texts_agree(data, pooling, trigger, batch_size):
    texts = []
    for text in data.draw(
        st.lists(st.lists(st.sampled_from(PIECES), max_size=25).map("".join), min_size=1, max_size=3)
    ):
        spans = st.tuples(st.integers(0, len(text)), st.integers(0, len(text))).map(lambda both: Span(*sorted(both)))
        triples = st.lists(st.builds(Triple, spans, spans, trigger=st.none() | spans), max_size=3)
        texts.append(RelationText(text, tuple(data.draw(triples))))
    read = agree(MODEL, TOKENIZER, texts, pooling=pooling, trigger=trigger, batch_size=batch_size)
    assert len(read.readable) == sum(len(text.triples) for text in texts)


MODEL, TOKENIZER = tiny_host("bert"), tiny_tokenizer("bert")
