"""`infuser explain`: what each source found in a text, and what it did to attention and answer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from infuser.cli.console import loading, print_json, say
from infuser.cli.explain_output import print_explanation
from infuser.cli.knowledge_options import SourceOptions
from infuser.cli.options import argument, option, option_groups
from infuser.errors import InputError


@option_groups
def explain(
    model: Annotated[
        str, argument("A run or model that `infuser train` wrote; or a checkpoint, infused with the knowledge named.")
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
      infuser explain runs/mine --text "buy glipizide" --pair "drug store"
      infuser explain runs/mine --text "buy glipizide" --layer strongest --off graph --json
      infuser explain minilm --text "Bern lies on the Aare" --entities names.txt
    """
    which, where = _number("head", head, "mean"), _number("layer", layer, "strongest")
    named = sources.read()
    with loading("the model") as progress:
        from infuser.analysis.explain import explain as explain_text
        from infuser.experiments.run_folder import find_model
        from infuser.hosts.checkpoints import is_infused
        from infuser.opening import open_infused

        model = find_model(model)
        infused = open_infused(model, named, progress=progress)
    explanation = explain_text(
        infused, text, pair, layer="strongest" if where is None else where, head=which, off=off or ()
    )
    if as_json:
        print_json(explanation.to_dict(), indent=None)  # matrices: one line
        return
    from infuser.reports import write_explanation, write_png

    print_explanation(explanation)
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
