"""`infuser serve`: a model behind an HTTP server, whose knowledge is exchanged while it runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

from infuser.cli.console import say, waiting
from infuser.cli.knowledge_options import SourceOptions
from infuser.cli.options import argument, option, option_groups
from infuser.errors import InputError
from infuser.serving.limits import ServingLimits

_LIMITS = ServingLimits()
_LIMITS_PANEL = "Limits"
_TEXT = "Bern lies on the Aare."


@option_groups
def serve(
    model: Annotated[
        str,
        argument(
            "A run or model that `infuser train` or `infuser linker train` wrote, a folder that `infuser export` "
            "wrote, or a checkpoint.",
            metavar="DIR_OR_MODEL",
        ),
    ],
    rebuilt: Annotated[
        bool,
        option("Open the model's folders of knowledge as they are now, though they were built again.", "--rebuilt"),
    ] = False,
    workers: Annotated[int, option("Worker processes; each holds the model, all share the knowledge.", min=1)] = 1,
    host: Annotated[str, option("Address to listen at; 127.0.0.1 is this machine alone.")] = "127.0.0.1",
    port: Annotated[
        int | None, option("Port to listen at; 0 takes a free one.", min=0, max=65535, default="8766, or a free one")
    ] = None,
    token: Annotated[
        str | None,
        option(
            "What clients must send as Authorization: Bearer TOKEN; needed where others can reach the server, as "
            "by any --allow-host. Better given in the environment, where no list of processes shows it.",
            envvar="INFUSER_SERVE_TOKEN",
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        option("A name or address under which others may ask; needed with --host 0.0.0.0. May be repeated."),
    ] = None,
    batch_size: Annotated[
        int, option("Batch size: texts of one batch.", min=1, panel=_LIMITS_PANEL)
    ] = _LIMITS.batch_size,
    batch_characters: Annotated[
        int, option("Characters of one batch, unless a single text has more.", min=1, panel=_LIMITS_PANEL)
    ] = _LIMITS.batch_characters,
    batch_ms: Annotated[
        float, option("Milliseconds that a text waits for others.", min=0, panel=_LIMITS_PANEL)
    ] = _LIMITS.batch_ms,
    most_texts: Annotated[int, option("Texts of one request.", min=1, panel=_LIMITS_PANEL)] = _LIMITS.most_texts,
    most_characters: Annotated[
        int, option("Characters of a text, and as many of its pair.", min=1, panel=_LIMITS_PANEL)
    ] = _LIMITS.most_characters,
    most_waiting: Annotated[
        int, option("Texts that may wait for the model of a worker.", min=1, panel=_LIMITS_PANEL)
    ] = _LIMITS.most_waiting,
    seconds: Annotated[
        float, option("Seconds in which a request must be answered.", min=0.001, panel=_LIMITS_PANEL)
    ] = _LIMITS.seconds,
    *,
    sources: SourceOptions,
) -> None:
    """Serve a trained model over HTTP, and exchange its knowledge without training or restart.

    POST /predict, /annotate, /explain and /link take {"text": ...} or
    {"texts": [...]}, with "pair" or "pairs" for sentence pairs. The page at /
    lists everything and lets you try it. Knowledge named here takes the place
    of what was saved with the model. Ctrl-C or SIGTERM lets requests under
    way end, and stops.

    To add an entity, build the folder again that a source reads, and then
    POST /knowledge/reload: {} opens the same folders again, {"graph": PATH}
    another one. All workers switch, or none does and the answer says why.
    Started again later, the server wants --rebuilt, as the folder has changed.

    Examples:
      infuser serve runs/mine
      infuser serve runs/mine --graph kg --workers 2
      INFUSER_SERVE_TOKEN=... infuser serve runs/mine --host 0.0.0.0 --allow-host box.lan
    """
    from infuser.serving.server import serve as serve_model

    limits = ServingLimits(
        batch_size=batch_size,
        batch_characters=batch_characters,
        batch_ms=batch_ms,
        most_texts=most_texts,
        most_characters=most_characters,
        most_waiting=most_waiting,
        seconds=seconds,
    )
    named = sources.read()
    if rebuilt and named:
        raise InputError("--rebuilt opens the sources that the model was saved with. Name none beside it.")

    with waiting("Starting the workers") as stop_waiting:

        def announce(address: str, about: Mapping[str, Any]) -> None:
            stop_waiting()
            _print_about(model, address, about, workers, with_token=token is not None)

        serve_model(
            model,
            named,
            rebuilt=rebuilt,
            host=host,
            port=port,
            allow=allow_host or [],
            token=token,
            workers=workers,
            limits=limits,
            when_up=announce,
        )


def _print_about(model: str, address: str, about: Mapping[str, Any], workers: int, *, with_token: bool) -> None:
    """Print where the server is, what it serves, and a line to try."""
    known = about["knowledge"]["sources"]
    labels = ", ".join(about["labels"]) or "none"
    say(f"Serving at {address}  (Ctrl-C stops it)")
    say(f"  model    {model}: {about['model']}, method {about['method'] or 'none'}, labels {labels}")
    for source in known:
        folders = ", ".join(f"{one['path']} ({one['digest']})" for one in source["folders"])
        say(f"  source   {source['name']}{f': {folders}' if folders else ', saved with the model'}")
    say(f"  workers  {workers}")
    task = next((one for one in ("predict", "link", "explain") if one in about["tasks"]), "explain")
    send = "-H 'Authorization: Bearer TOKEN' " if with_token else ""
    say(f"Try:  curl {address}/{task} {send}-H 'Content-Type: application/json' -d '{json.dumps({'text': _TEXT})}'")
