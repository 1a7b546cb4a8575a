"""The entities that a tagger finds, marked in the text: one line without knowledge, one with it, and others."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from infuser.analysis.explanation import Entity, Explanation
from infuser.reports.figures import COLOURS
from infuser.reports.page import escaped


def entity_lines(explanation: Explanation) -> str:
    """Return the text once per reading with its entities marked; nothing for a model that finds none.

    What differs is framed: from the line with knowledge, and on that line from the one without.
    """
    plain, infused = explanation.entities_plain, explanation.entities_infused
    if plain is None or infused is None:
        return ""
    readings = {"without knowledge": plain}
    if explanation.found:  # else a plain tagger
        readings["with knowledge"] = infused
    readings |= {f"without {name}": found for name, found in explanation.entities_without.items()}
    kinds = sorted({one[2] for found in readings.values() for one in found})
    lines = [
        _line(explanation.text, name, found, plain if found is infused else infused, kinds)
        for name, found in readings.items()
    ]
    return f"<h3>Entities</h3>{''.join(lines)}"


def _line(text: str, name: str, found: Sequence[Entity], other: Collection[Entity], kinds: Sequence[str]) -> str:
    elsewhere = {one[:3] for one in other}
    pieces, end_before = [], 0
    for start, end, label, probability in found:
        differs = (start, end, label) not in elsewhere
        kind = f"type-{kinds.index(label) % len(COLOURS)}{' differs' if differs else ''}"
        about = f"{label} {probability:.2f}{', differs' if differs else ''}"
        marked = f'<mark class="{kind}">{escaped(text[start:end])}<small>{escaped(about)}</small></mark>'
        pieces += [escaped(text[end_before:start]), marked]
        end_before = end
    title = f"{name}{'' if found else ': none'}"
    words = "".join([*pieces, escaped(text[end_before:])])
    return f'<p class="tagged"><small>{escaped(title)}</small><span>{words}</span></p>'
