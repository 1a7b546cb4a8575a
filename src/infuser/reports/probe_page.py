"""A probe as one web page: the verdict first, then how sure it is, where in the encoder it sits, what is mixed up.

Each section starts with a sentence for a reader who has never heard of probes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Literal

import numpy as np

from infuser.analysis.explanation import Matrix
from infuser.analysis.probe.result import EncoderReading, Importance, ProbeReport, ProbeScores, RelationScore
from infuser.files import write_whole
from infuser.reports.charts import bar, bar_chart, dendrogram, interval_plot, line_chart
from infuser.reports.grids import Panel, heat_map
from infuser.reports.page import (
    document,
    escaped,
    facts_section,
    folded,
    html_row,
    html_table,
    notes_section,
    panels,
    section,
    shown,
    soft,
    table,
    verdict,
)

PAGE, NUMBERS = "probe.html", "probe.json"
_MOST_GAINS = 10
_MOST_CONFUSED = 20
"""So many relations are in the heat map, and so many confusions in the list."""
_SCORES = ("related or not", "which relation", "precision", "recall", "F1")


def write_probe(report: ProbeReport, folder: str | Path) -> Path:
    """Write the page and the same as JSON beside it; return the page's path."""
    folder, names = Path(folder), report.names
    title = f"What {names[0]} knows about relations" if len(names) == 1 else f"Relations in {names[0]} and {names[1]}"
    named = dict(zip(names, report.readings, strict=True))
    parts = [
        verdict(report.sentence, _colour(report)),
        *(f"<p>{escaped(one)}</p>" for one in report.sentences if one != report.sentence),
        notes_section(report.notes),
        score_section(named),
        layer_section(named),
        gain_section(report),
    ]
    for name, reading in named.items():
        of = name if len(named) > 1 else ""
        parts += [importance_section(reading, of), tree_section(reading, of), confusion_section(reading, of)]
    parts += [relation_section(named), facts_section(report.facts), folded("Versions", report.versions)]
    write_whole(folder / NUMBERS, report.to_json())
    return write_whole(folder / PAGE, document(title, parts))


def _colour(report: ProbeReport) -> str:
    """Return the class of the verdict: green for knowledge found or gained, red for knowledge lost."""
    if report.change is not None:
        return {"more": "helps", "less": "hurts"}.get(report.change, "no evidence")
    return "helps" if report.readings[0].verdict == "knows" else "no evidence"


def score_section(readings: Mapping[str, EncoderReading]) -> str:
    """Return the scores of every encoder beside its controls and chance, and what is left over each."""
    tables = []
    for name, reading in readings.items():
        beside = {**reading.controls, "chance": reading.chance}
        rows = [["this encoder", *_cells(reading.scores)]]
        rows += [[control, *_cells(scores)] for control, scores in beside.items()]
        rows += [[f"gain over {control}", *_cells(reading.scores, minus=scores)] for control, scores in beside.items()]
        tables.append((name, rows))
    if len(readings) == 2:
        (one, first), (other, second) = readings.items()
        tables.append((f"{other} minus {one}", [["difference", *_cells(second.scores, minus=first.scores)]]))
    how = (
        "A simple classifier looks only at the encoder's own numbers, first asking whether two things are related at "
        "all, then how; what counts is how far it gets beyond an encoder that has learned nothing (random weights), "
        "beyond labels without a meaning (shuffled labels), and beyond guessing (chance). The first two columns are "
        "shares of right answers, the others are means over all relations."
    )
    drawn = [
        (f"<h3>{escaped(title)}</h3>" if len(tables) > 1 else "") + table(["", *_SCORES], rows)
        for title, rows in tables
    ]
    return section("How well relations can be read", soft(how), *drawn)


def layer_section(readings: Mapping[str, EncoderReading]) -> str:
    """Return the curves of both scores over layers, for attention and embeddings as far as they were read."""
    curves = {f"{kind} of {name}": of for name, one in readings.items() for kind, of in one.layers.items()}
    numbers = [layer for curve in curves.values() for layer, _, _ in curve]
    if not numbers:
        return ""
    chance = next(iter(readings.values())).chance
    curves["chance"] = [(layer, chance.binary, chance.f1) for layer in (min(numbers), max(numbers))]
    gate = {name: [(layer, binary) for layer, binary, _ in curve] for name, curve in curves.items()}
    relations = {name: [(layer, f1) for layer, _, f1 in curve] for name, curve in curves.items()}
    how = (
        "The same test with the numbers of one layer alone, from the first layer to the last: where a line is high, "
        "that layer alone distinguishes relations. States (embeddings) at 0 are those before the first block; "
        "attention at k reads states k."
    )
    asked = (("Is it a relation?", "accuracy", gate), ("Which relation is it?", "macro F1", relations))
    charts = [
        _half(title, line_chart(points, label=f"{title}, by layer", x_name="layer", y_name=unit, whole=True))
        for title, unit, points in asked
    ]
    return section("Which layers know it", soft(how), panels(charts))


