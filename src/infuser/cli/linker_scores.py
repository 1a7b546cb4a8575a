"""How right a linker is, beside linkers that read no text, told as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from infuser.cli.linker_data import check_found
from infuser.words import counted

if TYPE_CHECKING:
    from infuser.infused import Infused
    from infuser.linking.examples import LinkedText
    from infuser.linking.scores import LinkScores
    from infuser.sources import KnowledgeBase

_COLUMNS = {
    "precision": "precision",
    "recall": "recall",
    "f1": "F1",
    "ceiling": "ceiling",
    "in_candidate_accuracy": "in-candidate accuracy",
}


def score_linker(
    infused: Infused,
    base: KnowledgeBase,
    gold: Sequence[LinkedText],
    *,
    threshold: float | None = None,
    batch_size: int = 32,
    progress: bool = False,
) -> dict[str, LinkScores]:
    """Return the scores of a model's linker for one knowledge base, below those of linkers that read no text."""
    from infuser.linking.baselines import entity_totals, most_frequent, prior_only
    from infuser.linking.inference import find_mentions
    from infuser.linking.scores import score_links
    from infuser.sources import Candidates

    texts = [one.text for one in gold]
    found = prior_only(texts, base)
    check_found(sum(map(len, found)), len(texts), base)
    scores = {"prior only": score_links(gold, found)}
    if isinstance(base.candidates, Candidates):
        totals = entity_totals(base.candidates.finder.store)
        scores["most frequent"] = score_links(gold, most_frequent(texts, base, totals))
    linked = find_mentions(infused, texts, threshold=threshold, batch_size=batch_size, progress=progress)
    mentions = [[mention for mention in of_text if mention.base == base.name] for of_text in linked]
    scores["linker"] = score_links(gold, mentions)
    return scores


def tell_scores(console: Console, scores: dict[str, LinkScores]) -> None:
    """Print the scores of several linkers as a table, with 95 % intervals where there are enough documents."""
    table = Table("", *_COLUMNS.values())
    table.columns[0].no_wrap = True
    for column in table.columns[1:]:
        column.justify = "right"
    for name, of_linker in scores.items():
        total, intervals = of_linker.total, of_linker.intervals()
        cells = []
        for measure in _COLUMNS:
            ends = intervals[measure]
            within = "" if ends is None else f"\n{ends[0]:.2f}-{ends[1]:.2f}"
            cells.append(f"{getattr(total, measure):.3f}{within}")
        table.add_row(name, *cells, end_section=True)
    console.print(table, markup=False)
    linker = scores["linker"]
    counts = linker.total
    console.print(
        f"{counted(counts.gold, 'gold mention')} in {counted(len(linker.documents), 'document')}: {counts.found:,} "
        f"found as a span, {counts.offered:,} with the right entity among the candidates; {counts.linked:,} linked, "
        f"{counts.right:,} rightly",
        highlight=False,
        soft_wrap=True,
    )
