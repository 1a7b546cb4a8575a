"""One file per command. Commands load torch and what needs it when they run, so that `infuser --help` is instant."""

from __future__ import annotations

import logging
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from infuser.cli import assets, bench, candidates, correlation, gazetteer, graph, linker, relations, vectors
from infuser.cli.annotate import annotate
from infuser.cli.console import Warnings, say
from infuser.cli.demo import demo
from infuser.cli.diagnose import diagnose
from infuser.cli.explain import explain
from infuser.cli.export import export
from infuser.cli.hosts import hosts
from infuser.cli.link import link
from infuser.cli.options import option
from infuser.cli.predict import predict
from infuser.cli.probe import probe
from infuser.cli.select import select
from infuser.cli.serve import serve
from infuser.cli.train import train
from infuser.cli.view import view
from infuser.errors import InfuserError, InputError, SourceError, UnknownNameError
from infuser.versions import __version__


class _Commands(TyperGroup):
    """Ends every command with the message alone when something is wrong: people need what to do, not a traceback."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--debug" in args:  # people add it behind the command that failed
            args = ["--debug", *(arg for arg in args if arg != "--debug")]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        library = logging.getLogger("infuser")
        if not library.handlers:
            library.addHandler(Warnings())
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as error:
            package = (error.name or "infuser").partition(".")[0]
            if ctx.params["debug"] or package == "infuser":
                raise
            say(
                f"Error: This command needs {package}, which is not installed here. Install all that infuser needs "
                f"(pip install infuser), or {package} alone.",
                style="red",
                err=True,
            )
            raise typer.Exit(1) from error
        except (InfuserError, OSError) as error:
            if ctx.params["debug"] or isinstance(error, BrokenPipeError):
                raise
            say(f"Error: {error}", style="red", err=True)
            # as usual: 2 for what the caller gave, 1 for what went wrong with it
            raise typer.Exit(2 if isinstance(error, InputError | SourceError | UnknownNameError) else 1) from error


app = typer.Typer(cls=_Commands, no_args_is_help=True, pretty_exceptions_show_locals=False)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"infuser {__version__}")
        raise typer.Exit


@app.callback()
def infuser(
    version: Annotated[
        bool, option("Show the version and exit.", "--version", callback=_show_version, is_eager=True)
    ] = False,
    debug: Annotated[bool, option("Show the whole traceback of an error.", "--debug")] = False,
) -> None:
    """Give a pretrained text encoder the knowledge it lacks, and see what changed.

    Start with: infuser demo
    """


for command in (demo, train, predict, export, explain, view, serve, diagnose, probe, select, annotate, link, hosts):
    app.command()(command)
for group in (bench, linker, relations, graph, candidates, vectors, correlation, gazetteer, assets):
    app.add_typer(group.app, name=group.__name__.rpartition(".")[2])
