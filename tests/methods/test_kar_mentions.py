"""Mentions and candidates inside KAR: what a layer makes of them, what never matters, and what a call tells."""

from __future__ import annotations

import gc
import math
import weakref

import pytest
import torch
from miniatures import HOSTS
from tiny_infusions import answer, examples, infuse_tiny, loss, plain
from torch import Tensor

import infuser
from infuser import Kar
from infuser.hosts import anatomy_of
from infuser.methods.entity_reader import BatchMentions, Trace, trace_candidates
from infuser.methods.kar import KarLayer

BASES = ("places", "things")


def infuse_bert(threshold: float = 0.0) -> infuser.Infused:
    """Return a tiny BERT of three blocks with two bases, its new weights at random."""
    return infuse_tiny("bert", "encoder", Kar(inner=32, scorer=12, threshold=threshold), num_hidden_layers=3)


def some_layer() -> KarLayer:
    torch.manual_seed(0)
    layer = KarLayer(16, 8, layer=0, settings=Kar(start="paper", inner=16, scorer=6)).double().eval()
    with torch.no_grad():
        for weight in layer.parameters():
            weight.add_(torch.randn_like(weight) * 0.3)
    return layer


def some_found() -> tuple[Tensor, BatchMentions]:
    """Return states of two texts, and mentions in the first; its second mention has no candidates."""
    torch.manual_seed(1)
    found = BatchMentions(
        spans=torch.tensor([[[1, 3], [4, 5], [2, 6]], [[0, 0], [0, 0], [0, 0]]]),
        candidates=torch.tensor([[[0, 0], [0, 2], [2, 1], [2, 0]], [[0, 0], [0, 0], [0, 0], [0, 0]]]),
        priors=torch.tensor([[0.7, 0.3, 0.5, 0.5], [0.0, 0.0, 0.0, 0.0]]),
        vectors=torch.randn(2, 3, 8, dtype=torch.float64) * torch.tensor([1.0, 0.0])[:, None, None],
    )
    return torch.randn(2, 9, 16, dtype=torch.float64), found


def test_a_mention_is_made_of_its_own_words() -> None:
    layer, (states, found) = some_layer(), some_found()
    words = layer.project(states)
    outside, inside = words.clone(), words.clone()
    outside[:, [0, 6, 7, 8]] += 5.0
    inside[:, 4] += 5.0
    mentions, scores = layer.linker(words, found)
    same = layer.linker(outside, found)
    assert torch.equal(same[0][0], mentions[0]) and torch.equal(same[1][0], scores[0])
    assert (layer.linker(inside, found)[0][0] - mentions[0]).abs().max() > 1e-3


def test_a_text_without_mentions_is_left_bit_for_bit() -> None:
    layer, (states, found) = some_layer(), some_found()
    read = layer(states, found, None)
    assert torch.equal(read[1], states[1])
    assert (read[0] - states[0]).abs().max() > 1e-2


def test_padding_never_matters() -> None:
    layer, (states, found) = some_layer(), some_found()
    more = BatchMentions(
        spans=torch.cat([found.spans, torch.tensor([[[5, 5], [7, 2], [0, 0]]]).expand(2, 3, 2)], dim=1),
        candidates=torch.cat([found.candidates, torch.tensor([[[0, 0], [5, 4]]]).expand(2, 2, 2)], dim=1),
        priors=torch.cat([found.priors, torch.zeros(2, 2)], dim=1),
        vectors=torch.cat([found.vectors, torch.randn(2, 2, 8, dtype=torch.float64)], dim=1),
    )
    torch.testing.assert_close(layer(states, more, None), layer(states, found, None), atol=1e-12, rtol=0)


def test_the_order_of_mentions_candidates_and_vectors_does_not_matter() -> None:
    layer, (states, found) = some_layer(), some_found()
    spans, vectors, listed = torch.tensor([2, 0, 1]), torch.tensor([1, 2, 0]), torch.tensor([3, 1, 0, 2])
    moved = torch.stack([spans.argsort()[found.candidates[..., 0]], vectors.argsort()[found.candidates[..., 1]]], -1)
    other = BatchMentions(found.spans[:, spans], moved[:, listed], found.priors[:, listed], found.vectors[:, vectors])
    torch.testing.assert_close(layer(states, other, None), layer(states, found, None), atol=1e-12, rtol=0)


