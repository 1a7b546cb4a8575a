"""Fact recall: which facts a linker knows, measured by the rank of the right entity among many for a masked one.

    train, held_out = hold_out(triples, 1000)
    train_linker(infused, fact_examples(infused, train, labels), loss="softmax")
    questions = fact_questions(infused, held_out, labels, known=train)
    measures(ranks(questions, linker_scores(infused, questions)))

A triple (Bern, capital of, Switzerland) becomes "Bern capital of [MASK]." with one mention, the mask, that may mean the
right entity or any of many others. All of them have the same prior, so nothing but text and vectors can tell. Beside
the linker stand scores that need no text: how often an entity answers such questions, and the vectors alone. A linker
reads the words of a question and the vectors of its candidates; the vector of the entity that the question is about it
does not read, so it knows that one by name only.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from infuser.errors import InputError
from infuser.infused import Infused
from infuser.knowledge.vectors.store import EntityVectors
from infuser.linking.inference import check_linker
from infuser.methods.entity_reader import trace_candidates
from infuser.progress import progress_bar
from infuser.signals.candidates import part_name
from infuser.types import Annotations, Candidate, HasEntityVectors, Span

_ENDS = re.compile(r"(\{head\}|\{tail\})")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")

Floats = NDArray[np.float64]


class Fact(NamedTuple):
    """A triple, by ids."""

    head: str
    relation: str
    tail: str


Facts = Iterable[tuple[str, str, str]]


@dataclass(frozen=True, slots=True)
class FactSettings:
    """Settings of how facts are asked."""

    asked: Literal["tail", "head"] = "tail"
    """Which end of a triple is masked."""
    n_candidates: int | None = 100
    """How many entities to choose from, the right one among them; None takes all that could be drawn."""
    draw: Literal["uniform", "frequency"] = "uniform"
    """Whether every entity is drawn alike, or as often as it is the answer to a question of any relation."""
    filtered: bool = True
    """Whether other right answers to the same question are left out of its candidates."""
    templates: Mapping[str, str] = field(default_factory=dict)
    """Sentences with {head} and {tail} by relation; others are made from the relation's id, see `template_of`."""
    seed: int = 0
    """The same seed draws the same candidates."""

    def __post_init__(self) -> None:
        if self.asked not in ("tail", "head") or self.draw not in ("uniform", "frequency"):
            raise InputError(
                f"asked={self.asked!r}, draw={self.draw!r}: 'tail' or 'head' is asked, drawing is 'uniform' or "
                "'frequency'."
            )
        if self.n_candidates is not None and self.n_candidates < 2:
            raise InputError(f"n_candidates={self.n_candidates} leaves nothing to choose; it must be 2 or more.")
        for relation, template in self.templates.items():
            if sorted(_ENDS.findall(template)) != ["{head}", "{tail}"]:
                raise InputError(f"The template of {relation!r} must have {{head}} and {{tail}} once: {template!r}.")


@dataclass(frozen=True, slots=True)
class Question:
    """A fact whose one end is masked, and the entities that may stand there."""

    fact: Fact
    asked: Literal["tail", "head"]
    text: str
    span: Span
    """Where the mask is."""
    candidates: tuple[str, ...]
    """In the order of their vectors, which says nothing about which is right."""

    @property
    def answer(self) -> str:
        """The right candidate."""
        return self.fact.tail if self.asked == "tail" else self.fact.head


def hold_out(triples: Facts, n: int, *, seed: int = 0) -> tuple[list[Fact], list[Fact]]:
    """Return the triples to learn from and `n` others, each triple once.

    Both ends and the relation of one that is held out occur among the former, so that something can be known of them.
    """
    once = list(dict.fromkeys(Fact(*triple) for triple in triples))
    ends = Counter(end for one in once for end in {one.head, one.tail})
    relations = Counter(one.relation for one in once)
    held_out: set[Fact] = set()
    for place in np.random.default_rng(seed).permutation(len(once)).tolist():
        one = once[place]
        met = {one.head, one.tail}
        if len(held_out) < n and relations[one.relation] > 1 and all(ends[end] > 1 for end in met):
            held_out.add(one)
            relations[one.relation] -= 1
            ends.subtract(met)
    if len(held_out) < n:
        raise InputError(
            f"Only {len(held_out):,} of {len(once):,} triples can be held out so that their entities and relations "
            f"still occur in others, but {n:,} are wanted. Hold out fewer."
        )
    return [one for one in once if one not in held_out], [one for one in once if one in held_out]


