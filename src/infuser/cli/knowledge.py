"""What the commands that build knowledge share: a count with its rate while they read, and the rows they skipped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from tqdm import tqdm

from infuser.errors import InputError

if TYPE_CHECKING:
    from infuser.tables.skipped import Skipped

Strict = Annotated[bool, typer.Option("--strict", help="Stop at the first row that cannot be read.")]


@contextmanager
def counting(what: str) -> Iterator[Callable[[int], object]]:
    """Yield a function that counts rows and shows their number and rate on a terminal's stderr."""
    with tqdm(desc=what, unit=" rows", unit_scale=True, mininterval=0.5, disable=None) as bar:
        yield bar.update


def tell_skipped(skipped: Skipped) -> None:
    """Print how many rows could not be read and the first of them, on stderr."""
    if not skipped.n:
        return
    said = (
        "row could not be read and was skipped:"
        if skipped.n == 1
        else "rows could not be read and were skipped. The first:"
    )
    typer.secho(f"{skipped.n:,} {said}", fg="yellow", err=True)
    for said in skipped.first:
        typer.echo(f"  {said}", err=True)


def nothing_in(names: Iterable[object], what: str, command: str) -> InputError:
    """Return the error for inputs that hold not one thing of the wanted kind."""
    given = ", ".join(map(str, names))
    return InputError(
        f"There is not one {what} in {given}; nothing was written. Check that these are the right files; `{command} "
        "--help` says what they hold."
    )


def size_of(folder: Path) -> str:
    """Return the size of a folder for people."""
    return f"{sum(path.stat().st_size for path in folder.rglob('*') if path.is_file()) / 1e6:,.1f} MB"
