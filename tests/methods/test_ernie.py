"""ERNIE-style fusion against a literal NumPy transcription, which entities it takes, and its settings one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gradients import assert_compiled_model_learns_alike, gradients, without_dropout
from hypothesis import given, settings
from hypothesis import strategies as st
from methods.ernie_reference import entities_of, forward
from miniatures import Repeats, tiny_host, tiny_tokenizer
from tiny_infusions import KNOWN_TEXT, Meanings, answer, infuse_tiny, loss, plain, real_part, shake, tiny_base
from torch import Tensor
from transformers import BertConfig, BertModel, PreTrainedModel

import infuser
from infuser import Candidates, EntityVectors, Ernie, KnowledgeBase
from infuser.errors import InputError, SourceError
from infuser.hosts import is_new_weight
from infuser.methods.entity_reader import BatchMentions, Trace
from infuser.methods.ernie import EntityStream, align_entities
from infuser.types import Vocabulary

TEXTS = [KNOWN_TEXT, "cheap medicine", "buy glipizide near the old bridge"]
PAIRS = ["the bridge of the town", None, "a pharmacy in the city of Bern"]


def infuse_bert(*, shaken: bool = True, host: dict[str, Any] | None = None, **changes: Any) -> infuser.Infused:
    """Return a tiny BERT of four blocks with fusions between them, for two knowledge bases."""
    settings = {"first_layer": 0, **changes}
    return infuse_tiny("bert", method=Ernie(**settings), shaken=shaken, **{"num_hidden_layers": 4, **(host or {})})


def attach(method: Ernie, host: PreTrainedModel, sources: list[Any]) -> None:
    method.attach(host, sources=sources, vocabulary=Vocabulary.of(sources))


def states_of(infused: infuser.Infused, batch: dict[str, Tensor]) -> Tensor:
    with torch.no_grad():
        return real_part(answer(infused.model, batch), batch, "encoder")


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"start": "zero"},
        {"first_layer": None},
        {"n_heads": 1, "inner": 5},
        {"min_prior": 0.7},
        {"bypass_empty": True, "first_layer": 1},
    ],
    ids=["default", "start of zeros", "upper half", "small", "sure entities", "bypass"],
)
def test_the_method_agrees_with_a_literal_transcription(changes: dict[str, Any]) -> None:
    infused = infuse_bert(**changes)
    ernie = infused.method
    assert isinstance(ernie, Ernie)
    batch = infused.batch(TEXTS, PAIRS)
    weights = {name: tensor.numpy() for name, tensor in infused.model.state_dict().items()}
    arrays = {name: tensor.numpy() for name, tensor in batch.items()}
    found = states_of(infused, batch).numpy()
    for example in range(len(TEXTS)):
        expected = forward(
            weights,
            arrays,
            example,
            bases={"places": min(4, ernie.n_heads), "things": min(2, ernie.n_heads)},  # 4 and 2 divide 8 and 6
            layers=ernie.places(infused.model),
            n_layers=4,
            min_prior=ernie.min_prior,
            bypass_empty=ernie.bypass_empty,
        )
        real = arrays["attention_mask"][example].astype(bool)
        assert np.abs(found[example][real] - expected[real]).max() <= 1e-9
    assert np.abs(found - states_of(infused, plain(batch)).numpy()).max() > 1e-2


def test_an_example_worked_by_hand() -> None:
    # All weights are identities, entities do not look at each other (out = 0), the gate is half open.
    # e = (sqrt 2, 0) has the norm (1, -1); on w = (1, 0, -1): u = gelu(2, -1, -1) = (1.9545, -.1587, -.1587), and
    # w + u = (2.9545, -.1587, -1.1587) has the norm (1.3753, -.4022, -.9731), so w' = (1.1876, -.2011, -.9866).
    # Without an entity, w = (0, 1, 2): u = (0, .8413, 1.9545), w + u = (0, 1.8413, 3.9545) has the norm
    # (-1.1957, -.0561, 1.2518), so w' = (-.5979, .4720, 1.6259).
    stream = EntityStream(3, 2, layers=range(1), settings=Ernie(n_heads=1, dropout=0.0)).double()
    fusion: Any = stream.fusions[0]
    with torch.no_grad():
        for weight in stream.parameters():
            weight.copy_(torch.eye(*weight.shape)) if weight.ndim == 2 else weight.zero_()
        for layer_norm in (fusion.attention_norm, fusion.word_norm):
            layer_norm.weight.fill_(1.0)
        fusion.attention.out.weight.zero_()
        fusion.gate.fill_(0.5)
    words = torch.tensor([[[1.0, 0.0, -1.0], [0.0, 1.0, 2.0]]], dtype=torch.float64)
    vectors = torch.tensor([[[2**0.5, 0.0]]], dtype=torch.float64)
    found = BatchMentions(torch.tensor([[[0, 1]]]), torch.tensor([[[0, 0]]]), torch.ones(1, 1), vectors)
    fused, entities = stream(0, words, vectors, align_entities(found))
    assert entities is None  # nobody would read what the last fusion makes of them
    expected = [[1.18763, -0.20108, -0.98655], [-0.59787, 0.47196, 1.62591]]
    torch.testing.assert_close(fused[0], torch.tensor(expected, dtype=torch.float64), atol=5e-5, rtol=0)


# Which entities it takes.


def entities_in(text: str, mentions: dict[str, dict[str, float]], **changes: Any) -> list[tuple[str, str]]:
    """Return the words of each mention that got an entity, and which: the trace of a call tells."""
    ids = sorted({id for entities in mentions.values() for id in entities})
    vectors = np.random.default_rng(0).normal(size=(len(ids), 4))
    base = KnowledgeBase(Candidates(mentions), EntityVectors.of(ids, vectors))
    infused = infuser.infuse(tiny_host("bert"), Ernie(**changes), sources=[base], tokenizer=tiny_tokenizer("bert"))
    trace = Trace()
    infused.model(**infused.batch([text]), knowledge_trace=trace)
    flat = [
        (text[span.start : span.end], candidate.id, candidate.prior)
        for found in base.annotate([text])
        for span, candidates in zip(found.spans, found.candidates, strict=True)
        for candidate in candidates
    ]
    assert trace.scores["base"][0, : len(flat)].tolist() == pytest.approx([prior for _, _, prior in flat])
    return [flat[place][:2] for place in trace.weights["base"][0].nonzero()[:, 0].tolist()]


def test_a_mention_gets_its_most_probable_candidate() -> None:
    mentions = {"bridge": {"Q2": 5, "Q3": 2, "Q1": 9}, "river": {"Q7": 1, "Q8": 3}}
    assert entities_in("the bridge on the river", mentions) == [("bridge", "Q1"), ("river", "Q8")]


def test_of_mentions_that_overlap_the_longest_has_the_entity() -> None:
    mentions = {"old bridge": {"Q1": 1}, "bridge": {"Q2": 1}, "old": {"Q3": 1}, "old bridge of the town": {"Q4": 1}}
    assert entities_in("the old bridge", mentions) == [("old bridge", "Q1")]
    assert entities_in("the old bridge of the town", mentions) == [("old bridge of the town", "Q4")]


def test_mentions_that_only_share_a_word_keep_both_entities() -> None:
    mentions = {"old bridge": {"Q1": 1}, "bridge of the town": {"Q2": 1}}
    found = entities_in("the old bridge of the town", mentions)
    assert sorted(found) == [("bridge of the town", "Q2"), ("old bridge", "Q1")]


def test_an_entity_that_is_not_sure_enough_leaves_its_mention_to_those_inside_it() -> None:
    mentions = {"old bridge": {"Q1": 7, "Q2": 3}, "bridge": {"Q3": 1}}
    assert entities_in("the old bridge", mentions, min_prior=0.7) == [("old bridge", "Q1")]
    assert entities_in("the old bridge", mentions, min_prior=0.71) == [("bridge", "Q3")]


def test_what_is_cut_off_has_no_entity() -> None:
    infused = infuse_bert()
    whole = f"the river and {'a small house ' * 30}of Bern"
    batch = infused.batch([whole])
    assert batch["input_ids"].shape[1] == 64
    assert int((batch["knowledge_places_spans"][..., 1] > 0).sum()) == 1  # Bern lies beyond the end
    cut = infused.batch([whole.removesuffix(" of Bern")])
    assert torch.equal(states_of(infused, batch)[:, :60], states_of(infused, cut)[:, :60])


spans_and_priors = st.lists(
    st.tuples(st.integers(0, 7), st.integers(1, 4), st.lists(st.sampled_from([0.1, 0.3, 0.7, 1.0]), max_size=3)),
    min_size=1,
    max_size=7,
)


@settings(max_examples=60, deadline=None)
@given(spans_and_priors, st.sampled_from([0.0, 0.3, 0.7]))
def test_entities_are_those_of_the_literal_rule(mentions: list[tuple[int, int, list[float]]], min_prior: float) -> None:
    flat = [(place, prior) for place, (_, _, priors) in enumerate(mentions) for prior in sorted(priors, reverse=True)]
    n = max(1, len(flat))
    spans = np.array([[[start, start + length] for start, length, _ in mentions]])
    candidates, priors = np.zeros((1, n, 2), int), np.zeros((1, n), np.float32)
    for i, (place, prior) in enumerate(flat):
        candidates[0, i], priors[0, i] = (place, i), prior
    vectors = 1 + np.arange(n, dtype=float)[None, :, None]
    arrays = {"spans": spans, "candidates": candidates, "priors": priors, "vectors": vectors}
    aligned = align_entities(
        BatchMentions(**{part: torch.from_numpy(array) for part, array in arrays.items()}), min_prior
    )
    found = [
        (int(aligned.starts[0, i]), float(aligned.vectors[0, i, 0]))
        for i in range(len(mentions))
        if aligned.is_entity[0, i]
    ]
    batch = {f"knowledge_base_{part}": array for part, array in arrays.items()}
    expected = entities_of(batch, 0, "base", min_prior)
    assert sorted(found) == [(start, float(vector[0])) for start, vector in expected.items()]


# Settings, one by one.


def test_a_text_without_entities_is_fused_too_unless_told_otherwise() -> None:
    for changes, bypassed in (({}, False), ({"bypass_empty": True}, True)):
        infused = infuse_bert(**changes)
        batch = infused.batch([KNOWN_TEXT, "cheap medicine", "the lake lies near the house"])
        assert not (batch["knowledge_places_priors"][1:] > 0).any()  # "lies" is a mention that means nothing
        change = (states_of(infused, batch) - states_of(infused, plain(batch))).abs().amax((1, 2))
        assert change[0] > 1e-2
        assert (change[1:] == 0).all() if bypassed else (change[1:] > 1e-2).all()


def test_layers_below_the_first_one_stay_as_they_are() -> None:
    infused = infuse_bert(first_layer=2)
    batch = infused.batch([KNOWN_TEXT])
    with torch.no_grad():
        states = infused.model(**batch, output_hidden_states=True).hidden_states
        before = infused.model(**plain(batch), output_hidden_states=True).hidden_states
    assert all(torch.equal(states[i], before[i]) for i in range(3))
    assert (states[3] - before[3]).abs().max() > 1e-2


def test_an_entity_reaches_all_words_but_first_its_own() -> None:
    infused = infuse_bert(host={"num_hidden_layers": 2})
    batch = infused.batch([KNOWN_TEXT])
    other = {**batch, "knowledge_places_vectors": batch["knowledge_places_vectors"] * 0.5}
    with torch.no_grad():
        one, two = (infused.model(**b, output_hidden_states=True).hidden_states for b in (batch, other))
    places = {1 + KNOWN_TEXT.split().index(word) for word in ("old", "river")} | {6}  # old bridge, old town, river
    changed = (one[1] - two[1])[0].abs().amax(-1) > 1e-12
    assert set(changed.nonzero()[:, 0].tolist()) == places
    assert ((one[2] - two[2])[0].abs().amax(-1) > 1e-6).all()


def test_fusions_stand_behind_the_upper_half_of_the_blocks() -> None:
    places = {n: Ernie().places(tiny_host("bert", num_hidden_layers=n)) for n in (2, 3, 6, 12)}
    assert places == {2: range(1), 3: range(1, 2), 6: range(2, 5), 12: range(5, 11)}


def test_the_number_of_new_weights_follows_the_settings() -> None:
    hidden, size, inner = 16, 8, 5
    host = tiny_host("bert", num_hidden_layers=3)
    attach(Ernie(first_layer=0, inner=inner), host, [tiny_base()])
    attention = 4 * size * size + 3 * size + 2 * size  # one bias less, and the norm
    words = hidden * inner + inner + size * inner + inner * hidden + hidden + 2 * hidden + 1  # and the gate
    back = inner * size + size + 2 * size  # not behind the last fusion
    new = sum(weight.numel() for name, weight in host.named_parameters() if is_new_weight(name))
    assert new == 2 * (attention + words) + back


def test_bert_base_gets_as_many_new_weights_as_the_docs_say() -> None:
    with torch.device("meta"):
        host = BertModel(BertConfig())
        attach(Ernie(), host, [tiny_base(dim=100)])
    assert sum(weight.numel() for name, weight in host.named_parameters() if is_new_weight(name)) == 8_185_626


def test_dropout_is_applied_in_training_only() -> None:
    infused = infuse_bert(dropout=0.5, host={"num_hidden_layers": 2})
    infused.model.config.attention_probs_dropout_prob = 0.0
    batch = infused.batch([KNOWN_TEXT])
    assert torch.equal(answer(infused.model, batch), answer(infused.model, batch))
    infused.model.base_model.knowledge.train()
    assert not torch.equal(answer(infused.model, batch), answer(infused.model, batch))


@pytest.mark.parametrize(("start", "first"), [("gate", (".gate",)), ("zero", ("to_words.weight", "to_words.bias"))])
def test_both_starts_change_nothing_and_let_every_weight_of_every_fusion_learn(start: str, first: tuple[str]) -> None:
    infused = infuse_bert(shaken=False, dropout=0.0, start=start)
    batch = infused.batch([KNOWN_TEXT], ["the old pharmacy of Bern"])
    assert torch.equal(states_of(infused, batch), states_of(infused, plain(batch)))
    new = {name: weight for name, weight in infused.model.named_parameters() if is_new_weight(name)}
    loss(infused.model, batch, "encoder").backward()
    learn_first = {name for name, weight in new.items() if weight.grad.abs().max() > 0}
    assert learn_first == {name for name in new if name.endswith(first)}
    with torch.no_grad():
        for name in learn_first:
            new[name] -= 0.1 * new[name].grad.sign()
    infused.model.zero_grad()
    loss(infused.model, batch, "encoder").backward()
    for name, weight in new.items():
        assert weight.grad.abs().max() > 1e-9, name


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"start": "paper"}, "start='paper'"),
        ({"n_heads": 0}, "n_heads=0"),
        ({"inner": 0}, "inner=0"),
        ({"dropout": 1.0}, "dropout=1.0"),
        ({"min_prior": 1.5}, "min_prior=1.5"),
        ({"min_prior": float("nan")}, "min_prior=nan"),
    ],
)
def test_a_setting_out_of_range_is_named(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        Ernie(**changes)


def test_a_first_layer_without_a_block_above_is_refused() -> None:
    with pytest.raises(InputError, match=r"first_layer=1.*this host has 2. Choose a first_layer from 0 to 0"):
        attach(Ernie(first_layer=1), tiny_host("bert"), [tiny_base()])
    with pytest.raises(InputError, match="only one"):
        attach(Ernie(), tiny_host("bert", num_hidden_layers=1), [tiny_base()])


def test_sources_without_vectors_are_refused() -> None:
    def put_in(*sources: Any) -> None:
        infuser.infuse(tiny_host("bert"), Ernie(), sources=sources, tokenizer=tiny_tokenizer("bert"))

    with pytest.raises(SourceError, match="ernie puts entities inside an encoder, but Repeats has no entity vectors"):
        put_in(tiny_base(), Repeats())
    with pytest.raises(SourceError, match=r"Meanings has no entity vectors.*Types\(\)"):
        put_in(Meanings())
    with pytest.raises(SourceError, match=r"Ernie puts entities .* none of the sources has entity vectors"):
        attach(Ernie(), tiny_host("bert"), [Meanings()])


# Two knowledge bases, saving, loading.


def test_two_bases_are_saved_and_loaded_with_their_settings(tmp_path: Path) -> None:
    sources = [KnowledgeBase.tiny(), KnowledgeBase(Candidates.tiny(), _of_size(6), "things")]
    host = tiny_host("bert", num_hidden_layers=3)
    ernie = Ernie(first_layer=0, inner=7, min_prior=0.65, bypass_empty=True)
    infused = infuser.infuse(host, ernie, sources=sources, tokenizer=tiny_tokenizer("bert"))
    shake(infused.model)
    infused.save(tmp_path / "saved")
    loaded = infuser.load(tmp_path / "saved")
    assert loaded.method == ernie and [base.name for base in loaded.sources] == ["base", "things"]  # type: ignore[attr-defined]
    texts = ["Bern has a shop", "New York lies on the Aare", "cheap medicine"]
    expected = states_of(infused, infused.batch(texts))
    assert torch.equal(states_of(loaded, loaded.batch(texts)), expected)
    assert (expected - states_of(infused, plain(infused.batch(texts)))).abs().max() > 1e-2


def _of_size(dim: int) -> EntityVectors:
    store = KnowledgeBase.tiny().store
    ids = [store.id_of(row) for row in range(len(store))]
    return EntityVectors.of(ids, np.random.default_rng(1).normal(size=(len(ids), dim)))


def test_a_base_that_is_not_in_the_batch_has_no_say() -> None:
    infused = infuse_bert()
    batch = infused.batch(TEXTS)
    without = {name: tensor for name, tensor in batch.items() if "_things_" not in name}
    alone = states_of(infused, without)
    assert (alone - states_of(infused, batch)).abs().max() > 1e-3
    del infused.model.base_model.knowledge["things"]
    assert torch.equal(states_of(infused, batch), alone)


def test_one_base_can_be_frozen() -> None:
    infused = infuse_bert()
    infused.freeze("things")
    loss(infused.model, infused.batch([KNOWN_TEXT]), "encoder").backward()
    learned = {name.split(".")[1] for name, w in infused.model.named_parameters() if _learned(name, w)}
    assert learned == {"places"}


def _learned(name: str, weight: Tensor) -> bool:
    return is_new_weight(name) and weight.grad is not None


# It works where transformers works.


def infuse_for_training(n_layers: int = 4) -> tuple[infuser.Infused, dict[str, Tensor]]:
    """Return a model in training mode whose dropout drops nothing, so that it can be compared."""
    infused = without_dropout(infuse_bert(dropout=0.0, host={"num_hidden_layers": n_layers}))
    return infused, infused.batch(TEXTS, PAIRS)


def test_gradient_checkpointing_gives_the_same_gradients() -> None:
    infused, batch = infuse_for_training()
    expected = gradients(infused.model, batch, "encoder")
    assert any("to_entities" in name for name in expected)  # the entity stream leads from layer to layer
    infused.model.gradient_checkpointing_enable()
    assert infused.model.is_gradient_checkpointing
    found = gradients(infused.model, batch, "encoder")
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, atol=1e-12, rtol=1e-9, msg=name)


def test_reentrant_checkpointing_is_refused_where_it_would_lose_the_entity_stream() -> None:
    infused, batch = infuse_for_training()
    infused.model.gradient_checkpointing_enable({"use_reentrant": True})
    with pytest.raises(InputError, match="use_reentrant"):
        gradients(infused.model, batch, "encoder")
    with torch.no_grad():
        infused.model(**batch)


def test_bf16_autocast_is_close_and_trains() -> None:
    infused = infuse_bert(host={"initializer_range": 0.1})
    infused.model.float()
    batch = infused.batch(TEXTS, PAIRS)
    exact = states_of(infused, batch)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = states_of(infused, batch)
        loss(infused.model, batch, "encoder").backward()
    assert (found - exact).norm() < 0.05 * exact.norm()
    for name, weight in infused.model.named_parameters():
        if is_new_weight(name):
            assert weight.grad is not None and weight.grad.isfinite().all() and weight.grad.dtype == torch.float32, name


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_model_in_half_precision_reads_entities(dtype: torch.dtype) -> None:
    infused = infuse_bert(min_prior=0.75, host={"initializer_range": 0.1})
    batch = infused.batch(TEXTS, PAIRS)
    exact = states_of(infused, batch)
    infused.model.to(dtype)
    found = states_of(infused, batch)
    assert found.dtype == dtype
    assert (found.double() - exact).norm() < 0.05 * exact.norm()


@pytest.mark.slow  # dynamo takes its time for the first model of a process
def test_torch_compile_gives_the_same_answer_and_gradients() -> None:
    infused, batch = infuse_for_training(3)
    told = states_of(infused, batch)
    compiled = assert_compiled_model_learns_alike(infused, batch, "encoder")
    with torch.no_grad():
        torch.testing.assert_close(real_part(answer(compiled, batch), batch, "encoder"), told, atol=1e-10, rtol=1e-7)


def test_attentions_come_out_for_every_layer() -> None:
    infused = infuse_bert(host={"attn_implementation": "eager"})  # transformers tells them under no other
    batch = infused.batch(TEXTS, PAIRS)
    with torch.no_grad():
        out = infused.model(**batch, output_attentions=True)
        without = infused.model(**plain(batch), output_attentions=True)
    assert len(out.attentions) == 4
    torch.testing.assert_close(real_part(out.last_hidden_state, batch, "encoder"), states_of(infused, batch))
    assert torch.equal(out.attentions[0], without.attentions[0])  # the first fusion stands behind it
    assert all((out.attentions[i] - without.attentions[i]).abs().max() > 1e-3 for i in range(1, 4))
