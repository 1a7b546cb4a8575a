"""The stages in which linkers learn: what moves in each, that it learns, and that a killed run goes on."""

from __future__ import annotations

import os
from collections.abc import Sequence
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import pytest
import torch
from forked import exit_codes, start_forked
from miniatures import tiny_host, tiny_tokenizer
from safetensors.torch import load_file, save_file
from tiny_infusions import KNOWN_TEXT, tiny_base

import infuser
from infuser.errors import CheckpointError, InputError
from infuser.hosts import is_new_weight
from infuser.linking.examples import LinkedText, link_examples
from infuser.linking.inference import bases_of, find_mentions
from infuser.linking.masking import sentence_pairs
from infuser.linking.objective import FrozenStates
from infuser.linking.training import pretrain, reads_next_sentence, train_linker
from infuser.training import StepReport, TrainSettings
from infuser.types import Span

CONTEXTS = {"Q7": "the red river flows in the garden", "Q8": "the blue river runs near the bank"}
"""What a river means depends on its colour."""


def linked_texts() -> list[LinkedText]:
    texts = []
    for entity, text in CONTEXTS.items():
        place = text.index("river")
        texts.append(LinkedText(text, (Span(place, place + 5, id=entity),)))
    return texts


def infuse(head: str = "encoder", *, bases: Sequence[str] = ("base",), method: Any = None) -> infuser.Infused:
    host = tiny_host("bert", head).float()
    torch.manual_seed(0)
    sources = [tiny_base(name, seed=seed) for seed, name in enumerate(bases)]
    return infuser.infuse(host, method or infuser.Kar(), sources=sources, tokenizer=tiny_tokenizer("bert"))


def fast(**changes: Any) -> TrainSettings:
    return TrainSettings(**{"epochs": 40, "batch_size": 8, "new_learning_rate": 1e-2, **changes})


def copies(examples: list[dict[str, Any]], n: int = 4) -> list[dict[str, Any]]:
    return examples * n


@pytest.mark.parametrize("loss", ["margin", "softmax"])
def test_a_linker_learns_to_choose_by_the_words_around_a_mention(loss: Any) -> None:
    infused = infuse()
    examples = copies(link_examples(linked_texts(), bases_of(infused.sources)))
    reports: list[StepReport] = []
    train_linker(infused, examples, loss=loss, settings=fast(epochs=100), progress=reports.append)
    assert reports[-1].parts["linking"] < 0.1 * reports[0].parts["linking"]
    for entity, text in CONTEXTS.items():
        [best] = [mention.candidates[0].id for mention in find_mentions(infused, text)[0] if mention.text == "river"]
        assert best == entity  # the prior of Q7 is three times that of Q8


def test_only_linkers_move_in_the_first_stage() -> None:
    infused = infuse(bases=("one", "two"))
    before = {name: tensor.clone() for name, tensor in infused.model.state_dict().items()}
    trained = {name: weight.requires_grad for name, weight in infused.model.named_parameters()}
    examples = link_examples(linked_texts(), bases_of(infused.sources))
    train_linker(infused, examples, names=["two"], settings=fast(epochs=2), progress=False)
    moved = {name for name, tensor in infused.model.state_dict().items() if not torch.equal(tensor, before[name])}
    assert moved
    assert all(name.startswith(("knowledge.two.linker.", "knowledge.two.project.")) for name in moved)
    assert {name: weight.requires_grad for name, weight in infused.model.named_parameters()} == trained


def test_joint_training_moves_host_and_new_weights_and_tells_its_parts() -> None:
    infused = infuse("masked-lm")
    before = {name: tensor.clone() for name, tensor in infused.model.state_dict().items()}
    taught = [{**example, "seed": 1} for example in link_examples(linked_texts(), bases_of(infused.sources))]
    reports: list[StepReport] = []
    pretrain(infused, copies(taught), settings=fast(epochs=2, learning_rate=1e-3), progress=reports.append)
    assert set(reports[-1].parts) == {"linking", "masked words"}
    moved = {name for name, tensor in infused.model.state_dict().items() if not torch.equal(tensor, before[name])}
    assert any(is_new_weight(name) for name in moved)
    assert any(not is_new_weight(name) for name in moved)


def test_a_model_that_reads_next_sentences_learns_them_too() -> None:
    from transformers import BertForPreTraining

    encoder = infuse().detach()
    torch.manual_seed(0)
    model = BertForPreTraining(encoder.config).float()
    infused = infuser.infuse(model, infuser.Kar(), sources=[tiny_base()], tokenizer=tiny_tokenizer("bert"))
    assert reads_next_sentence(infused.model)
    pairs = sentence_pairs([[KNOWN_TEXT, *CONTEXTS.values()]] * 3)
    reports: list[StepReport] = []
    pretrain(infused, pairs, settings=fast(epochs=15, learning_rate=3e-3), progress=reports.append)
    assert set(reports[0].parts) == {"masked words", "next sentence"}
    assert reports[-1].loss < reports[0].loss


def test_a_head_without_masked_words_is_refused() -> None:
    with pytest.raises(InputError, match="masked-lm"):
        pretrain(infuse("sequence-classification"), [{"text": KNOWN_TEXT, "seed": 1}])


def test_a_model_without_a_linker_is_refused() -> None:
    model = infuser.infuse(tiny_host("bert"), sources=[infuser.Entities.tiny()], tokenizer=tiny_tokenizer("bert"))
    with pytest.raises(InputError, match="no linker"):
        train_linker(model, [{"text": KNOWN_TEXT}])


def test_an_unknown_knowledge_base_is_named() -> None:
    with pytest.raises(InputError, match="'bass'"):
        train_linker(infuse(), [{"text": KNOWN_TEXT}], names=["bass"])


