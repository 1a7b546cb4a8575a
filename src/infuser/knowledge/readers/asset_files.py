"""Files of a fetched asset: tables and lists of terms, with errors that say how to fetch them again."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from infuser.errors import SourceError
from infuser.files import parse_json


class AssetFiles:
    """Reads the files in the folder of an asset."""

    def __init__(self, asset: str, folder: str | Path) -> None:
        self._asset, self._folder = asset, Path(folder)

    def terms(self, name: str) -> list[dict[str, Any]]:
        """Return a JSON list of terms with ids."""
        try:
            terms = parse_json(self._folder / name, "it")
            if isinstance(terms, list) and all(isinstance(term.get("id"), str) for term in terms):
                return terms
            why = "not a list of terms with ids"
        except (OSError, ValueError, AttributeError) as error:
            why = str(error)
        raise self.damaged(name, why)

    def rows(self, name: str, n_columns: int) -> Iterator[list[str]]:
        """Yield the rows of a table with at least so many columns, .tsv without quotes or .csv with them."""
        settings: dict[str, Any] = {} if name.endswith(".csv") else {"delimiter": "\t", "quoting": csv.QUOTE_NONE}
        try:
            with (self._folder / name).open(encoding="utf-8", newline="") as file:
                for row in csv.reader(file, **settings):
                    if len(row) < n_columns:
                        raise self.damaged(name, f"{len(row)} columns instead of {n_columns}")
                    yield row
        except (OSError, UnicodeDecodeError) as error:
            raise self.damaged(name, str(error)) from error

    def columns(self, name: str, wanted: tuple[str, ...]) -> Iterator[list[str]]:
        """Yield the cells of these columns of a .tsv whose first row names them."""
        rows = self.rows(name, len(wanted))
        header = next(rows, [])
        if not set(wanted) <= set(header):
            raise self.damaged(name, f"columns {', '.join(header)}")
        places = [header.index(column) for column in wanted]
        for row in rows:
            yield [row[place] for place in places]

    def damaged(self, name: str, why: str) -> SourceError:
        """Return the error about a file that is missing or not what it should be."""
        return SourceError(
            f"{self._folder / name} cannot be read ({why}). Fetch it again: `infuser assets remove {self._asset}` and "
            f"`infuser assets fetch {self._asset}`."
        )
