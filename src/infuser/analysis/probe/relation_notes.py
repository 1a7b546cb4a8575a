"""What a report says beside its numbers: how they were found, and what to keep in mind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from infuser.analysis.probe.relation_fits import ProbeAnswers
from infuser.analysis.probe.relation_knowledge import RelationKnowledge
from infuser.analysis.probe.relation_rows import RowFeatures
from infuser.analysis.probe.result import ProbeScores

if TYPE_CHECKING:
    from infuser.analysis.probe.relations import ProbeSettings


def facts_of(
    settings: ProbeSettings,
    seen: Sequence[RowFeatures],
    curves: Mapping[str, Sequence[RowFeatures]],
    shape: tuple[int, ...],
) -> dict[str, str]:
    """Return how it was found out: sizes, features and settings."""
    spans = "head, tail and the words that say the relation" if settings.trigger else "head and tail"
    what = f"{' x '.join(map(str, shape))} numbers per triple ({settings.kind} of {spans})"
    facts = {}
    for title, one in zip(("Training triples", "Test triples"), seen, strict=True):
        places = one.facts()
        n_relations, n_asked = len(set(one.rows.truth[places])), len(one.balanced()[0])
        facts[title] = f"{len(places):,} of {n_relations:,} relations; {n_asked:,} for the gate, half of them none"
    facts["Features"] = f"{what}, pooled by {settings.pooling}" if settings.kind == "attention" else what
    if curves:
        few = [len(one.facts()) for one in next(iter(curves.values()))]
        facts["Each layer alone"] = f"learned from {few[0]:,} facts, tested with {few[1]:,}"
    return facts | {"Strength of the classifiers (C)": f"{settings.strength:g}", "Seed": str(settings.seed)}


def notes_of(
    name: str,
    settings: ProbeSettings,
    seen: Sequence[RowFeatures],
    own: ProbeAnswers,
    random: ProbeScores | None,
    knowledge: RelationKnowledge,
) -> list[str]:
    """Return what to keep in mind: what was left out, and what flatters."""
    notes = []
    readable = np.concatenate([one.readable for one in seen])
    n_lost = int((~readable).sum())
    if n_lost:
        why = "cut off, blank or without words that say the relation" if settings.trigger else "cut off or blank"
        notes.append(f"{name} could not read {n_lost:,} of {len(readable):,} triples ({why}); they are left out.")
    unknown = len(seen[1].facts()) - len(own.truth)
    if unknown:
        notes.append(f"{unknown:,} test triples have relations that no training triple has; only the gate saw them.")
    untested = set(own.which.classes) - set(own.truth)
    if untested:
        notes.append(f"{len(untested):,} relations of the training triples have no test triple, so no score.")
    both = {text.text for text in seen[0].rows.texts} & {text.text for text in seen[1].rows.texts}
    if both:
        notes.append(f"{len(both):,} test texts are training texts, too; the scores flatter.")
    if settings.trigger and random is not None:
        chance = 1 / len(own.which.classes)
        if random.accuracy - chance > (own.scores.accuracy - chance) / 2:
            notes.append(
                f"The form of {name} with random weights names the relation in {100 * random.accuracy:.1f} % of the "
                "cases: the words that say it give it away to any classifier. Look at pairs alone, without these words."
            )
    if knowledge.held_out_by == "text":
        notes.append(
            "Pairs of entities tie most texts together, so triples were held out for --scores by their texts alone: a "
            "classifier may have seen the same pair in another text, and the scores flatter."
        )
    if knowledge.n_unlearned:
        notes.append(
            f"{knowledge.n_unlearned:,} triples have score 0 in --scores: all others were of one relation, which is "
            "nothing to learn from."
        )
    for what, model in (("gate", own.gate), ("relation classifier", own.which)):
        if not model.converged:
            notes.append(f"The {what} stopped before it had converged; its weights are not the best ones.")
    return notes