def template_of(relation: str) -> str:
    """Return a plain template for a relation's id or label: "/people/person/place_of_birth", "AtLocation"."""
    name = re.split(r"[/#]", relation.rstrip("/#"))[-1].replace("_", " ").strip()
    words = _HUMP.sub(" ", name)
    return f"{{head}} {words if words == name else words.lower()} {{tail}}."


def fact_questions(
    infused: Infused,
    triples: Facts,
    labels: Mapping[str, str],
    settings: FactSettings | None = None,
    *,
    known: Facts = (),
    base: str | None = None,
) -> list[Question]:
    """Return one question per triple, with candidates drawn from the entities that have a vector.

    `labels` are what entities are called, by id. `known` are further true triples: they tell other right answers and
    how often each entity is one. `base` names the knowledge base, if the model has several.
    """
    facts = [Fact(*triple) for triple in triples]
    if not facts:
        raise InputError("There is not one triple to ask for. Check that this is the right file or graph.")
    mask = infused.tokenizer.mask_token
    if mask is None:
        raise InputError(
            "The tokenizer has no mask token, so nothing can stand for the entity that is asked for. Set one that the "
            "encoder knows (tokenizer.mask_token = ...), or choose an encoder trained with one."
        )
    asker = _Asker(base_of(infused, base)[1].store, facts, known, settings or FactSettings())
    return [asker.ask(fact, labels, mask) for fact in facts]


def fact_examples(
    infused: Infused,
    triples: Facts,
    labels: Mapping[str, str],
    settings: FactSettings | None = None,
    *,
    held_out: Facts = (),
    base: str | None = None,
) -> list[dict[str, Any]]:
    """Return examples for `train_linker`, one per triple; those that are held out are left out, should there be any.

    Held-out triples do not tell which candidates are wrong either.
    """
    hidden = {Fact(*triple) for triple in held_out}
    kept = [fact for fact in dict.fromkeys(Fact(*triple) for triple in triples) if fact not in hidden]
    return as_examples(infused, fact_questions(infused, kept, labels, settings, base=base), base)


