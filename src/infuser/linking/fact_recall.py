"""Fact recall: which facts a linker knows, told by the rank of the right entity among many for a masked one.

    train, held_out = hold_out(triples, 1000)
    train_linker(infused, fact_examples(infused, train, labels), loss="softmax")
    questions = fact_questions(infused, held_out, labels, known=train)
    measures(ranks(questions, linker_scores(infused, questions)))

Beside the linker stand scores that need no text: how often an entity answers such questions, and the vectors alone. A
linker reads the words of a question and the vectors of its candidates; the vector of the entity that the question is
about it does not read, so it knows that one by name only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm.auto import tqdm

from infuser.errors import InputError
from infuser.infused import Infused
from infuser.knowledge.vectors.store import EntityVectors
from infuser.linking.fact_questions import Fact, Facts, Question, as_examples, base_of
from infuser.methods.entity_reader import ask
from infuser.signals.candidates import part_name

Floats = NDArray[np.float64]


def linker_scores(
    infused: Infused,
    questions: Sequence[Question],
    *,
    base: str | None = None,
    batch_size: int = 32,
    progress: bool = False,
) -> list[Floats]:
    """Return what the linker thinks of the candidates of each question, in their order."""
    name = base_of(infused, base)[1].name
    collator, encoder = infused.collator(), infused.model.base_model
    examples = as_examples(infused, questions, base)
    order = sorted(range(len(questions)), key=lambda place: len(questions[place].text))  # less padding, so more speed
    scores: dict[int, Floats] = {}
    with tqdm(total=len(questions), desc="recalling facts", unit="fact", disable=not progress) as bar:
        for first in range(0, len(questions), batch_size):
            places = order[first : first + batch_size]
            batch = collator([examples[place] for place in places])
            sizes = (batch[part_name(name, "priors")] > 0).sum(dim=1).tolist()
            told = ask(encoder, batch).scores[name].double().cpu().numpy()
            for place, size, of_text in zip(places, sizes, told, strict=True):
                if size != len(questions[place].candidates):
                    raise InputError(
                        f"The encoder reads {collator.max_length} tokens and does not come to the mask in "
                        f"{questions[place].text[:60]!r}. Choose a template with the mask nearer to the beginning."
                    )
                scores[place] = of_text[:size]
            bar.update(len(places))
    return [scores[place] for place in range(len(questions))]


def frequency_scores(questions: Sequence[Question], train: Facts) -> list[Floats]:
    """Return how often each candidate answers a question of the same relation among these triples."""
    facts = [Fact(*triple) for triple in train]
    counts = {
        "tail": Counter((one.relation, one.tail) for one in facts),
        "head": Counter((one.relation, one.head) for one in facts),
    }
    return [
        np.array([counts[one.asked][one.fact.relation, id] for id in one.candidates], np.float64) for one in questions
    ]


def mean_translations(train: Facts, vectors: EntityVectors) -> dict[str, Floats]:
    """Return for each relation the average step from head to tail: what a TransE relation vector stands for."""
    facts = [Fact(*triple) for triple in train]
    heads, tails = (vectors.rows(ids) for ids in ([one.head for one in facts], [one.tail for one in facts]))
    usable = np.flatnonzero((heads >= 0) & (tails >= 0))
    of_relation: dict[str, list[int]] = {}
    for place in usable.tolist():
        of_relation.setdefault(facts[place].relation, []).append(place)
    return {
        relation: (vectors.take(tails[places]) - vectors.take(heads[places])).mean(axis=0, dtype=np.float64)
        for relation, places in of_relation.items()
    }


def translation_scores(
    questions: Sequence[Question], vectors: EntityVectors, relations: Mapping[str, NDArray[Any]]
) -> list[Floats]:
    """Return -|head + relation - tail| of each candidate: the vectors alone, without any text."""
    unknown = sorted({one.fact.relation for one in questions} - set(relations))
    if unknown:
        raise InputError(f"{len(unknown)} relations have no vector; the first is {unknown[0]!r}. Leave them out.")
    scores = []
    for one in questions:
        candidates = vectors.take(vectors.rows(one.candidates)).astype(np.float64)
        [shown] = vectors.take(vectors.rows([one.fact.head if one.asked == "tail" else one.fact.tail]))
        step = relations[one.fact.relation] * (1 if one.asked == "tail" else -1)
        scores.append(-np.linalg.norm(shown + step - candidates, axis=1))
    return scores


def ranks(questions: Sequence[Question], scores: Sequence[NDArray[Any]]) -> Floats:
    """Return the rank of the right candidate of each question, from 1; equal scores share the mean of their ranks."""
    found = []
    for one, of_one in zip(questions, scores, strict=True):
        if len(of_one) != len(one.candidates) or np.isnan(of_one).any():
            raise InputError(
                f"{len(of_one)} scores, {int(np.isnan(of_one).sum())} of them not a number, for the "
                f"{len(one.candidates)} candidates of {one.text!r}. Give each a number; if a linker gave these, its "
                "training diverged."
            )
        right = of_one[one.candidates.index(one.answer)]
        found.append(1 + np.sum(of_one > right) + (np.sum(of_one == right) - 1) / 2)
    return np.array(found, np.float64)


def measures(ranks: Floats) -> dict[str, float]:
    """Return the mean reciprocal rank and how often the right candidate is the first, or among the first ten."""
    return {"mrr": float(np.mean(1 / ranks)), **{f"hits@{k}": float(np.mean(ranks <= k)) for k in (1, 10)}}


def expected_by_chance(questions: Sequence[Question]) -> dict[str, float]:
    """Return the measures to expect of somebody who ranks candidates at random, without ties."""
    sizes = np.array([len(one.candidates) for one in questions])
    harmonic = np.cumsum(1 / np.arange(1, sizes.max() + 1))
    hits = {f"hits@{k}": float(np.mean(np.minimum(1, k / sizes))) for k in (1, 10)}
    return {"mrr": float(np.mean(harmonic[sizes - 1] / sizes)), **hits}
