"""What attention tells about relations, as tasks of a bench."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from relations.small_relations import small_data, small_encoder
from sklearn.metrics import f1_score

from infuser import Collator, TrainSettings
from infuser.errors import InputError
from infuser.methods.spectral import Spectral
from infuser.relations.readers import write_relations
from infuser.tasks.attention_relations import AttentionExtraction, AttentionProbe
from infuser.tasks.base import Training

FILES = {"train": "train.jsonl", "dev": "dev.jsonl", "test": "test.jsonl"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("relations")
    for name, texts in zip(FILES.values(), small_data(), strict=True):
        write_relations(place / name, texts)
    return place


@pytest.fixture(scope="module")
def encoder():
    return small_encoder()


def solved(task, encoder):
    asked = task.read("test")
    training = Training(encoder.model, Collator(encoder.tokenizer), TrainSettings())
    answers = task.solve(training, task.read("train"), asked, task.read("dev"))
    golds = [task.gold(example) for example in asked]
    return golds, answers.predictions, task.score(golds, answers.predictions)


def test_relations_are_named_and_scored_by_their_mean_over_relations(folder: Path, encoder) -> None:
    task = AttentionProbe(str(folder), **FILES)
    golds, predictions, scores = solved(task, encoder)
    truth, said = ([one for part in parts for one in part] for parts in (golds, predictions))
    assert scores["macro-f1"] == pytest.approx(f1_score(truth, said, average="macro"))
    assert scores["macro-f1"] > 0.9, "two relations that differ in a word"
    assert tuple(scores) == task.metrics


def test_the_gate_is_asked_about_facts_and_as_many_that_are_none(folder: Path, encoder) -> None:
    task = AttentionProbe(str(folder), **FILES, question="gate")
    golds, predictions, scores = solved(task, encoder)
    assert sum(map(len, predictions)) > sum(map(len, golds))
    right = sum(
        answer is (at < len(gold))
        for gold, said in zip(golds, predictions, strict=True)
        for at, answer in enumerate(said)
    )
    assert scores == {"accuracy": right / sum(map(len, predictions))}
    assert scores["accuracy"] > 0.6


def test_triples_are_extracted_between_known_mentions_and_counted(folder: Path, encoder) -> None:
    task = AttentionExtraction(str(folder), **FILES, spans="mentions", match="strict")
    golds, predictions, scores = solved(task, encoder)
    counts = np.array(predictions).sum(axis=0)
    assert counts[0] == sum(golds) and 0 < scores["recall"] <= 1
    assert scores["precision"] == pytest.approx(counts[2] / counts[1])


@pytest.mark.parametrize("kind", [AttentionProbe, AttentionExtraction])
def test_an_encoder_that_is_only_read_takes_no_penalty_and_no_annotations(kind, folder: Path, encoder) -> None:
    task = kind(str(folder), **FILES, **({"spans": "mentions"} if kind is AttentionExtraction else {}))
    training = Training(encoder.model, Collator(encoder.tokenizer), TrainSettings(), spectral=Spectral())
    with pytest.raises(InputError, match="SR has nothing to act on"):
        task.solve(training, task.read("train"), task.read("test"))
    assert not kind.takes_annotations
