"""What `infuser explain` prints: what each source found, the answers, and where attention changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infuser.cli.console import print_table, say
from infuser.words import counted

if TYPE_CHECKING:
    from infuser.analysis.explanation import Explanation

_MOST_LINES = 20
"""So many links of one source are printed; the page shows them all."""


def print_explanation(explanation: Explanation) -> None:
    """Print what was found in a text, and what it changed."""
    _print_found(explanation)
    _print_answers(explanation)
    _print_entities(explanation)
    _print_changes(explanation)


def _print_found(explanation: Explanation) -> None:
    from infuser.reports.marked_text import ties_as_text

    for name, one in explanation.found.items():
        counts = (counted(len(one.spans), "span"), counted(len(one.links), "link"), counted(len(one.terms), "term"))
        say(f"{name} found {', '.join(counts)}{', left out' if name in explanation.off else ''}", style="bold")
        lines = list(ties_as_text(one))
        for line in lines[:_MOST_LINES]:
            say(f"  {line}")
        if len(lines) > _MOST_LINES:
            say(f"  and {len(lines) - _MOST_LINES} more")
    if explanation.written:
        say(f"written behind the text: {explanation.written}", style="bold")
    if methods := [name for name in explanation.off if name not in explanation.found]:
        say(f"switched off: {', '.join(methods)}", style="bold")


def _print_entities(explanation: Explanation) -> None:
    before, after, without = explanation.entities_plain, explanation.entities_infused, explanation.entities_without
    if before is None or after is None:
        return
    readings = [{one[:3]: f"{one[3]:.3f}" for one in found} for found in (before, after, *without.values())]
    rows = [
        (
            " ".join(explanation.text[start:end].split()),
            label,
            *(found.get((start, end, label), "-") for found in readings),
        )
        for start, end, label in sorted({one for found in readings for one in found})
    ]
    if not rows:
        say("No entity was found, neither without knowledge nor with it.")
        return
    headers = ("entity", "type", "without knowledge", "with knowledge", *(f"without {name}" for name in without))
    print_table(headers, rows)


def _print_answers(explanation: Explanation) -> None:
    before, after, without = explanation.answer_plain, explanation.answer_infused, explanation.answers_without
    if before is None or after is None:
        return
    rows = []
    for label, value in after.items():
        others = (f"{answer[label]:.3f}" for answer in without.values())
        rows.append((label, f"{before[label]:.3f}", f"{value:.3f}", f"{value - before[label]:+.3f}", *others))
    headers = ("answer", "without knowledge", "with knowledge", "change", *(f"without {name}" for name in without))
    print_table(headers, rows)


def _print_changes(explanation: Explanation) -> None:
    changes, words = explanation.largest_changes(5), explanation.words
    if not any(found.spans for found in explanation.found.values()):
        say("No source knows anything about this text. Are names spelled as in the text?", style="yellow")
    if explanation.warning:
        say(explanation.warning, style="yellow")
    if not changes:
        say(f"Knowledge did not change the attention of {explanation.place}.")
        return
    say(f"Largest changes of attention in {explanation.place}:")
    for row, column in changes:
        before, after = explanation.plain[row, column], explanation.infused[row, column]
        say(f"  {words[row]} reads {words[column]}: {before:.4f} -> {after:.4f}")
    strongest = explanation.strongest
    if strongest is not None and strongest != (explanation.layer, explanation.head):
        say(f"Attention changes most with --layer {strongest[0]} --head {strongest[1]}")