@pytest.mark.parametrize("found", ["nothing", "mentions without candidates"])
def test_zero_candidates_everywhere_do_no_harm(found: str) -> None:
    infused = infuse_bert()
    infused.model.train()
    texts = ["cheap medicine", "a blue house"] if found == "nothing" else ["he lies", "cheap tablets"]
    batch = infused.batch(texts)
    assert not any(batch[f"knowledge_{base}_priors"].any() for base in BASES)
    assert bool(batch["knowledge_places_spans"].any()) is (found != "nothing")
    loss(infused.model, batch, "encoder").backward()
    assert all(w.grad is None or w.grad.isfinite().all() for w in infused.model.parameters())
    assert bool(infused.model.knowledge["places"].null.grad.abs().max() > 0) is (found != "nothing")
    infused.model.eval()
    with torch.no_grad():
        told = answer(infused.model, batch)
        assert torch.equal(told, answer(infused.model, plain(batch))) is (found == "nothing")
    assert told.isfinite().all()


# What a call tells


def test_a_trace_tells_scores_and_shares_and_nothing_stays_in_the_model() -> None:
    infused, trace = infuse_bert(), Trace()
    batch = infused.collator()(examples("encoder"))
    with torch.no_grad():
        infused.model(**batch, knowledge_trace=trace)
    known = trace.scores["places"][trace.scores["places"].isfinite()]
    threshold = float(known.sort().values[len(known) * 3 // 4])  # a score that is just high enough
    infused = infuse_bert(threshold)
    before = {name: sorted(vars(module)) for name, module in infused.model.named_modules()}
    trace = Trace()
    with torch.no_grad():
        told = answer(infused.model, {**batch, "knowledge_trace": trace})
        assert torch.equal(answer(infused.model, batch), told)
    for base in BASES:
        candidates, priors = batch[f"knowledge_{base}_candidates"], batch[f"knowledge_{base}_priors"]
        scores, weights = trace.scores[base], trace.weights[base]
        assert scores.shape == weights.shape == priors.shape
        assert torch.equal(scores == -math.inf, priors == 0)
        assert torch.equal(weights > 0, scores >= threshold)
        assert base == "things" or (scores == threshold).any()
        kept_some = set()
        for text, place, score in zip(*torch.nonzero(priors).T.tolist(), scores[priors > 0].tolist(), strict=True):
            owner = int(candidates[text, place, 0])
            mine = (candidates[text, :, 0] == owner) & (priors[text] > 0)
            kept = bool((scores[text, mine] >= threshold).any())
            kept_some.add(kept)
            assert float(weights[text, mine].sum()) == pytest.approx(1.0 if kept else 0.0, abs=1e-12)
            assert math.isfinite(score)
        assert kept_some == {True, False}
    assert {name: sorted(vars(module)) for name, module in infused.model.named_modules()} == before
    held = weakref.ref(batch["knowledge_places_vectors"])
    del batch, trace, told, scores, weights, candidates, priors
    gc.collect()
    assert held() is None


@pytest.mark.parametrize("host", HOSTS)
def test_a_call_that_stops_behind_its_linkers_tells_the_same_and_leaves_nothing_behind(host: str) -> None:
    infused = infuse_tiny(host, "encoder", "kar", num_hidden_layers=4)
    batch, trace = infused.collator()(examples("encoder")), Trace()
    passed: list[int] = []
    blocks = anatomy_of(infused.model).blocks(infused.model.base_model)
    blocks[-1].register_forward_hook(lambda *_: passed.append(1))
    with torch.no_grad():
        told = answer(infused.model, {**batch, "knowledge_trace": trace})
        n_passed = len(passed)
        stopped = trace_candidates(infused.model, batch)
        assert len(passed) < 2 * n_passed
        for base in BASES:
            torch.testing.assert_close(stopped.scores[base], trace.scores[base], atol=0, rtol=0)
        assert torch.equal(answer(infused.model, batch), told)
