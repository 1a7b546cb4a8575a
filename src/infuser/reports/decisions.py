"""What a model decided about a text, as tables of a page: its answer, the relations it read, what names mean."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from infuser.linking.mentions import Mention, ScoredCandidate
from infuser.reports.charts import bar
from infuser.reports.page import escaped, html_row, html_table, soft
from infuser.types import Annotations, Link, Span
from infuser.words import counted

_MOST_LABELS, _MOST_CANDIDATES, _MOST_MENTIONS, _MOST_TRIPLES = 20, 8, 40, 100


def answer_table(
    without: Mapping[str, float], infused: Mapping[str, float], leaving_out: Mapping[str, Mapping[str, float]]
) -> str:
    """Return the answer label by label: without knowledge, with it, and without each single source."""
    answers = [without, infused, *leaving_out.values()]
    labels = list(dict.fromkeys(label for answer in answers for label in answer))
    kept = sorted(labels, key=lambda label: -max(answer.get(label, -math.inf) for answer in answers))[:_MOST_LABELS]
    best = [max(answer.values(), default=math.inf) if len(labels) > 1 else math.inf for answer in answers]
    # a share can be drawn as a bar, but not a number that may be anything
    are_shares = all(0 <= value <= 1 for answer in answers for value in answer.values())
    rows = []
    for label in filter(set(kept).__contains__, labels):
        cells = [
            _share(answer.get(label), with_bar=are_shares, strong=answer.get(label) == top)
            for answer, top in zip(answers, best, strict=True)
        ]
        change = f"{infused[label] - without[label]:+.3f}" if label in without and label in infused else ""
        rows.append((escaped(str(label)), *cells[:2], change, *cells[2:]))
    head = ("", "without knowledge", "with knowledge", "change", *(f"without {name}" for name in leaving_out))
    more = len(labels) - len(kept)
    return html_table(head, ["".join(map(html_row, rows))]) + (
        soft(f"And {counted(more, 'label')} more.") if more else ""
    )


def triples_table(triples: Sequence[Mapping[str, Any]]) -> str:
    """Return the relations that were read, each with the heads that decided; a live page lets people press them."""
    rows = [
        html_row(
            (
                escaped(one["head"]["text"]),
                escaped(_relation(one)),
                escaped(one["tail"]["text"]),
                f"{one['probability']:.3f}",
                " ".join(map(_head, one.get("heads", ()))),
            ),
            numbers={3},
        )
        for one in triples[:_MOST_TRIPLES]
    ]
    more = len(triples) - len(rows)
    head = ("head", "relation", "tail", "probability", "deciding heads")
    table = html_table(head, ["".join(rows)], kind="decisions", numbers={3})
    return table + (soft(f"And {counted(more, 'triple')} more.") if more > 0 else "")


def triples_as_found(text: str, triples: Sequence[Mapping[str, Any]]) -> Annotations:
    """Return relations as spans and links, so that they can be drawn like what a source found."""
    places: dict[tuple[int, int], int] = {}
    spans: list[Span] = []
    links = []
    for triple in triples:
        ends = []
        for end in (triple["head"], triple["tail"]):
            key = (int(end["start"]), int(end["end"]))
            if key not in places:
                places[key] = len(spans)
                spans.append(Span(*key, label=end.get("type", ""), id=end.get("id", "")))
            ends.append(places[key])
        links.append(Link(ends[0], ends[1], float(triple["probability"]), _relation(triple)))
    return Annotations(text, tuple(spans), tuple(links))


def mentions_table(mentions: Sequence[Mention]) -> str:
    """Return what each name may mean, with prior, score and weight; the entity that was chosen is marked."""
    groups = []
    several = len({mention.base for mention in mentions}) > 1
    for mention in mentions[:_MOST_MENTIONS]:
        shown = mention.candidates[:_MOST_CANDIDATES]
        about = [mention.base] if several else []
        about += [] if mention.id is not None else ["linked to nothing"]
        more = len(mention.candidates) - len(shown)
        about += [f"and {more} more that it may mean"] if more else []
        notes = "".join(f"<br/><small>{escaped(note)}</small>" for note in about)
        first = f'<td rowspan="{max(1, len(shown))}">{escaped(" ".join(mention.text.split()))}{notes}</td>'
        rows = [_candidate(one, chosen=one.id == mention.id) for one in shown] or ["<td>nothing that is known</td>"]
        lines = [f"{first}{rows[0]}", *rows[1:]]
        classes = [' class="chosen"' if one.id == mention.id else "" for one in shown] or [""]
        groups.append("".join(f"<tr{kind}>{line}</tr>" for kind, line in zip(classes, lines, strict=True)))
    more = len(mentions) - len(groups)
    head = ("words", "may mean", "prior", "score", "weight")
    table = html_table(head, groups, kind="decisions", numbers={2, 3, 4})
    return table + (soft(f"And {counted(more, 'mention')} more.") if more > 0 else "")


def _candidate(one: ScoredCandidate, *, chosen: bool) -> str:
    mark = " <small>chosen</small>" if chosen else ""
    score = f"{one.score:.2f}" if math.isfinite(one.score) else ""
    weight = f"{one.weight:.3f}" if one.weight else ""
    return (
        f'<td>{escaped(one.id)}{mark}</td><td class="number">{one.prior:.3f} {bar(one.prior)}</td>'
        f'<td class="number">{score}</td><td class="number">{weight}</td>'
    )


def _relation(triple: Mapping[str, Any]) -> str:
    name = str(triple.get("label") or triple["relation"])
    return f"not: {name}" if triple.get("negated") else name


def _head(one: Mapping[str, Any]) -> str:
    layer, head = int(one["layer"]), int(one["head"])
    return (
        f'<button type="button" class="head" data-layer="{layer}" data-head="{head}">layer {layer} head {head}</button>'
        f" <small>{float(one['weight']):+.2f}</small>"
    )


def _share(value: float | None, *, with_bar: bool, strong: bool) -> str:
    if value is None:
        return ""
    number = f"<strong>{value:.3f}</strong>" if strong else f"{value:.3f}"
    return f"{number} {bar(value)}" if with_bar else number
