"""KAR against a literal NumPy transcription of its description, and what it promises beyond every method's contract."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from methods.kar_reference import forward
from miniatures import tiny_host, tiny_tokenizer
from tiny_infusions import KNOWN_TEXT, answer, examples, infuse_tiny, loss, plain, tiny_base
from torch import Tensor, nn

import infuser
from infuser import Kar
from infuser.errors import InputError, SourceError
from infuser.methods.entity_reader import BatchMentions, Trace
from infuser.methods.kar import KarLayer, invert

BASES = ("places", "things")
SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "one head": {"n_heads": 1},
    "two heads": {"n_heads": 2},
    "inverse start": {"start": "inverse"},
    "paper's start": {"start": "paper"},
    "bases in the other order": {"layers": {"places": 2, "things": 0}},
    "bases behind one block": {"layers": {"places": 1, "things": 1}},
}


def infuse_bert(*, side: str = "right", **settings: Any) -> infuser.Infused:
    """Return a tiny BERT of three blocks with two bases of 8 and 6 dimensions, its new weights at random."""
    kar = Kar(**{"inner": 32, "scorer": 12, **settings})
    return infuse_tiny("bert", "encoder", kar, padding_side=side, num_hidden_layers=3)


def reference(infused: infuser.Infused, batch: dict[str, Tensor]) -> np.ndarray:
    """Return what the NumPy transcription makes of a batch."""
    kar = infused.method
    assert isinstance(kar, Kar)
    weights = {name: tensor.numpy() for name, tensor in infused.model.state_dict().items()}
    arrays = {name: tensor.numpy() for name, tensor in batch.items()}
    return np.stack(
        [
            forward(
                weights,
                arrays,
                example,
                n_layers=3,
                host_heads=2,
                layers=kar.layers or {"places": 0, "things": 1},
                heads={"places": math.gcd(8, kar.n_heads), "things": math.gcd(6, kar.n_heads)},
                threshold=kar.threshold,
            )
            for example in range(len(arrays["input_ids"]))
        ]
    )


def check_against_reference(infused: infuser.Infused, batch: dict[str, Tensor]) -> None:
    with torch.no_grad():
        found = answer(infused.model, batch).numpy()
        without = answer(infused.model, plain(batch)).numpy()
    expected = reference(infused, batch)
    real = batch["attention_mask"].bool().numpy()
    assert np.abs(found - expected)[real].max() < 1e-9
    assert np.abs(without - expected)[real].max() > 1e-2


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS.keys())
def test_the_module_agrees_with_a_literal_transcription_of_the_method(settings: dict[str, Any]) -> None:
    infused = infuse_bert(**settings)
    batch = infused.collator()(examples("encoder"))  # unequal lengths, pairs, a text without mentions
    assert not batch["attention_mask"].all()
    spans = batch["knowledge_places_spans"]
    owners = batch["knowledge_places_candidates"][0, :, 0][batch["knowledge_places_priors"][0] > 0]
    assert len(set(owners.tolist())) < int((spans[0, :, 1] > 0).sum())  # there are mentions without candidates
    check_against_reference(infused, batch)


def test_padding_on_the_left_agrees_with_the_transcription_too() -> None:
    infused = infuse_bert(side="left")
    batch = infused.collator()(examples("encoder"))
    assert not batch["attention_mask"][:, 0].all()
    check_against_reference(infused, batch)


@pytest.mark.parametrize("kept", ["some", "none", "all"])
def test_a_threshold_agrees_with_the_transcription_whatever_it_keeps(kept: str) -> None:
    trace = Trace()
    first = infuse_bert()
    batch = first.collator()(examples("encoder"))
    with torch.no_grad():
        first.model(**batch, knowledge_trace=trace)
    scores = torch.cat([trace.scores[base].flatten() for base in BASES])
    scores = scores[scores.isfinite()]
    threshold = {"some": scores.median(), "none": scores.max() + 100, "all": scores.min() - 100}[kept]
    infused = infuse_bert(threshold=float(threshold))
    check_against_reference(infused, batch)
    with torch.no_grad():
        infused.model(**batch, knowledge_trace=trace)
    for base in BASES:
        counts = trace.weights[base][batch[f"knowledge_{base}_priors"] > 0] > 0
        assert bool(counts.any()) is (kept != "none") and bool(counts.all()) is (kept == "all")


def test_an_example_worked_by_hand() -> None:
    # Words (0,0), (2,0), (0,4); mention A is the second, B the second and third. e = 2, one head, W1 is the identity.
    # Pooling: logits of B's words 0 and ln 3, so B = 1/4 (2,0) + 3/4 (0,4) = (.5,3); A = (2,0).
    # Norm of two numbers: A = (1,-1), B = (-1,1). Mentions look at mentions: scores +-ln 3 / 2, so shares 3/4 and 1/4;
    # A sees -4 (3/4 A + 1/4 B) = (-2,2), which makes it (-1,1), then with weights (2,1) and bias (0,.5) (-2,1.5);
    # B likewise becomes (2,-.5).
    # Candidates of both: (sqrt 2, 0) and (0, sqrt 2), so s.e/sqrt 2 is one number of s. psi = relu(2 prior + s + 1):
    #   A: 1.5 - 2 + 1 = .5 and .5 + 1.5 + 1 = 3;   B: .8 + 2 + 1 = 3.8 and 1.2 - .5 + 1 = 1.7.
    # Threshold 1: A keeps the second alone, B both, with shares 1/(1 + e^-2.1) = .8909 and .1091.
    # s': A = (-2, 2.9142), B = (3.2599, -.3457); their norm with epsilon 1: A = -+.92623, B = +-.87448.
    # Each word looks at first number times first number: (0,0) and (0,4) evenly, which gives -.025875; (2,0) with
    # shares .02656 and .97344, which gives .826652. The MLP keeps that number; back: second number 2x + 3, gate 1/2.
    settings = Kar(threshold=1.0, n_heads=1, inner=1, scorer=1, dropout=0.0)
    layer = KarLayer(2, 2, layer=0, settings=settings).double()
    eye, sqrt2 = [[1.0, 0.0], [0.0, 1.0]], math.sqrt(2)
    given: dict[str, Any] = {
        "project.weight": eye,
        "linker.pooling.weight": [[0.0, math.log(3) / 4]],
        "linker.block.attention.query.weight": [[math.log(3) / sqrt2, 0.0], [0.0, 0.0]],
        "linker.block.attention.key.weight": [[1.0, 0.0], [0.0, 0.0]],
        "linker.block.attention.value.weight": [[-4.0, 0.0], [0.0, -4.0]],
        "linker.block.attention.out.weight": eye,
        "linker.block.norm.weight": [2.0, 1.0],
        "linker.block.norm.bias": [0.0, 0.5],
        "linker.scorer.0.weight": [[2.0, 1.0]],
        "linker.scorer.0.bias": [1.0],
        "linker.scorer.2.weight": [[1.0]],
        "attention.query.weight": [[sqrt2, 0.0], [0.0, 0.0]],
        "attention.key.weight": [[1.0, 0.0], [0.0, 0.0]],
        "attention.value.weight": eye,
        "attention.out.weight": eye,
        "feed_forward.0.weight": [[1.0, 0.0]],
        "feed_forward.0.bias": [10.0],  # so far out, a gelu is the identity
        "feed_forward.2.weight": [[1.0], [0.0]],
        "feed_forward.2.bias": [-10.0, 0.0],
        "back.weight": [[0.0, 0.0], [2.0, 0.0]],
        "back.bias": [0.0, 3.0],
        "gate": 0.5,
    }
    with torch.no_grad():
        for name, weight in layer.named_parameters():
            if name in given:
                weight.copy_(torch.tensor(given.pop(name), dtype=torch.float64))
            elif not name.endswith("norm.weight"):
                weight.zero_()
    assert not given
    for module in layer.modules():
        if isinstance(module, nn.LayerNorm):
            module.eps = 0.0
    layer.entity_norm.eps = 1.0
    found = BatchMentions(
        spans=torch.tensor([[[1, 2], [1, 3]]]),
        candidates=torch.tensor([[[0, 0], [0, 1], [1, 0], [1, 1]]]),
        priors=torch.tensor([[0.75, 0.25, 0.4, 0.6]], dtype=torch.float64),
        vectors=torch.tensor([[[sqrt2, 0.0], [0.0, sqrt2]]], dtype=torch.float64),
    )
    trace = Trace()
    states = torch.tensor([[[0.0, 0.0], [2.0, 0.0], [0.0, 4.0]]], dtype=torch.float64)
    read = layer(states, found, ("base", trace))
    for told, expected in (
        (trace.scores["base"], [[0.5, 3.0, 3.8, 1.7]]),
        (trace.weights["base"], [[0.0, 1.0, 0.890903178804, 0.109096821196]]),
        (read, [[[0.0, 1.474125009374], [2.0, 2.326652411248], [0.0, 5.474125009374]]]),
    ):
        torch.testing.assert_close(told, torch.tensor(expected, dtype=torch.float64), atol=1e-9, rtol=0)


@pytest.mark.parametrize("size", [12, 32, 50], ids=["smaller", "as large", "larger"])
def test_the_inverse_start_brings_projected_words_back(size: int) -> None:
    torch.manual_seed(0)
    project, back = nn.Linear(32, size), nn.Linear(size, 32)
    invert(project, back)
    states = torch.randn(40, 32)
    projected = project(states)
    again = project(back(projected))
    assert (again - projected).norm() < 1e-5 * projected.norm()
    if size >= 32:  # nothing was lost on the way
        assert (back(projected) - states).norm() < 1e-4 * states.norm()
    with torch.no_grad():  # with the other sign of the bias it does not come back
        wrong = project(projected @ back.weight.T - back.bias)
    assert (wrong - projected).norm() > 1e-2 * projected.norm()


@pytest.mark.parametrize(("start", "changes"), [("zero", False), ("inverse", False), ("paper", True)])
def test_only_the_papers_start_changes_the_answer_at_once(start: Any, changes: bool) -> None:
    infused = infuse_tiny("bert", "encoder", Kar(start=start), shaken=False)
    batch = infused.batch([KNOWN_TEXT])
    with torch.no_grad():
        change = (answer(infused.model, batch) - answer(infused.model, plain(batch))).abs().max()
    assert bool(change > 1e-3) is changes and (changes or change <= 1e-12)


# Several knowledge bases


def test_a_base_that_is_taken_out_leaves_the_other_exactly_as_it_was(tmp_path: Path) -> None:
    infused = infuse_bert()
    batch = infused.collator()(examples("encoder"))
    only_things = {name: tensor for name, tensor in batch.items() if "places" not in name}
    only_places = {name: tensor for name, tensor in batch.items() if "things" not in name}
    with torch.no_grad():
        expected, other = answer(infused.model, only_things), answer(infused.model, only_places)
        assert not torch.equal(answer(infused.model, batch), expected)
        left = infused.without("places")
        assert left.method == replace(infused.method, layers={"things": 1})  # type: ignore[type-var]
        assert torch.equal(answer(left.model, batch), expected)
        assert torch.equal(answer(left.model, left.collator()(examples("encoder"))), expected)
        assert not torch.equal(expected, other)
        left.save(tmp_path / "left")
        again = infuser.load(tmp_path / "left", sources=left.sources)
        assert torch.equal(answer(again.model, batch), expected)
    assert not [name for name in left.model.state_dict() if "places" in name]
    with pytest.raises(InputError, match=r"'places'.*it has 'things'"):
        left.without("places")
    with pytest.raises(InputError, match=r"only knowledge base.*detach\(\)"):
        left.without("things")


def test_a_frozen_base_stays_while_the_other_learns() -> None:
    infused = infuse_bert()
    batch = infused.collator()(examples("encoder"))
    infused.freeze("places")
    loss(infused.model, batch, "encoder").backward()
    gradients = {name: weight.grad for name, weight in infused.model.knowledge.named_parameters()}
    assert all((gradient is None) is name.startswith("places.") for name, gradient in gradients.items())
    assert all(gradient.abs().max() > 0 for gradient in gradients.values() if gradient is not None)
    infused.freeze("places", frozen=False)
    loss(infused.model, batch, "encoder").backward()
    assert all(weight.grad is not None for weight in infused.model.knowledge.parameters())
    with pytest.raises(InputError, match="'peoples'"):
        infused.freeze("peoples")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"layers": {"places": 0}}, "does not name"),
        ({"layers": {"places": 0, "things": 3}}, "3 blocks, 0 to 2"),
        ({"layers": {"places": 0.5, "things": 1}}, "0.5"),
        ({"start": "random"}, "'random'"),
        ({"dropout": 1.0}, "dropout"),
        ({"n_heads": 0}, "n_heads=0"),
        ({"threshold": math.nan}, "nan"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        infuse_bert(**settings)


def test_more_bases_than_blocks_need_places() -> None:
    bases = [tiny_base(f"base{number}") for number in range(3)]
    with pytest.raises(InputError, match="3 knowledge bases do not fit behind 2 blocks"):
        infuser.infuse(tiny_host("bert"), Kar(), sources=bases, tokenizer=tiny_tokenizer("bert"))
    layers = {base.name: 1 for base in bases}
    infused = infuser.infuse(tiny_host("bert"), Kar(layers=layers), sources=bases, tokenizer=tiny_tokenizer("bert"))
    assert [kar.layer for kar in infused.model.knowledge.children()] == [1, 1, 1]


def test_a_base_cannot_be_called_like_something_of_torch() -> None:
    with pytest.raises(SourceError, match="'type'"):
        infuser.infuse(tiny_host("bert"), Kar(), sources=[tiny_base("type")], tokenizer=tiny_tokenizer("bert"))


def test_sources_without_vectors_are_refused() -> None:
    sources = [tiny_base(), infuser.Entities.tiny()]
    with pytest.raises(SourceError, match="Entities has no entity vectors"):
        infuser.infuse(tiny_host("bert"), Kar(), sources=sources, tokenizer=tiny_tokenizer("bert"))


def test_vectors_of_another_size_are_told_before_anything_is_multiplied() -> None:
    infused = infuse_bert()
    bases = (tiny_base("places", dim=5), tiny_base("things", dim=6))
    with pytest.raises(SourceError, match="cannot take their place"):
        infused.with_sources(bases)
    other = replace(infused, sources=bases)  # past the first check
    with pytest.raises(InputError, match=r"'places' have 5 numbers each.*vectors of 8"):
        other.model(**other.batch([KNOWN_TEXT]))
