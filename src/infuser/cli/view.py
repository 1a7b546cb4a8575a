"""`infuser view`: a page in the browser on which knowledge is switched on and off, live."""

from __future__ import annotations

import os
import sys
import webbrowser
from typing import Annotated

from infuser.cli.console import loading, warn
from infuser.cli.knowledge_options import SourceOptions
from infuser.cli.options import argument, option, option_groups
from infuser.cli.relations_options import EncoderNow
from infuser.viewer.limits import Limits

_LIMITS = Limits()


@option_groups
def view(
    model: Annotated[
        str | None,
        argument(
            "A run or model that `infuser train` or `infuser linker train` wrote, a folder of `infuser relations "
            "fit`, or a checkpoint, infused on the fly with the knowledge named. Nothing: the embedded example.",
            metavar="[RUN_OR_CHECKPOINT]",
        ),
    ] = None,
    host: Annotated[str, option("Address to listen at; 127.0.0.1 is this machine alone.")] = "127.0.0.1",
    port: Annotated[
        int | None, option("Port to listen at; 0 takes a free one.", min=0, max=65535, default="8765, or a free one")
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        option("A name or address under which others may ask; needed with --host 0.0.0.0. May be repeated."),
    ] = None,
    browser: Annotated[bool, option("Open the page, where there is a browser.")] = True,
    most_characters: Annotated[
        int, option("Longest text that the page reads, and as long a pair.", min=1)
    ] = _LIMITS.most_characters,
    encoder: EncoderNow = None,
    *,
    sources: SourceOptions,
) -> None:
    """Look at a model in the browser: type a text, switch knowledge on and off, watch attention and answer change.

    Starts a small server on this machine and opens its page. Stop it with
    Ctrl-C. Nothing leaves the machine, and nothing is kept. The address of
    the page holds the text and all choices, so it can be kept as a bookmark.

    Examples:
      infuser view runs/mine
      infuser view runs/relations --source spacy-entities
      infuser view minilm --entities names.txt --graph triples.tsv --no-browser
    """
    named, allow = sources.read(), allow_host or []
    with loading("the model") as progress:
        from infuser.viewer.opening import open_view
        from infuser.viewer.server import serve
        from infuser.viewer.views import warm_up
        from infuser.web.listening import hosts_for, is_private

        hosts_for(host, allow)  # an error now, before the model is loaded
        shown = open_view(model, named, encoder=encoder, progress=progress)
    with loading("the knowledge"):  # errors of the knowledge appear here, not in the browser
        warm_up(shown)

    def announce(address: str) -> None:
        # where a browser was opened the address is of use all the same: for another one, or to be sent on
        opened = browser and _has_screen() and webbrowser.open(address)
        print(f"{'Opened' if opened else 'Open'} {address}  (Ctrl-C stops it)", flush=True)

    if not is_private(host):
        warn(f"Others can reach {host}, too, and there is no password: they may ask the model anything.")
    serve(shown, host=host, port=port, allow=allow, limits=Limits(most_characters=most_characters), when_up=announce)


def _has_screen() -> bool:
    """Tell whether a browser has a window to open; on a terminal alone, one that draws text would take it over."""
    return sys.platform in ("darwin", "win32") or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