def test_texts_without_any_candidate_are_refused_before_training() -> None:
    infused = infuse()
    examples = link_examples([LinkedText("a green book")], bases_of(infused.sources))
    with pytest.raises(InputError, match="None of 1 examples"):
        train_linker(infused, examples)


def train_and_write(out: Path, dies_at: int | None = None) -> None:
    """Train a linker and write all weights, unless the process dies at a step."""
    infused = infuse()

    def die(report: StepReport) -> None:
        if report.step == dies_at:
            os._exit(9)

    examples = copies(link_examples(linked_texts(), bases_of(infused.sources)))
    train_linker(infused, examples, settings=fast(epochs=6, checkpoint_every=2), out=out, progress=die)
    save_file({name: tensor.contiguous().clone() for name, tensor in infused.model.state_dict().items()}, out / "end")


@pytest.mark.slow
def test_a_killed_training_goes_on_to_the_same_weights(tmp_path: Path) -> None:
    for name, dies_at, code in (("whole", None, 0), ("killed", 5, 9), ("killed", None, 0)):
        log = tmp_path / "log.txt"
        assert exit_codes(start_forked(train_and_write, tmp_path / name, dies_at, log=log)) == [code], log.read_text()
    whole, again = load_file(tmp_path / "whole" / "end"), load_file(tmp_path / "killed" / "end")
    assert whole.keys() == again.keys()
    assert all(torch.equal(whole[name], again[name]) for name in whole)


@pytest.mark.parametrize("changed", ["loss", "labels", "vectors"])
def test_a_run_is_not_taken_up_with_something_else(changed: str, tmp_path: Path) -> None:
    infused = infuse()
    examples = link_examples(linked_texts(), bases_of(infused.sources))
    train_linker(infused, examples, settings=fast(epochs=1), out=tmp_path, progress=False)
    loss: Any = "softmax" if changed == "loss" else "margin"
    if changed == "labels":
        examples = [{**example, "gold": {"base": ("",) * len(example["gold"]["base"])}} for example in examples]
    if changed == "vectors":
        infused = infused.with_sources([tiny_base(seed=5)])
    with pytest.raises(CheckpointError, match=changed):
        train_linker(infused, examples, loss=loss, settings=fast(epochs=1), out=tmp_path, progress=False)


@pytest.mark.parametrize("start", ["inverse", "paper"])
def test_the_inverse_follows_the_projection_that_the_first_stage_moved(start: Any) -> None:
    infused = infuse(method=infuser.Kar(start=start))
    kar = infused.model.base_model.knowledge["base"]  # type: ignore[index, union-attr]
    before = kar.project.weight.detach().clone()
    examples = link_examples(linked_texts(), bases_of(infused.sources))
    train_linker(infused, examples, settings=fast(epochs=5), progress=False)
    assert not torch.equal(kar.project.weight, before)
    words = torch.randn(9, 16)
    with torch.no_grad():
        projected = kar.project(words)
        again = kar.project(kar.back(projected))
    assert (again - projected).norm() < 1e-5 * projected.norm()


def test_texts_with_links_and_pairs_of_sentences_are_learned_together() -> None:
    from transformers import BertForPreTraining

    torch.manual_seed(0)
    model = BertForPreTraining(infuse().detach().config).float()
    infused = infuser.infuse(model, infuser.Kar(), sources=[tiny_base()], tokenizer=tiny_tokenizer("bert"))
    taught = [{**example, "seed": 1} for example in link_examples(linked_texts(), bases_of(infused.sources))]
    mixed = [*taught, *sentence_pairs([[KNOWN_TEXT, *CONTEXTS.values()]] * 2)]
    reports: list[StepReport] = []
    pretrain(infused, mixed, settings=fast(epochs=1, batch_size=6), progress=reports.append)
    assert set(reports[0].parts) == {"linking", "masked words", "next sentence"}
    alone: list[StepReport] = []
    pretrain(infused, taught, settings=fast(epochs=1), progress=alone.append)
    assert set(alone[0].parts) == {"linking", "masked words"}


def test_softmax_needs_a_mention_that_means_something() -> None:
    infused = infuse()
    examples = link_examples([LinkedText(KNOWN_TEXT)], bases_of(infused.sources))
    with pytest.raises(InputError, match="None of 1 examples"):
        train_linker(infused, examples, loss="softmax")


def test_frozen_states_travel_to_workers() -> None:
    infused = infuse()
    examples = link_examples(linked_texts(), bases_of(infused.sources))
    states = FrozenStates(infused, "base", examples)
    here = states.collate(states.examples)
    there = ForkingPickler.loads(bytes(ForkingPickler.dumps(states))).collate(states.examples)
    assert all(torch.equal(here[name], there[name]) for name in here)


def test_a_trained_linker_goes_on_under_the_head_of_a_task(tmp_path: Path) -> None:
    infused = infuse()
    examples = link_examples(linked_texts(), bases_of(infused.sources))
    train_linker(infused, examples, settings=fast(epochs=3), progress=False)
    infused.save(tmp_path / "linker")
    task = infuser.infuse(
        str(tmp_path / "linker"), infused.method, sources=infused.sources, task="sequence-classification", num_labels=2
    )
    assert find_mentions(task, KNOWN_TEXT) == find_mentions(infused, KNOWN_TEXT)
    other = infuser.infuse(str(tmp_path / "linker"), infuser.Kar(inner=7), sources=infused.sources)
    assert find_mentions(other, KNOWN_TEXT) != find_mentions(infused, KNOWN_TEXT)  # another method begins anew
