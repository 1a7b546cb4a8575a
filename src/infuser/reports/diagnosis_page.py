"""A diagnosis as one web page: the sentence first, then its evidence; each picture with how to read it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from infuser.analysis.diagnose.result import Bucket, Diagnosis, Flip
from infuser.files import write_whole
from infuser.reports.charts import Mark, interval_plot, line_chart
from infuser.reports.explanation_page import explanation_section
from infuser.reports.page import (
    bullets,
    document,
    escaped,
    facts_section,
    folded,
    notes_section,
    section,
    soft,
    table,
    verdict,
)
from infuser.reports.report import results_section
from infuser.reports.table import Grid
from infuser.stats.comparison import signed_range

PAGE, NUMBERS = "diagnosis.html", "diagnosis.json"
_MOST_FLIPS = 25
"""So many examples of a list are on the page; the JSON has all of them."""


def write_diagnosis(diagnosis: Diagnosis, folder: str | Path) -> Path:
    """Write the page and the same as JSON beside it; return the page's path."""
    folder = Path(folder)
    parts = [
        verdict(diagnosis.sentence, diagnosis.verdict or "none"),
        notes_section(diagnosis.notes),
        _results(diagnosis),
        _buckets(diagnosis),
        _corruption(diagnosis),
        _channels(diagnosis),
        _flips(diagnosis),
        *(f"<h3>{escaped(one.title)}</h3>{explanation_section(one)}" for one in diagnosis.explanations),
        _angles(diagnosis),
        _spectra(diagnosis),
        facts_section(diagnosis.facts),
        folded("Versions", diagnosis.versions),
    ]
    write_whole(folder / NUMBERS, diagnosis.to_json())
    return write_whole(folder / PAGE, document(diagnosis.title, parts))


def _results(diagnosis: Diagnosis) -> str:
    comparison = diagnosis.comparison
    return "" if comparison is None else results_section(comparison, bullets(comparison.verdicts))


def _buckets(diagnosis: Diagnosis) -> str:
    if not diagnosis.buckets:
        return ""
    arms = list(diagnosis.buckets[0].values)
    compared = arms[1:]
    drawn = bucket_grid(diagnosis.buckets).to_html()
    chart = interval_plot(
        {f"{bucket.name} ({bucket.n_examples:,})": _marks(bucket, arms) for bucket in diagnosis.buckets},
        label=f"Difference of {diagnosis.metric} to {arms[0]} by how frequent the rarest entity is",
        before=1,  # the baseline has the first colour
    )
    how = "Texts are grouped by their rarest entity; knowledge should help most where entities are rare."
    if compared:
        how += (
            f" A dot right of the dashed line is a gain over {arms[0]}, and its line is the 95 % interval over test "
            "examples: one that crosses the dashed line is no evidence."
        )
    return section("By how frequent the entities are", soft(how), chart, drawn)


def bucket_grid(buckets: Sequence[Bucket]) -> Grid:
    """Return the scores of the arms, and their differences to the first, by how frequent the rarest entity is."""
    first, *others = buckets[0].values
    head = ["rarest entity of the text", "examples", first, *others, *(f"{arm} minus {first}, 95 %" for arm in others)]
    body = [
        [
            bucket.name,
            f"{bucket.n_examples:,}",
            *map(_score, bucket.values.values()),
            *(signed_range(bucket.differences.get(arm)) for arm in others),
        ]
        for bucket in buckets
    ]
    return Grid(head, body)


def _marks(bucket: Bucket, arms: Sequence[str]) -> list[Mark]:
    base = bucket.values[arms[0]]
    reached = [(arm, bucket.values[arm]) for arm in arms[1:]]
    return [
        (arm, value - base, bucket.differences.get(arm))
        for arm, value in reached
        if value is not None and base is not None
    ]


