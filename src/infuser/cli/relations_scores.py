"""Prints how right a relation extractor is, beside calling every candidate pair related."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from infuser.cli.console import print_table, say, with_interval
from infuser.words import counted

if TYPE_CHECKING:
    from infuser.relations.evaluation import ExtractionTest

_MEASURES = {"precision": "precision", "recall": "recall", "f1": "F1"}
_SHOWN = 5
"""Relations that are shown of the best and of the worst."""


def print_scores(test: ExtractionTest, numbers: Mapping[str, Any]) -> None:
    """Print scores with 95 % intervals, what guessing reaches, and the relations found best and worst."""
    scores, every = numbers["scores"], numbers["every_candidate_pair"]
    rows = [(match, *_with_intervals(one), f"{numbers['ceilings'][match]:.3f}") for match, one in scores.items()]
    if "lenient" in scores:
        rows.append(("every pair,\nlenient", *_with_intervals(every), ""))
    print_table(("match", *_MEASURES.values(), "ceiling"), rows)
    for match, one in scores.items():
        counts = one["counts"]
        say(
            f"{match}: {counted(counts['gold'], 'gold fact')} in {counted(len(test.gold), 'text')}, "
            f"{counts['right_gold']:,} found; {counts['found']:,} extracted, {counts['right_found']:,} rightly"
        )
    if "lenient" in scores:
        say(
            "The lenient match looks at the words of a pair only, not at its relation: calling every candidate pair "
            f"related reaches F1 {every['measures']['f1']:.3f} there.",
            style="yellow",
        )
    _print_relations(test, next(iter(scores)))


def _with_intervals(scores: Mapping[str, Any]) -> list[str]:
    return [with_interval(scores["measures"][measure], scores["intervals"][measure]) for measure in _MEASURES]


def _print_relations(test: ExtractionTest, match: Any) -> None:
    labels = test.model.labels_
    stated = {relation: counts for relation, counts in test.scores(match).relations.items() if counts.gold}
    ranked = sorted(stated, key=lambda relation: (-stated[relation].f1, -stated[relation].gold, relation))
    shortened = len(ranked) > 2 * _SHOWN
    title = f"{match}: the best and the worst of {len(ranked)} relations" if shortened else f"{match}, by relation"
    rows = [
        (
            relation,
            "" if labels.get(relation) in (None, relation) else labels[relation],
            *(f"{getattr(stated[relation], measure):.3f}" for measure in _MEASURES),
            f"{stated[relation].gold:,}",
            f"{stated[relation].found:,}",
        )
        for relation in (ranked[:_SHOWN] + ranked[-_SHOWN:] if shortened else ranked)
    ]
    print_table(("relation", "name", *_MEASURES.values(), "gold", "extracted"), rows, title=title, left=(0, 1))
