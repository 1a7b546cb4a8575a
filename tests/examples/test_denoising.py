"""dEA: entities are disturbed as told, the original is the target, and guessing it can be learned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from denoising import Denoising, DenoisingObjective, corrupt_entities, entities_in
from miniatures import HOSTS, WORDS, tiny_host, tiny_tokenizer
from tiny_infusions import KNOWN_TEXT, examples, infuse_tiny
from torch import Tensor

import infuser
from infuser import Candidates, EntityVectors, Ernie, KnowledgeBase, TrainSettings, train
from infuser.errors import InputError
from infuser.hosts import is_new_weight

TEXTS = [KNOWN_TEXT, "cheap medicine", "buy glipizide near the old bridge", "Bern lies on the river"]


def batch_of(texts: list[str], **changes: Any) -> tuple[infuser.Infused, dict[str, Tensor]]:
    infused = infuse_tiny("bert", "masked-lm", Ernie(**changes), num_hidden_layers=3)
    return infused, infused.batch(texts)


def corrupted(batch: dict[str, Tensor], replaced: float, dropped: float, seed: int = 0) -> dict[str, Tensor]:
    chance = torch.Generator().manual_seed(seed)
    return corrupt_entities(batch, ["places", "things"], Denoising(replaced, dropped), chance)


def test_entities_that_are_kept_give_the_same_answer() -> None:
    infused, batch = batch_of(TEXTS)
    same = corrupted(batch, 0.0, 0.0)
    with torch.no_grad():
        assert torch.equal(infused.model(**same).logits, infused.model(**batch).logits)
    assert all(torch.equal(same[name], tensor) for name, tensor in batch.items() if not name.startswith("knowledge_"))


def test_a_dropped_mention_is_without_entity_and_so_are_those_inside_it() -> None:
    infused, batch = batch_of(TEXTS, bypass_empty=True)
    assert entities_in(batch, "places").is_entity.sum() == 7
    none = corrupted(batch, 0.0, 1.0)
    assert not entities_in(none, "places").is_entity.any()
    plain = {name: tensor for name, tensor in batch.items() if not name.startswith("knowledge_")}
    with torch.no_grad():
        assert torch.equal(infused.model(**none).logits, infused.model(**plain).logits)


def test_a_replaced_entity_is_another_one_of_the_batch() -> None:
    _, batch = batch_of(TEXTS)
    before, after = (entities_in(b, "places") for b in (batch, corrupted(batch, 1.0, 0.0)))
    assert torch.equal(before.is_entity, after.is_entity)
    assert torch.equal(before.starts[before.is_entity], after.starts[after.is_entity])
    old, new = before.vectors[before.is_entity], after.vectors[after.is_entity]
    assert (old != new).any(dim=1).all()
    assert all((old == vector).all(dim=1).any() for vector in new)


def test_the_only_entity_of_a_batch_is_not_replaced() -> None:
    _, batch = batch_of(["the river"])
    after = corrupted(batch, 1.0, 0.0)
    assert torch.equal(entities_in(after, "places").vectors, entities_in(batch, "places").vectors)


def test_the_shares_are_those_of_the_settings_and_chance_is_the_seed() -> None:
    _, batch = batch_of([KNOWN_TEXT] * 500 + ["a city pharmacy in Bern"] * 500)
    before, after = (entities_in(b, "places") for b in (batch, corrupted(batch, 0.05, 0.15)))
    n = int(before.is_entity.sum())
    assert n == 3000
    dropped = n - int(after.is_entity.sum())
    replaced = int((before.vectors != after.vectors).any(dim=-1)[after.is_entity].sum())
    assert abs(dropped / n - 0.15) < 0.025
    assert abs(replaced / n - 0.05) < 0.015
    again, other = corrupted(batch, 0.05, 0.15), corrupted(batch, 0.05, 0.15, seed=1)
    name = "knowledge_places_priors"
    assert torch.equal(again[name], corrupted(batch, 0.05, 0.15)[name])
    assert not torch.equal(again[name], other[name])


def test_the_batch_itself_stays_as_it_is() -> None:
    _, batch = batch_of(TEXTS)
    before = {name: tensor.clone() for name, tensor in batch.items()}
    corrupted(batch, 0.5, 0.5)
    assert batch.keys() == before.keys() and all(torch.equal(batch[name], before[name]) for name in batch)


def test_an_entity_of_zeros_which_masked_words_have_is_no_target() -> None:
    infused, batch = batch_of(["the river and the city"])
    batch["knowledge_places_vectors"] = torch.zeros_like(batch["knowledge_places_vectors"])
    out = DenoisingObjective(infused.model)(**batch)
    assert out.targets["places"].numel() == 0 and out.targets["things"].numel() == 2


@pytest.mark.parametrize("host", HOSTS)
def test_the_target_is_the_original_and_the_loss_is_the_mean_log_probability(host: str) -> None:
    infused = infuse_tiny(host, "masked-lm", "ernie", num_hidden_layers=3)
    batch = infused.collator()(examples("masked-lm"))
    objective = DenoisingObjective(infused.model, ["places"], settings=Denoising(1.0, 0.0)).eval()
    with torch.no_grad():
        out = objective(**batch)
        wrong = corrupt_entities(batch, ["places"], Denoising(1.0, 0.0), torch.Generator().manual_seed(0))
        states = infused.model.base_model(**wrong).last_hidden_state
    aligned = entities_in(batch, "places")
    entities = torch.unique(aligned.vectors[aligned.is_entity], dim=0)
    expected = []
    for row, mention in aligned.is_entity.nonzero().tolist():
        guess = objective.knowledge["places"](states[row, aligned.starts[row, mention]])
        shares = (entities.double() @ guess / 8**0.5).log_softmax(0)
        right = (entities == aligned.vectors[row, mention]).all(dim=1).nonzero()[0, 0]
        expected.append(-shares[right].item())
    assert len(expected) >= 5 and len(entities) >= 4
    assert out.loss.item() == pytest.approx(np.mean(expected), abs=1e-9)
    assert out.parts.keys() == {"entities of places"}


def test_without_entities_the_loss_is_exactly_zero_and_teaches_nothing() -> None:
    infused, batch = batch_of(["cheap medicine", "the lake"])
    out = DenoisingObjective(infused.model).train()(**batch)
    out.loss.backward()
    assert out.loss.item() == 0.0
    gradients = [weight.grad for weight in infused.model.parameters() if weight.grad is not None]
    assert all((gradient == 0).all() for gradient in gradients)


def test_masked_words_add_their_loss() -> None:
    infused, batch = batch_of(TEXTS)
    objective = DenoisingObjective(infused.model).eval()
    with torch.no_grad():
        alone = objective(**batch)
        labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
        both = objective(**batch, labels=labels)
    assert both.parts.keys() == {"entities of places", "entities of things", "head"}
    assert both.loss.item() == pytest.approx(sum(part.item() for part in both.parts.values()))
    assert (both.loss - both.parts["head"]).item() == pytest.approx(alone.loss.item())
    assert not any(part.requires_grad for part in both.parts.values())


def test_every_new_weight_learns_from_guessing() -> None:
    infused, batch = batch_of([KNOWN_TEXT, "a city pharmacy in Bern"], first_layer=0, dropout=0.0)
    objective = DenoisingObjective(infused.model, settings=Denoising(0.0, 0.0))
    objective(**batch).loss.backward()
    new = {name: weight for name, weight in objective.named_parameters() if is_new_weight(name)}
    assert {"knowledge.places.weight", "model.bert.knowledge.things.fusions.1.gate"} <= new.keys()
    for name, weight in new.items():
        assert weight.grad is not None and weight.grad.abs().max() > 1e-12, name


# Learning.


def cities(n_entities: int = 8) -> tuple[KnowledgeBase, list[dict[str, str]]]:
    """Return a base of words that mean one thing each, and texts in which they stand beside other words."""
    names, other = WORDS[-n_entities:], WORDS[4:20]
    base = KnowledgeBase(
        Candidates({name: {f"Q{i}": 1} for i, name in enumerate(names)}),
        EntityVectors.of([f"Q{i}" for i in range(n_entities)], np.random.default_rng(0).normal(size=(n_entities, 8))),
    )
    texts = [f"{other[i % 16]} {names[i % n_entities]} {other[i % 7]} {names[i * 3 % n_entities]}" for i in range(48)]
    return base, [{"text": text} for text in texts]


def infuse_cities() -> tuple[infuser.Infused, list[dict[str, str]]]:
    base, rows = cities()
    torch.manual_seed(0)
    host = tiny_host("bert", num_hidden_layers=3).float()
    return infuser.infuse(host, Ernie(), sources=[base], tokenizer=tiny_tokenizer("bert")), rows


def accuracy(objective: DenoisingObjective, batch: dict[str, Tensor]) -> float:
    with torch.no_grad():
        out = objective.eval()(**batch)
    return float((out.guesses["base"].argmax(dim=1) == out.targets["base"]).float().mean())


def test_training_lowers_the_loss_and_guesses_become_better_than_chance() -> None:
    infused, rows = infuse_cities()
    torch.manual_seed(1)
    objective = DenoisingObjective(infused.model)
    batch = infused.collator()(rows)
    assert accuracy(objective, batch) < 0.4  # chance is one of eight
    parts: list[dict[str, float]] = []
    run = train(
        objective,
        rows,
        infused.collator(),
        settings=TrainSettings(epochs=30, batch_size=16, learning_rate=5e-3),
        progress=lambda report: parts.append(dict(report.parts)),
    )
    assert run.history[-1].loss < 0.5 * run.history[0].loss
    assert accuracy(objective, batch) > 0.8
    assert parts[-1]["entities of base"] < parts[0]["entities of base"]
    gates = [weight for name, weight in infused.model.named_parameters() if name.endswith("gate")]
    assert gates and all(weight.abs() > 1e-3 for weight in gates)
    objective.settings = Denoising(replaced=0.0, dropped=1.0)
    assert accuracy(objective, batch) > 0.6  # from the words alone


def test_a_training_that_was_killed_goes_on_exactly_where_it_was(tmp_path: Path) -> None:
    settings = TrainSettings(epochs=2, batch_size=16, learning_rate=1e-3, checkpoint_every=2)
    ends = []
    for out, stop in ((tmp_path / "whole", None), (tmp_path / "killed", 3)):
        for attempt in (stop, None) if stop else (None,):
            infused, rows = infuse_cities()
            torch.manual_seed(1)
            objective = DenoisingObjective(infused.model)

            def kill(report: Any, stop: int | None = attempt) -> None:
                if report.step == stop:
                    raise KeyboardInterrupt

            try:
                train(objective, rows, infused.collator(), settings=settings, out=out, progress=kill)
            except KeyboardInterrupt:
                continue
            ends.append({name: weight.detach().clone() for name, weight in objective.named_parameters()})
    assert len(ends) == 2
    assert all(torch.equal(weight, ends[1][name]) for name, weight in ends[0].items())


def test_bf16_trains() -> None:
    infused, rows = infuse_cities()
    objective = DenoisingObjective(infused.model)
    settings = TrainSettings(epochs=1, batch_size=16, learning_rate=1e-3, mixed_precision="bf16")
    run = train(objective, rows, infused.collator(), settings=settings, progress=False)
    assert 0 < run.history[-1].loss < 10


# What it refuses.


def test_shares_that_are_none_are_named() -> None:
    for shares in ((-0.1, 0.0), (0.6, 0.6), (0.0, float("nan"))):
        with pytest.raises(InputError, match=r"Denoising\(replaced="):
            Denoising(*shares)


def test_a_model_without_entity_streams_is_refused() -> None:
    for method in ("kam", "kar"):
        with pytest.raises(InputError, match=r"Infuse it with Ernie\(\)"):
            DenoisingObjective(infuse_tiny("bert", method=method).model)
    with pytest.raises(InputError, match="no entity stream for 'people'"):
        DenoisingObjective(infuse_tiny("bert", method="ernie").model, ["places", "people"])


def test_a_batch_without_knowledge_or_with_choices_is_refused() -> None:
    infused, batch = batch_of(TEXTS)
    objective = DenoisingObjective(infused.model)
    with pytest.raises(InputError, match=r"nothing of the knowledge base 'places'.*infused.collator\(\)"):
        objective(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])
    chooser = infuse_tiny("bert", "multiple-choice", "ernie")
    with pytest.raises(InputError, match="multiple choices"):
        DenoisingObjective(chooser.model)(**chooser.collator()(examples("multiple-choice")))