def _corruption(diagnosis: Diagnosis) -> str:
    chart = line_chart(
        diagnosis.corruption,
        label=f"{diagnosis.metric} against the share of wrong entities",
        x_name="share of entities that are taken for others while answering",
        y_name=diagnosis.metric,
    )
    how = (
        "A model that reads its knowledge loses as links become wrong; where its line falls below a level one, it "
        "would do better without. A flat line means that the model does not look at the links, or that there are none "
        "between two entities."
    )
    return section("When links are wrong", soft(how), chart) if chart else ""


def _channels(diagnosis: Diagnosis) -> str:
    if not diagnosis.channels:
        return ""
    effects = [(channel.name, channel.difference) for channel in diagnosis.channels]
    chart = interval_plot(
        {name: [(diagnosis.metric, one.mean, one.over_examples)] for name, one in effects},
        label=f"What each source adds to {diagnosis.metric}",
    )
    drawn = table(
        ["source", f"{diagnosis.metric} it adds", "95 % over seeds", "95 % over examples", ""],
        [
            [name, f"{one.mean:+.3f}", signed_range(one.over_seeds), signed_range(one.over_examples), one.verdict]
            for name, one in effects
        ],
    )
    how = (
        "The trained model answers with every source and with every source but this one: right of the dashed line the "
        "source helps the model, left of it the model would answer better without."
    )
    return section("What each source does", soft(how), chart, drawn)


def _flips(diagnosis: Diagnosis) -> str:
    if diagnosis.comparison is None:
        return ""
    lists = []
    for mended, title in (
        (True, "Mended: wrong without knowledge, right with it"),
        (False, "Spoilt: right without knowledge, wrong with it"),
    ):
        flips = diagnosis.clearest(mended=mended)
        items = "".join(f"<li>{_flip(flip)}</li>" for flip in flips[:_MOST_FLIPS]) or "<li>none</li>"
        more = len(flips) - _MOST_FLIPS
        rest = soft(f"{more:,} more are in {NUMBERS}.") if more > 0 else ""
        lists.append(f"<h3>{title} ({len(flips):,})</h3><ol>{items}</ol>{rest}")
    how = (
        "Test examples that the plain and the infused model answer differently in most seeds, the largest change "
        "first; the numbers are the mean probability of the right label, before and after."
    )
    return section("Which answers changed", soft(how), *lists)


def _flip(flip: Flip) -> str:
    sides = " / ".join(escaped(side) for side in (flip.text, flip.pair) if side is not None)
    seeds = f"{flip.n_seeds} seed{'' if flip.n_seeds == 1 else 's'}"
    return f"{sides} <small>{escaped(flip.label)}: {flip.before:.2f} → {flip.after:.2f}, in {seeds}</small>"


def _angles(diagnosis: Diagnosis) -> str:
    chart = line_chart(
        diagnosis.angles,
        label="Cosine of the corresponding angles between pretrained and fine-tuned weights",
        x_name="singular rank, as a share of all",
        y_name="cosine",
    )
    how = (
        "1 means that fine-tuning left a direction of the pretrained weights as it was; directions on the left carry "
        "most of what the encoder knows, and a low line there means that fine-tuning has overwritten it."
    )
    return section("What fine-tuning changed in the weights", soft(how), chart) if chart else ""


def _spectra(diagnosis: Diagnosis) -> str:
    points = {
        name: [(float(rank), value) for rank, value in enumerate(values, start=1)]
        for name, values in diagnosis.spectra.items()
    }
    chart = line_chart(
        points,
        label="Singular values of the features",
        x_name="rank",
        y_name="singular value, logarithmic",
        log=True,
    )
    how = (
        "The features of the test examples, taken apart into directions, the strongest first. With enough training "
        "examples the weak ones tend to fade by themselves; a tail that stays high with few examples is what a "
        "spectral penalty (infuser train --spectral) shrinks."
    )
    return section("How many directions the features have", soft(how), chart) if chart else ""


def _score(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3f}"
