"""How right a relation extractor is, beside one that calls every candidate pair related; told as tables."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from infuser.words import counted

if TYPE_CHECKING:
    from infuser.relations.classifier import Thresholds
    from infuser.relations.examples import RelationText, Triple
    from infuser.relations.extracting import Proposal
    from infuser.relations.model import AttentionRelations
    from infuser.relations.scores import Match, RelationCounts, RelationScores
    from infuser.types import Source

_MEASURES = {"precision": "precision", "recall": "recall", "f1": "F1"}
_RELATED = "related"
"""What pairs are called where it does not matter how they are related."""
_SHOWN = 5
"""Relations that are shown of the best and of the worst."""


@dataclass(frozen=True)
class Evaluation:
    """What an extraction from gold texts reached, and what it could have reached."""

    scores: dict[Match, RelationScores]
    every: RelationScores
    """The lenient scores of calling every candidate pair related."""
    ceilings: dict[Match, float]
    """The share of gold pairs that are among the candidates: no thresholds and no classifier find more."""

    @cached_property
    def numbers(self) -> dict[str, Any]:
        """All of it for a file; intervals take their time, so they are drawn once."""
        return {
            "scores": {match: scores.to_json() for match, scores in self.scores.items()},
            "every_candidate_pair": self.every.to_json(),
            "ceilings": dict(self.ceilings),
        }


def evaluate_extraction(
    model: AttentionRelations,
    gold: Sequence[RelationText],
    spans: Sequence[Source],
    matches: Sequence[Match],
    *,
    progress: bool = False,
) -> Evaluation:
    """Extract triples from gold texts and compare; without `spans` between the texts' own mentions."""
    from infuser.relations.extracting import candidates_of, propose_all
    from infuser.relations.scores import score_relations
    from infuser.sources.annotating.cache import with_cache

    with tempfile.TemporaryDirectory(prefix="infuser-relations-", ignore_cleanup_errors=True) as folder:
        asked = with_cache(spans, folder)  # candidates are found twice: with the proposals, and on their own
        proposals = propose_all(model, gold, asked, progress=progress)
        found = candidates_of(model, gold, asked)
    pairs = [[replace(triple, relation=_RELATED) for triple in of_text] for of_text in found]
    told = say_proposals(gold, proposals, model.thresholds_)
    related = [replace(text, triples=tuple(map(_as_related, text.triples))) for text in gold]
    every = score_relations(related, pairs, match="lenient")
    by_place = score_relations(related, pairs, match="strict")
    return Evaluation(
        {match: score_relations(gold, told, match=match) for match in matches},
        every,
        {match: (by_place if match == "strict" else every).total.recall for match in matches},
    )


def say_proposals(
    texts: Sequence[RelationText], proposals: Sequence[Sequence[Proposal]], thresholds: Thresholds
) -> list[list[Triple]]:
    """Return the triples that an extraction with these thresholds tells, those that a text denies as negated."""
    from infuser.relations.extracting import say

    return [
        [one.triple for one in say(text.text, of_text, thresholds)]
        for text, of_text in zip(texts, proposals, strict=True)
    ]


def _as_related(triple: Triple) -> Triple:
    """Return a triple that states a relation as one that says no more than "related"; others stay."""
    from infuser.relations.negatives import is_fact

    return replace(triple, relation=_RELATED) if is_fact(triple) else triple


def tell_evaluation(console: Console, evaluation: Evaluation, labels: Mapping[str, str]) -> None:
    """Print the scores with 95 % intervals, what guessing reaches, and which relations are found best and worst."""
    table = Table("match", *_MEASURES.values(), "ceiling")
    table.columns[0].no_wrap = True
    for column in table.columns[1:]:
        column.justify = "right"
    for match, told in evaluation.numbers["scores"].items():
        table.add_row(match, *_cells(told), f"{evaluation.ceilings[match]:.3f}", end_section=True)
    if "lenient" in evaluation.scores:
        every = evaluation.numbers["every_candidate_pair"]
        table.add_row("every pair,\nlenient", *_cells(every), "", style="dim", end_section=True)
    console.print(table)
    for match, scores in evaluation.scores.items():
        total = scores.total
        console.print(
            f"{match}: {counted(total.gold, 'gold fact')} in {counted(len(scores.documents), 'text')}, "
            f"{total.right_gold:,} found; {total.found:,} told, {total.right_found:,} rightly",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
    if "lenient" in evaluation.scores:
        console.print(
            "The lenient match looks at the words of a pair only, not at its relation: calling every candidate pair "
            f"related reaches F1 {evaluation.every.total.f1:.3f} there.",
            style="yellow",
            highlight=False,
        )
    _tell_relations(console, next(iter(evaluation.scores.items())), labels)


def _cells(told: Mapping[str, Any]) -> list[str]:
    cells = []
    for measure in _MEASURES:
        ends = told["intervals"][measure]
        within = "" if ends is None else f"\n{ends[0]:.2f}-{ends[1]:.2f}"
        cells.append(f"{told['measures'][measure]:.3f}{within}")
    return cells


def _tell_relations(console: Console, scored: tuple[Match, RelationScores], labels: Mapping[str, str]) -> None:
    match, scores = scored
    stated = {relation: counts for relation, counts in scores.relations.items() if counts.gold}
    ranked = sorted(stated, key=lambda relation: (-stated[relation].f1, -stated[relation].gold, relation))
    shortened = len(ranked) > 2 * _SHOWN
    title = f"{match}: the best and the worst of {len(ranked)} relations" if shortened else f"{match}, by relation"
    table = Table("relation", "name", *_MEASURES.values(), "gold", "told", title=title, title_justify="left")
    for column in table.columns[2:]:
        column.justify = "right"
    for place, relation in enumerate(ranked):
        if shortened and _SHOWN <= place < len(ranked) - _SHOWN:
            continue
        table.add_row(
            Text(relation),
            Text("" if labels.get(relation) in (None, relation) else labels[relation]),
            *_numbers(stated[relation]),
            end_section=shortened and place == _SHOWN - 1,
        )
    console.print(table)


def _numbers(counts: RelationCounts) -> tuple[str, ...]:
    return *(f"{getattr(counts, measure):.3f}" for measure in _MEASURES), f"{counts.gold:,}", f"{counts.found:,}"
