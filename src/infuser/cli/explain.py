"""`infuser explain`: what each source found in a text, and what it did to attention and answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from infuser.cli.console import loading
from infuser.cli.options import SourceOptions, option_groups
from infuser.errors import InputError
from infuser.words import counted

if TYPE_CHECKING:
    from infuser.analysis.explanation import Explanation

_MOST_LINES = 20
"""So many links of one source are told; the page shows them all."""


@option_groups
def explain(
    model: Annotated[
        str,
        typer.Argument(
            help="Folder that `infuser train` wrote; or a checkpoint, infused on the fly with the knowledge named."
        ),
    ],
    text: Annotated[str, typer.Option(help="The text.", show_default=False)],
    pair: Annotated[str | None, typer.Option(help="The other side of a sentence pair.", show_default=False)] = None,
    layer: Annotated[
        str,
        typer.Option(
            metavar="N|strongest",
            help="Layer whose attention is drawn, from 0; -1 is the last. Or the layer and head that change most.",
        ),
    ] = "-1",
    head: Annotated[
        str, typer.Option(metavar="N|mean", help="Head of that layer, from 0, or the mean over heads.")
    ] = "mean",
    off: Annotated[
        list[str] | None,
        typer.Option(metavar="SOURCE", help="Leave a source out, by its name; may be repeated.", show_default=False),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print everything as JSON instead, and draw nothing.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder for explanation.png and explanation.html.")] = Path("runs/explain"),
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
    console = Console()
    with loading(Console(stderr=True), "the model") as progress:
        from infuser.hosts.checkpoints import is_infused
        from infuser.opening import open_infused

        infused = open_infused(model, named, progress=progress)
    from infuser.analysis.explain import explain as explain_text
    from infuser.reports import write_explanation, write_png

    explanation = explain_text(
        infused, text, pair, layer="strongest" if where is None else where, head=which, off=off or ()
    )
    if as_json:
        print(json.dumps(explanation.to_dict(), ensure_ascii=False, allow_nan=False))
        return
    _tell_found(console, explanation)
    _tell_answers(console, explanation)
    _tell_changes(console, explanation, fresh=not is_infused(model))
    _tell_strongest(console, explanation)
    picture = write_png(explanation, out / "explanation.png")
    page = write_explanation(explanation, out / "explanation.html")
    console.print(f"\nPicture: {picture}\nPage:    {page}", markup=False, highlight=False, soft_wrap=True)


def _number(option: str, given: str, word: str) -> int | None:
    """Return the number that was given, None for the word that may stand in its place."""
    if given == word:
        return None
    try:
        return int(given)
    except ValueError as error:
        raise InputError(f"--{option} {given!r} is neither a number nor {word!r}.") from error


def _tell_found(console: Console, explanation: Explanation) -> None:
    from infuser.reports.marked_text import told_ties

    for name, one in explanation.found.items():
        lines = list(told_ties(one))
        console.print(
            f"[b]{escape(name)}[/b] found {counted(len(one.spans), 'span')}, {counted(len(one.links), 'link')}, "
            f"{counted(len(one.terms), 'term')}{', left out' if name in explanation.off else ''}"
        )
        for line in lines[:_MOST_LINES]:
            console.print(f"  {line}", markup=False, highlight=False)
        if len(lines) > _MOST_LINES:
            console.print(f"  and {len(lines) - _MOST_LINES} more")


def _tell_answers(console: Console, explanation: Explanation) -> None:
    before, after = explanation.answer_plain, explanation.answer_infused
    if before is None or after is None:
        return
    leaving_out = explanation.answers_without
    table = Table(
        "answer", "without knowledge", "with knowledge", "change", *(f"without {name}" for name in leaving_out)
    )
    for column in table.columns[1:]:
        column.justify = "right"
    for label in after:
        cells = (f"{before[label]:.3f}", f"{after[label]:.3f}", f"{after[label] - before[label]:+.3f}")
        table.add_row(escape(label), *cells, *(f"{answer[label]:.3f}" for answer in leaving_out.values()))
    console.print(table)


def _tell_changes(console: Console, explanation: Explanation, *, fresh: bool) -> None:
    changes = explanation.largest_changes(5)
    words = explanation.words
    if not any(drawn.any() for drawn in explanation.maps.values()):
        console.print("[yellow]No source ties any words of this text.[/yellow] Are names spelled as in the text?")
    if changes:
        console.print(f"Largest changes of attention in {explanation.place}:")
    for row, column in changes:
        before, after = explanation.plain[row, column], explanation.infused[row, column]
        console.print(
            f"  {words[row]} reads {words[column]}: {before:.4f} -> {after:.4f}", markup=False, highlight=False
        )
    if not changes:
        console.print(f"Knowledge did not change the attention of {explanation.place}.", highlight=False)
    if fresh:
        console.print(
            "This model is freshly infused: knowledge changes it once it is trained, see infuser train --help."
        )


def _tell_strongest(console: Console, explanation: Explanation) -> None:
    """Say which head changes most, unless it is the one that was told, or none does."""
    if explanation.changes is None or not explanation.largest_changes(1):
        return
    layer, head = divmod(int(explanation.changes.argmax()), explanation.changes.shape[1])
    if (layer, head) != (explanation.layer, explanation.head):
        console.print(f"Attention changes most with --layer {layer} --head {head}", highlight=False)