def gain_section(report: ProbeReport) -> str:
    """Return the relations that the second encoder names most better and most worse than the first."""
    gains = list(report.gains.items())
    if not gains:
        return ""
    one, other = report.names
    lists = []
    for title, some in (
        (f"Most gained by {other}", [gain for gain in gains if gain[1] > 0][:_MOST_GAINS]),
        (f"Most lost by {other}", [gain for gain in reversed(gains) if gain[1] < 0][:_MOST_GAINS]),
    ):
        chart = interval_plot(
            {_named(report.label(relation), relation): [(title, by, None)] for relation, by in some},
            label=f"{title}: difference of F1",
        )
        lists.append(_half(title, chart or soft("none")))
    how = (
        f"How much better or worse each relation is recognised in {other} than in {one}, as a difference of "
        "F1; with few test triples per relation the largest differences are partly luck."
    )
    return section("What changed, by relation", soft(how), panels(lists))


def importance_section(reading: EncoderReading, of: str = "") -> str:
    """Return where the classifiers look: layers by heads, then directions and layers alone."""
    asked = (
        ("Is it a relation?", reading.importance_gate),
        ("Which relation is it?", reading.importance_relations),
    )
    parts = [
        f"<h3>{escaped(title)}</h3>{_importance(title, weights, reading.directions)}"
        for title, values in asked
        if (weights := _relative(values)) is not None
    ]
    if not parts:
        return ""
    how = (
        "How much weight the classifiers give to each attention head, where 1 is the average head; directions are who "
        "attends to whom, so head>tail is the attention of the first thing to the second. Bars of about the same "
        "length mean that the knowledge is spread."
    )
    return section(_title("Where in the encoder it sits", of), soft(how), *parts)


def tree_section(reading: EncoderReading, of: str = "") -> str:
    """Return the tree of relations by how alike their weights are."""
    names = [_named(reading.label(relation), relation) for relation in reading.linked]
    group_of = {relation: number for number, group in enumerate(reading.clusters) for relation in group}
    groups = [group_of.get(relation) for relation in reading.linked] if group_of else []
    tree = dendrogram(reading.linkage, names, groups)
    if not tree:
        return ""
    how = (
        "Relations that are read from the same heads join early, near their names; if those are also alike in meaning, "
        "the encoder has put them in order. The axis is the cosine distance between the classifier's weights"
    )
    how += "; branches of one colour are a group." if groups else "."
    return section(_title("Which relations are alike inside", of), soft(how), tree)


def confusion_section(reading: EncoderReading, of: str = "") -> str:
    """Return the relations that are most often taken for each other, as a heat map and as a list."""
    if not reading.confusions:
        return ""
    n_of = {one.relation: one.n for one in reading.relations}
    items = [
        f"<li>{escaped(_named(reading.label(true), true, 80))} → {escaped(_named(reading.label(taken), taken, 80))} "
        f"<small>{_how_often(times, n_of.get(true, 0))}</small></li>"
        for true, taken, times in reading.confusions[:_MOST_CONFUSED]
    ]
    how = (
        "Which relation (left) is most often taken for which other (right or above), and in how many of its test "
        "triples; near relations should be mixed up more often than far ones. Right answers are left out."
    )
    more = len(reading.confusions) - _MOST_CONFUSED
    rest = soft(f"{more:,} more pairs are in the JSON beside this page.") if more > 0 else ""
    title, listed = _title("Which relations are taken for others", of), f"<ol>{''.join(items)}</ol>"
    return section(title, soft(how), _confusion_map(reading, n_of), listed, rest)


def relation_section(readings: Mapping[str, EncoderReading]) -> str:
    """Return every relation with its scores, the best F1 of the first encoder first."""
    first, *others = readings.values()
    if not first.relations:
        return ""
    head = ["relation", "id", "F1", "precision", "recall", "test triples"]
    if others:
        head = [*head[:2], *(f"F1 of {name}" for name in readings), "difference", *head[3:]]
    second = {one.relation: one for reading in others for one in reading.relations}
    ordered = sorted(first.relations, key=lambda one: (-one.f1 if math.isfinite(one.f1) else 1.0, one.relation))
    lines = "".join(_relation_line(one, second.get(one.relation), bool(others)) for one in ordered)
    how = (
        "Every relation, the best recognised first: precision is how often its name is right when it is given, "
        "recall how many of its triples get it, F1 is high only if both are."
    )
    if others:
        how += f" Precision, recall and the order are those of {next(iter(readings))}."
    return section("All relations", soft(how), html_table(head, [lines]))


