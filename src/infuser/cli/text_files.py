"""Options of commands that read the texts of files, or one text, and write what they find as JSON lines."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

from infuser.cli.console import say
from infuser.cli.options import Paths, argument, option
from infuser.errors import InputError
from infuser.files import whole_file
from infuser.progress import progress_bar
from infuser.terminal import json_for_programs

_T = TypeVar("_T")


OutFile = Annotated[Path | None, option("JSON-lines file to write. [default: standard output]")]


@contextmanager
def writing(out: Path | None, what: str, n_texts: int | None) -> Iterator[Callable[[Iterable[dict[str, Any]]], None]]:
    """Give a function that writes the records of one text; a file is written whole or not at all."""
    target = whole_file(out) if out is not None else nullcontext(sys.stdout)
    with target as file, progress_bar(what, n_texts, unit="texts") as bar:

        def write(records: Iterable[dict[str, Any]]) -> None:
            file.writelines(json_for_programs(record) + "\n" for record in records)
            bar.advance()

        yield write


def check_out(out: Path | None, files: Iterable[Path]) -> None:
    """Raise InputError if the file to write is one that is read."""
    if out is not None and any(out.exists() and path.exists() and out.samefile(path) for path in files):
        raise InputError(f"--out {str(out)!r} is a file that is read. Choose another name.")


@dataclass(frozen=True, slots=True)
class TextFileOptions:
    """Which texts are read, and where the JSON lines about them go."""

    files: Annotated[
        Paths,
        argument(
            "Texts: .txt (a text per line), .csv, .tsv, .jsonl, .json or .parquet; - reads standard input.",
            metavar="[FILE...|-]",
        ),
    ] = None
    out: OutFile = None
    text: Annotated[str | None, option("One text instead of files.")] = None
    text_column: Annotated[str, option("Column that holds the text.")] = "text"
    no_text: Annotated[bool, option("Leave the texts themselves out of the file.", "--no-text")] = False

    def count(self) -> int | None:
        """Check the options and read all files once, so that a broken line is found before an hour of work, not after.

        Return the number of texts; None for standard input, which can be read only once.
        """
        from infuser.tables.blocks import STDIN

        files = self.files or []
        if bool(files) == (self.text is not None):
            raise InputError("Give either files (or - for standard input) or --text TEXT.")
        check_out(self.out, files)
        return None if STDIN in files else sum(1 for _ in self._texts())

    def each(self, find: Callable[[Iterator[str]], Iterable[_T]]) -> Iterator[tuple[Path, str, _T]]:
        """Yield each text with its file and what `find` returns for it; `find` may read ahead."""
        beside, texts = itertools.tee(self._texts())
        for (path, text), found in zip(beside, find(text for _, text in texts), strict=True):
            yield path, text, found

    def about(self, path: Path, text: str, **further: Any) -> dict[str, Any]:
        """Return how a record about a text begins: its file if there are several, and the text unless --no-text."""
        several = len(self.files or ()) > 1
        return ({"file": str(path)} if several else {}) | further | ({} if self.no_text else {"text": text})

    def print_done(self, found: str, n: int, unit: str, seconds: float) -> None:
        """Print what was found, where it was written and how many units were read per second."""
        where = "" if self.out is None else f" in {self.out}"
        say(f"{found}{where}; {n / max(seconds, 1e-9):,.0f} {unit}/s", err=True)

    def _texts(self) -> Iterator[tuple[Path, str]]:
        from infuser.linking.texts import read_texts

        return ((path, text) for path in self.files or () for text in read_texts(path, self.text_column))