class _Asker:
    """Makes questions: knows all right answers, and draws wrong ones."""

    def __init__(self, store: EntityVectors, facts: list[Fact], known: Facts, settings: FactSettings) -> None:
        self.store, self.settings = store, settings
        self.id_of = cache(store.id_of)
        self.chance = np.random.default_rng(settings.seed)
        self.answers: dict[tuple[str, str], set[str]] = {}
        true = {*facts, *(Fact(*triple) for triple in known)}
        for fact in true:
            shown, answer = self._ends(fact)
            self.answers.setdefault((shown, fact.relation), set()).add(answer)
        self.weights = np.ones(len(store))
        if settings.draw == "frequency":
            rows = store.rows([self._ends(fact)[1] for fact in true])
            self.weights = np.bincount(rows[rows >= 0], minlength=len(store)).astype(np.float64)

    def ask(self, fact: Fact, labels: Mapping[str, str], mask: str) -> Question:
        shown, answer = self._ends(fact)
        if not labels.get(shown, "").strip():
            raise InputError(
                f"{shown!r}, an end of {tuple(fact)}, has no label, so nothing can be asked about it. Give the labels "
                "of all entities by id, or leave out triples without."
            )
        text, span = self._write(fact, labels[shown].strip(), mask)
        return Question(fact, self.settings.asked, text, span, self._draw(fact, shown, answer))

    def _ends(self, fact: Fact) -> tuple[str, str]:
        """Return the end that is shown and the one that is asked for."""
        return (fact.head, fact.tail) if self.settings.asked == "tail" else (fact.tail, fact.head)

    def _write(self, fact: Fact, label: str, mask: str) -> tuple[str, Span]:
        parts = _ENDS.split(self.settings.templates.get(fact.relation) or template_of(fact.relation))
        masked = f"{{{self.settings.asked}}}"
        # no str.format: labels and templates may hold braces of their own
        filled = [mask if part == masked else label if _ENDS.fullmatch(part) else part for part in parts]
        start = len("".join(filled[: parts.index(masked)]))
        return "".join(filled), Span(start, start + len(mask))

    def _draw(self, fact: Fact, shown: str, answer: str) -> tuple[str, ...]:
        right = self.store.rows([answer])
        if right[0] < 0:
            raise InputError(
                f"{answer!r}, the answer to {tuple(fact)}, has no vector, so it cannot be chosen. Leave such triples "
                "out, or build vectors for all entities."
            )
        weights = self.weights.copy()
        weights[right] = 0
        if self.settings.filtered:
            others = self.store.rows(self.answers[shown, fact.relation])
            weights[others[others >= 0]] = 0
        possible = np.flatnonzero(weights)
        n_wrong = len(possible) if self.settings.n_candidates is None else self.settings.n_candidates - 1
        if len(possible) < max(1, n_wrong):
            raise InputError(
                f"{len(possible):,} entities could be wrong answers to {tuple(fact)}, but {max(1, n_wrong):,} are "
                f"needed for n_candidates={self.settings.n_candidates}. Ask with fewer candidates."
            )
        if n_wrong < len(possible):
            share = weights[possible] / weights.sum()
            possible = self.chance.choice(possible, n_wrong, replace=False, p=share)
        return tuple(map(self.id_of, sorted([*possible.tolist(), *right.tolist()])))


def as_examples(infused: Infused, questions: Iterable[Question], base: str | None) -> list[dict[str, Any]]:
    """Return questions as the collator and the linker's training read them; other sources say nothing."""
    place, asked = base_of(infused, base)
    equally = cache(Candidate)  # the same few entities are candidates again and again
    examples = []
    for one in questions:
        candidates = tuple(equally(id, 1 / len(one.candidates)) for id in one.candidates)
        found = [Annotations(one.text) for _ in infused.sources]
        found[place] = Annotations(one.text, (one.span,), candidates=(candidates,))
        examples.append({"text": one.text, "annotations": tuple(found), "gold": {asked.name: (one.answer,)}})
    return examples


def base_of(infused: Infused, name: str | None) -> tuple[int, HasEntityVectors]:
    """Return a knowledge base of a model with linkers, and its place among the sources."""
    bases = check_linker(infused)
    chosen = [(place, base) for place, base in bases.items() if name in (None, base.name)]
    if len(chosen) != 1:
        names = ", ".join(repr(base.name) for base in bases.values())
        raise InputError(f"base={name!r} does not name one knowledge base of this model; it has {names}.")
    return chosen[0]


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
    with progress_bar("recalling facts", len(questions), unit="facts", shown=progress) as bar:
        for first in range(0, len(questions), batch_size):
            places = order[first : first + batch_size]
            batch = collator([examples[place] for place in places])
            sizes = (batch[part_name(name, "priors")] > 0).sum(dim=1).tolist()
            told = trace_candidates(encoder, batch).scores[name].double().cpu().numpy()
            for place, size, of_text in zip(places, sizes, told, strict=True):
                if size != len(questions[place].candidates):
                    raise InputError(
                        f"The encoder reads {collator.max_length} tokens and does not come to the mask in "
                        f"{questions[place].text[:60]!r}. Choose a template with the mask nearer to the beginning."
                    )
                scores[place] = of_text[:size]
            bar.advance(len(places))
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