def _importance(title: str, weights: Matrix, directions: Sequence[str]) -> str:
    """Return the heat map of (layers, heads, directions) and its two margins; 1 is the average."""
    n_layers, n_heads, n_directions = weights.shape
    layers = [f"layer {number}" for number in range(n_layers)]
    heads = [f"head {number}" for number in range(n_heads)]
    by_head = weights.mean(axis=2)
    names = directions if len(directions) == n_directions else [f"direction {at}" for at in range(n_directions)]
    top = max(float(by_head.max()), 1e-9)
    drawn = heat_map(Panel(by_head, top), layers, heads, title="layers and heads", n_words=n_heads)
    margins = (("direction", names, weights.mean(axis=(0, 1))), ("layer", layers, weights.mean(axis=(1, 2))))
    bars = [
        _half(what, bar_chart(dict(zip(rows, values.tolist(), strict=True)), label=f"{title} By {what}", at=1.0))
        for what, rows, values in margins
    ]
    return panels([drawn]) + panels(bars)


def _half(title: str, drawn: str) -> str:
    """Return a figure of half the width of a page; on a phone, of the whole width."""
    return f'<figure class="half"><figcaption>{escaped(title)}</figcaption>{drawn}</figure>'


def _relative(values: Importance) -> Matrix | None:
    """Return weights as multiples of their mean; None if there are none."""
    weights = np.nan_to_num(np.asarray(values, dtype=float), posinf=0.0, neginf=0.0)
    if weights.ndim != 3 or weights.size == 0 or weights.mean() <= 0:
        return None
    relative: Matrix = weights / weights.mean()
    return relative


def _confusion_map(reading: EncoderReading, n_of: Mapping[str, int]) -> str:
    """Return the most confused relations as a heat map: the share of a row's triples that got a column's name."""
    chosen: list[str] = []
    for true, taken, _ in reading.confusions:
        new = [relation for relation in dict.fromkeys((true, taken)) if relation not in chosen]
        if len(chosen) + len(new) <= _MOST_CONFUSED:
            chosen += new
    places = {relation: at for at, relation in enumerate(chosen)}
    shares = np.zeros((len(chosen), len(chosen)))
    for true, taken, times in reading.confusions:
        if true in places and taken in places and n_of.get(true):
            shares[places[true], places[taken]] = times / n_of[true]
    if not shares.any():
        return ""
    names = [_named(reading.label(relation), relation, 22) for relation in chosen]
    title = "share of a row's triples that got the name of the column"
    return heat_map(Panel(shares, float(shares.max()), "root"), names, names, title=title, label_width=32)


def _relation_line(one: RelationScore, other: RelationScore | None, compared: bool) -> str:
    cells = [escaped(shown(one.label or one.relation, 60)), escaped(one.relation), _bar(one.f1)]
    if compared:
        cells += ["", ""] if other is None else [_bar(other.f1), _number(other.f1 - one.f1, "+")]
    cells += [_number(one.precision), _number(one.recall), f"{one.n:,}"]
    return html_row(cells)


def _bar(value: float) -> str:
    return f"{bar(value)} {value:.3f}" if math.isfinite(value) else "unknown"


def _named(label: str, relation: str, width: int = 38) -> str:
    """Return a name and its id; the name is cut to `width` signs, so that the id stays visible."""
    return relation if label == relation or not label else f"{shown(label, width)} · {relation}"


def _how_often(times: int, n: int) -> str:
    return f"{times:,} of {n:,} ({100 * times / n:.0f} %)" if n else f"{times:,} times"


def _title(title: str, of: str) -> str:
    return f"{title}: {of}" if of else title


def _cells(scores: ProbeScores, minus: ProbeScores | None = None) -> list[str]:
    """Return scores as cells of a table, or their differences to others."""
    if minus is None:
        return [_number(value) for value in astuple(scores)]
    return [_number(one - other, "+") for one, other in zip(astuple(scores), astuple(minus), strict=True)]


def _number(value: float, sign: Literal["", "+"] = "") -> str:
    return f"{value:{sign}.3f}" if math.isfinite(value) else "unknown"
