"""Where the official files of a data set lie: in a folder, or behind a name of the datasets library."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infuser.errors import InputError, MissingExtraError
from infuser.tables.blocks import packed_or_not
from infuser.tables.rows import Record, read_records
from infuser.tables.skipped import Place

_PREFIX = "datasets:"
_SPLITS = {"dev": ("validation", "dev"), "train": ("train",), "test": ("test",)}


@dataclass(frozen=True, slots=True)
class DatasetSplit:
    """A part of a data set of the datasets library."""

    dataset: str
    """`datasets:NAME` or `datasets:NAME,CONFIG`."""
    split: str


def is_datasets_name(data: str) -> bool:
    """Return whether data are a name of the datasets library and not a folder."""
    return data.startswith(_PREFIX)


def official_records(data: str, split: str, *names: str) -> Iterator[Record]:
    """Return the rows of a split of the datasets library, or of the first of these files that the folder holds."""
    return dataset_records(data, split) if is_datasets_name(data) else read_records(find_file(data, *names))


def find_file(data: str, *names: str) -> Path:
    """Return the first of these files that the folder holds, packed (.gz, .zst) or not; else raise and list both."""
    folder = Path(data)
    if not folder.is_dir():
        raise InputError(
            f"There is no folder {data!r}. Give the one that holds {' or '.join(names)}, or a name of the datasets "
            f"library such as {_PREFIX}nyu-mll/glue,cola."
        )
    for name in names:
        if path := packed_or_not(folder / name):
            return path
    held = ", ".join(sorted(path.name for path in folder.iterdir())[:10]) or "nothing"
    raise InputError(f"The folder {data!r} holds no {' or '.join(names)}, but {held}.")


def dataset_records(data: str, *splits: str, name_classes: Collection[str] = ()) -> Iterator[Record]:
    """Yield the rows of a split with the datasets library, each with its place; the first split that exists is read.

    Our names train, dev and test are understood; others ("validation_matched") are taken as they are. Columns of
    `name_classes` that hold lists of class labels have their names instead of their numbers.
    """
    parts = _load(data)
    wanted = [spelling for split in splits for spelling in _SPLITS.get(split, (split,))]
    found = next((split for split in wanted if split in parts), None)
    if found is None:
        raise InputError(f"{data!r} has no split {' or '.join(wanted)}; it has {', '.join(parts)}.")
    names = {column: _class_names(parts[found], column) for column in name_classes}
    for number, row in enumerate(parts[found], start=1):
        record: dict[str, Any] = dict(row)
        record |= {column: [named[at] for at in record[column]] for column, named in names.items() if named}
        yield Place(Path(f"{data} {found}"), number, "row"), record


def dataset_splits(data: str, *, dev: str | None = None, test: str | None = None) -> dict[str, DatasetSplit | None]:
    """Return which splits of the datasets library are "data", "dev" and, if one is named, "test".

    Without a name, dev is the split "validation" or "dev", or None if there is neither.
    """
    name, *config = data.removeprefix(_PREFIX).split(",")
    if Path(name).is_dir():  # with its whole path it is found from elsewhere, too
        data = _PREFIX + ",".join([str(Path(name).absolute()), *config])
    there = [split for split in _load(data) if "." not in split]  # tasks cut names at the dot
    found: dict[str, DatasetSplit | None] = {}
    for part, wanted in {"data": "train", "dev": dev or "dev", "test": test}.items():
        if wanted is None:
            continue
        split = next((one for one in _SPLITS.get(wanted, (wanted,)) if one in there), None)
        if split is None and (part != "dev" or dev is not None):
            raise InputError(
                f"{data!r} has no split {wanted!r}; it has {', '.join(there)}. The training examples are its split "
                "train, and --dev and --test name splits of it, not files."
            )
        found[part] = None if split is None else DatasetSplit(data, split)
    return found


def _load(data: str) -> Any:
    """Return the splits of a data set by their names."""
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise MissingExtraError(f"{data!r} needs the datasets library: pip install 'infuser[datasets]'.") from error

    name, *config = data.removeprefix(_PREFIX).split(",")
    try:
        return load_dataset(name, *config)
    except Exception as error:  # it raises many kinds, from the network, the hub and the files
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"The datasets library cannot load {name!r} {config}: {first}") from error


def _class_names(rows: Any, column: str) -> list[str]:
    """Return the names of the classes that a column lists; none if it does not exist or holds something else."""
    listed = getattr(rows.features.get(column), "feature", None)
    return list(getattr(listed, "names", None) or ())
