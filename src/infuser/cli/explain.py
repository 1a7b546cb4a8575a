"""`infuser explain`: what each source found in a text, and what it did to attention and answer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from infuser.cli.console import loading, print_json, print_table, say
from infuser.cli.knowledge_options import SourceOptions
from infuser.cli.options import argument, option, option_groups
from infuser.errors import InputError
from infuser.words import counted

if TYPE_CHECKING:
    from infuser.analysis.explanation import Explanation

_MOST_LINES = 20
"""So many links of one source are printed; the page shows them all."""


@option_groups
def explain(
    model: Annotated[
        str, argument("Folder that `infuser train` wrote; or a checkpoint, infused with the knowledge named.")
    ],
    text: Annotated[str, option("The text.")],
    pair: Annotated[str | None, option("The other side of a sentence pair.")] = None,
    layer: Annotated[
        str,
        option(
            "Layer whose attention is drawn, from 0; -1 is the last. Or the layer and head that change most.",
            metavar="N|strongest",
        ),
    ] = "-1",
    head: Annotated[str, option("Head of that layer, from 0, or the mean over heads.", metavar="N|mean")] = "mean",
    off: Annotated[
        list[str] | None, option("Leave out a source or, of several methods, a method. Repeatable.", metavar="NAME")
    ] = None,
    as_json: Annotated[bool, option("Print everything as JSON instead, and draw nothing.", "--json")] = False,
    out: Annotated[Path, option("Folder for explanation.png and explanation.html.")] = Path("runs/explain"),
    *,
    sources: SourceOptions,
) -> None:
    """Show what knowledge does to one text: what was found, each map, attention and answer with and without.

    Draws a picture (PNG) and a page (HTML, one file, nothing fetched) with
    words on both axes. Knowledge named here takes the place of what was
    saved with the model. `infuser view` shows the same live, in a browser.

    Examples:
      infuser explain runs/mine/model --text "buy glipizide" --pair "drug store"
      infuser explain runs/mine/model --text "buy glipizide" --layer strongest --off graph --json
      infuser explain minilm --text "Bern lies on the Aare" --entities names.txt
    """
    which, where = _number("head", head, "mean"), _number("layer", layer, "strongest")
    named = sources.read()
    with loading("the model") as progress:
        from infuser.analysis.explain import explain as explain_text
        from infuser.hosts.checkpoints import is_infused
        from infuser.opening import open_infused

        infused = open_infused(model, named, progress=progress)
    explanation = explain_text(
        infused, text, pair, layer="strongest" if where is None else where, head=which, off=off or ()
    )
    if as_json:
        print_json(explanation.to_dict(), indent=None)  # matrices: one line
        return
    from infuser.reports import write_explanation, write_png

    _print_found(explanation)
    _print_answers(explanation)
    _print_entities(explanation)
    _print_changes(explanation)
    if not is_infused(model):
        say("This model is freshly infused: knowledge changes it once it is trained, see infuser train --help.")
    picture = write_png(explanation, out / "explanation.png")
    page = write_explanation(explanation, out / "explanation.html")
    say(f"\nPicture: {picture}\nPage:    {page}")


def _number(option: str, given: str, word: str) -> int | None:
    """Return the number that was given, None for the word that may stand in its place."""
    if given == word:
        return None
    try:
        return int(given)
    except ValueError as error:
        raise InputError(f"--{option} {given!r} is neither a number nor {word!r}.") from error


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
