"""What `infuser select` tells: how much of each source is injected, and with --explain what is dropped and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from infuser.cli.telling import counting
from infuser.types import Annotations, Source, entity_key
from infuser.words import counted

if TYPE_CHECKING:
    from infuser.analysis.select import SelectionReport
    from infuser.sources.known import Known
    from infuser.sources.selective import Strategy


def tell_scores(
    console: Console, known: Known, about: Mapping[str, Any], found: Sequence[tuple[Annotations, ...]]
) -> None:
    """Print how many of a file's scores concern what the sources found, and what speaks against using them."""
    each = [one for of_text in found for one in of_text]
    of_entities, of_relations = known.to_json()["scores"], known.relations or {}
    entities, relations = known.scored(each)
    told = f"{len(entities):,} of {len(of_entities):,} scored entities"
    if of_relations:
        told += f" (and {len(relations):,} of {len(of_relations):,} relations)"
    console.print(f"{told} occur in what the sources found", highlight=False)
    verdict = about.get("verdict", "knows")  # other measures give none
    if verdict != "knows":
        _warn(console, f"the probe's verdict was {verdict!r}, so these scores do not show what the encoder knows.")
    if of_entities and not entities:
        named = sorted({entity_key(one.text, span) for one in each for span in one.spans})
        _warn(console, _unmet("entity", min(of_entities), named))
    linked = sorted({link.relation for one in each for link in one.links if link.relation})
    if of_relations and linked and not relations:  # many sources name no relations at all
        _warn(console, _unmet("relation", min(of_relations), linked))


def _unmet(what: str, scored: str, found: Sequence[str]) -> str:
    said = f"and the sources say, for one, {found[0]!r}" if found else "and the sources found nothing"
    return (
        f"no scored {what} occurs, so none is left out. The scores say, for one, {scored!r} {said}. Score the names "
        "that your sources use."
    )


def _warn(console: Console, warning: str) -> None:
    console.print(f"Warning: {warning}", style="yellow", markup=False, highlight=False)


def tell_selection(
    console: Console,
    told: Console,
    sources: Sequence[Source],
    found: Sequence[tuple[Annotations, ...]],
    strategy: Strategy,
    counts: dict[str, int],
    *,
    explain: bool,
    show: int,
    draws: int,
) -> None:
    """Print what a strategy keeps and drops of each source."""
    from infuser.analysis.select import explain_selection
    from infuser.sources import Sampling, Selective
    from infuser.sources.naming import source_names

    counted_by = None if isinstance(strategy, Sampling) else counts
    for place, (name, source) in enumerate(zip(source_names(sources), sources, strict=True)):
        with counting(told, f"selecting from {name}") as tell:
            report = explain_selection(
                Selective(source, strategy),
                [of_text[place] for of_text in found],
                n_draws=draws if explain else 1,
                reasons=explain,
                frequencies=counted_by,
                tell=tell,
            )
        console.print(
            f"[b]{escape(name)}[/b]: {report.kept:.1%} of the mentions it found are injected in training "
            f"({counted(len(report.entities), 'entity').replace('entitys', 'entities')} in "
            f"{counted(report.n_texts, 'text')}, {counted(report.n_draws, 'draw')})",
            highlight=False,
        )
        if report.relations:
            n_links = sum(one.n_links for one in report.relations)
            console.print(
                f"  {counted(n_links, 'link')} of {counted(len(report.relations), 'relation')} that the encoder knows "
                "are left out",
                highlight=False,
            )
        if explain:
            _explain(console, report, show)


def _explain(console: Console, report: SelectionReport, show: int) -> None:
    table = Table("entities", "how many", "in texts", "kept", title="Keep-rates by frequency", title_justify="left")
    for bucket in report.buckets:
        table.add_row(bucket.name, f"{bucket.n_entities:,}", f"{bucket.n_texts:,}", f"{bucket.kept:.1%}")
    for column in table.columns[1:]:
        column.justify = "right"
    console.print(table)
    if report.relations and show:
        known = Table("relation", "links", "why", title="Relations whose links are left out", title_justify="left")
        for fate in report.relations[:show]:
            known.add_row(escape(fate.relation), f"{fate.n_links:,}", escape(fate.why))
        known.columns[1].justify = "right"
        console.print(known)
    dropped = [one for one in report.entities if one.kept < 1][:show]
    if not dropped and not report.relations:
        console.print("Nothing is dropped.")
    if not dropped:
        return
    listed = Table("entity", "in texts", "kept", "why", title="Dropped most often", title_justify="left")
    for one in dropped:
        shown = one.name if one.name.casefold() == one.key.casefold() else f"{one.name} ({one.key})"
        listed.add_row(escape(shown), f"{one.n_texts:,}", f"{one.kept:.0%}", escape(one.why))
    for column in listed.columns[1:3]:
        column.justify = "right"
    console.print(listed)
