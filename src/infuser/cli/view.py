"""`infuser view`: a page in the browser on which knowledge is switched on and off, live."""

from __future__ import annotations

import webbrowser
from typing import Annotated

import typer
from rich.console import Console

from infuser.cli.relations_data import EncoderNow
from infuser.cli.sources import (
    AliasFiles,
    CorrelationFiles,
    EntityFiles,
    GraphFiles,
    NamedSources,
    PhraseFiles,
    SourcesFile,
    TermCount,
    read_sources,
)
from infuser.cli.view_opening import open_view

_PORT = 8765


def view(
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="[RUN_OR_CHECKPOINT]",
            help="A run or model that `infuser train` or `infuser linker train` wrote, a folder of `infuser relations "
            "fit`, or a checkpoint, infused on the fly with the knowledge named. Nothing: the embedded example.",
            show_default=False,
        ),
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen at. Others than this machine can only reach it if you change it.")
    ] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65535, help="Port to listen at; 0 takes a free one.", show_default=f"{_PORT}, or a free one"
        ),
    ] = None,
    browser: Annotated[bool, typer.Option(help="Open the page, where there is a browser.")] = True,
    most_characters: Annotated[
        int, typer.Option(min=1, help="Longest text that the page reads, and as long a pair.")
    ] = 2_000,
    encoder: EncoderNow = None,
    source: NamedSources = None,
    sources: SourcesFile = None,
    entities: EntityFiles = None,
    phrases: PhraseFiles = None,
    correlation: CorrelationFiles = None,
    graph: GraphFiles = None,
    aliases: AliasFiles = None,
    terms: TermCount = None,
) -> None:
    """Look at a model in the browser: type a text, switch knowledge on and off, watch attention and answer change.

    Starts a small server on this machine and opens its page. Stop it with
    Ctrl-C. Nothing leaves the machine, and nothing is kept. The address of
    the page holds the text and all choices, so it can be kept as a bookmark.

    Examples:
      infuser view
      infuser view runs/mine
      infuser view runs/relations --source spacy-entities
      infuser view minilm --entities names.txt --graph triples.tsv --no-browser
    """
    from infuser.viewer.serving import check_installed, free_port, serve

    check_installed()  # before a model is loaded for nothing
    named = read_sources(
        sources,
        named=source,
        entities=entities,
        phrases=phrases,
        correlation=correlation,
        graph=graph,
        aliases=aliases,
        terms=terms,
    )
    shown = open_view(model, named, encoder, Console(stderr=True))
    from infuser.viewer.limits import Limits

    def tell(address: str) -> None:
        # where a browser was opened the address is of use all the same: for another one, or to be sent on
        opened = browser and webbrowser.open(address)
        print(f"{'Opened' if opened else 'Open'} {address}  (Ctrl-C stops it)", flush=True)

    chosen = free_port(host, _PORT) if port is None else port
    serve(shown, host=host, port=chosen, limits=Limits(most_characters=most_characters), when_up=tell)
