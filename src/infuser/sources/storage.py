"""Sources as JSON records, and back.

A record names a registered source and holds its settings. A source with a form of its own has `to_json()` and a class
method `from_json(data)`; one with large files has `save(directory)` and a class method `load(directory)`. A record
never makes the loader import or call anything but these, of registered classes.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from infuser.errors import CheckpointError, SourceError, UnknownNameError
from infuser.files import json_of, parse_json, sha256_of, sha256_of_file
from infuser.knowledge.artifact import Folder
from infuser.registry import SOURCES
from infuser.sources.packing import check_portable, may_be_rebuilt, pack, packing, unpack, unpacking
from infuser.types import Annotations, SavesFiles, SavesSettings, Source

CARD = "infuser.json"
"""The file by which a saved infused model is recognised; it lists the model's sources."""
_AGAIN = "Pass the sources again: infuser.load(..., sources=[...]), or on the command line --graph, --source and so on."


def annotate_checked(source: Source, texts: Sequence[str]) -> list[Annotations]:
    """Return the source's annotations; SourceError unless there is one per text, in the order of the texts."""
    found = source.annotate(texts) if texts else []
    if len(found) != len(texts):
        raise SourceError(
            f"{type(source).__name__}.annotate gave {len(found)} answers for {len(texts)} texts. A source gives one "
            "per text, empty annotations where it found nothing."
        )
    for one, text in zip(found, texts, strict=True):
        if one.text != text:
            raise SourceError(
                f"{type(source).__name__}.annotate answered about {one.text[:40]!r} when asked about {text[:40]!r}. A "
                "source gives its answers in the order of the texts."
            )
    return found


def name_of(source: Source) -> str:
    """Return the registered name of a source, or its class's name."""
    try:
        return SOURCES.name_of(source)
    except UnknownNameError:  # a class of the user's own, never registered
        return type(source).__name__


def settings_of(source: object) -> dict[str, Any]:
    """Return the fields of a source that is a dataclass, without what it built from them."""
    if not dataclasses.is_dataclass(source):
        raise SourceError(f"{type(source).__name__} is no dataclass, so its settings are not known. {_AGAIN}")
    return {field.name: getattr(source, field.name) for field in dataclasses.fields(source) if field.init}


def name_folder(settings: Mapping[str, Any], field: str, kind: str) -> dict[str, Any]:
    """Return settings whose `field` is a built folder, together with the digest of its content."""
    folder = Folder(settings[field], kind)
    place = pack(folder, kind)
    return {**settings, field: place.pop("path"), **place, "digest": folder.digest}


def find_folder(settings: Mapping[str, Any], field: str, kind: str) -> dict[str, Any]:
    """Return settings that `name_folder` made, once the folder is found and holds the same; others as they are."""
    found = dict(settings)
    digest = found.pop("digest", None)
    inside = found.pop("inside", False)
    if digest is not None:
        folder = Folder(unpack(found[field]) if inside else found[field], kind)
        if folder.digest != digest and not may_be_rebuilt():
            raise SourceError(
                f"the {kind} folder {str(folder.path)!r} holds something else now than when it was saved. Build it "
                "again from the same files, put the old one back, or serve it as it is: infuser serve --rebuilt."
            )
        found[field] = folder.path
    return found


class SettingsState:
    """Mixin of dataclass sources: a copy in a worker gets the settings, and opens or builds the rest itself."""

    def __getstate__(self) -> dict[str, Any]:
        return settings_of(self)

    @classmethod
    def from_json(cls, settings: Mapping[str, Any]) -> Self:
        """Return the source of these settings."""
        return cls(**settings)


class FolderSource(SettingsState):
    """Mixin of sources that may read a built folder: it is saved by path and digest, or taken along (see `packing`)."""

    folder: ClassVar[tuple[str, str]]
    """The field that may name the folder, and the kind of folder."""

    def to_json(self) -> dict[str, Any]:
        """Return the settings as JSON data."""
        settings = settings_of(self)
        return name_folder(settings, *self.folder) if isinstance(settings[self.folder[0]], str | Path) else settings

    @classmethod
    def from_json(cls, settings: Mapping[str, Any]) -> Self:
        """Return the source of these settings; its folder must be there and unchanged."""
        return cls(**find_folder(settings, *cls.folder))


def save_source(source: Source, directory: Path) -> dict[str, Any]:
    """Return the JSON record of a source; `directory` is its own, for sources that write files.

    A source that cannot be written down (a function among its settings, a class that is not registered) gets a
    record with the reason: saving goes on, and loading raises an error that asks for the source.
    """
    try:
        name = SOURCES.name_of(source)
    except UnknownNameError as error:
        return {"name": type(source).__name__, "needs": str(error)}
    if isinstance(source, SavesFiles):
        directory.mkdir(parents=True, exist_ok=True)
        try:
            source.save(directory)
        except SourceError as error:
            return {"name": name, "needs": str(error)}
        return {"name": name, "files": True}
    try:
        settings = _plain(source.to_json() if isinstance(source, SavesSettings) else settings_of(source), "it")
        check_portable(settings)
    except SourceError as error:
        return {"name": name, "needs": str(error)}
    return {"name": name, "settings": settings}


def save_sources(
    sources: Sequence[Source], names: Sequence[str], folder: Path, *, portable: bool
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Write the sources; return a record of each, and name, digest and size of what each knows."""
    records, knowledge = [], []
    for place, source in enumerate(sources):
        with packing(folder, portable=portable) as packed:
            record = save_source(source, folder / str(place))
        records.append(record)
        files = {path.name: path for path in sorted((folder / str(place)).rglob("*")) if path.is_file()}
        digests = [one["digest"] for one in packed.named] or [sha256_of_file(path) for path in files.values()]
        n_bytes = sum(one["bytes"] for one in packed.named) + sum(path.stat().st_size for path in files.values())
        facts: dict[str, Any] = {"name": names[place]}
        if "needs" not in record:
            facts["digest"] = digests[0] if len(digests) == 1 else sha256_of(digests or record)
            facts["bytes"] = n_bytes or len(json_of(record["settings"]))
            facts["inside"] = all(one["inside"] for one in packed.named)
        knowledge.append(facts)
    return records, knowledge


def read_saved_sources(directory: Path, card: str = CARD, *, rebuilt: bool = False) -> list[Source]:
    """Return the sources that the card of a saved model lists, without loading the model.

    rebuilt: open their folders as they are now, also those that hold something else than when the model was saved.
    """
    path = directory / card
    try:
        records = list(dict(parse_json(path, "it"))["sources"])
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise CheckpointError(f"{path} is missing or damaged ({error}); save the model again.") from error
    return load_sources(records, directory / "sources", rebuilt=rebuilt)


def load_sources(records: Sequence[Mapping[str, Any]], folder: Path, *, rebuilt: bool = False) -> list[Source]:
    """Return the sources of records that `save_sources` made in this folder."""
    with unpacking(folder, rebuilt=rebuilt):
        return [load_source(record, folder / str(place)) for place, record in enumerate(records)]


def load_source(record: Mapping[str, Any], directory: Path) -> Source:
    """Return the source of a record that `save_source` made; `directory` is the one it was given."""
    if not isinstance(record, Mapping) or not isinstance(record.get("name"), str):
        raise SourceError(f"A saved source has no name: {record!r}. The file is damaged. {_AGAIN}")
    name = record["name"]
    if "needs" in record:
        raise SourceError(f"The source {name!r} could not be saved with the model: {record['needs']} {_AGAIN}")
    try:
        cls = SOURCES[name]
    except UnknownNameError as error:
        raise SourceError(f"{error} If it is your own, first import the module that registers it. {_AGAIN}") from error
    settings = record.get("settings")
    try:
        if record.get("files"):
            source = cls.load(directory)
        elif not isinstance(settings, Mapping):
            raise TypeError("its settings are missing.")
        elif issubclass(cls, SavesSettings):
            source = cls.from_json(settings)
        else:
            source = cls(**settings)
    except (TypeError, ValueError, KeyError, AttributeError, OSError) as error:
        # what a source itself says needs no guess
        guess = (
            "" if isinstance(error, SourceError) else "The file is damaged or comes from another version of infuser. "
        )
        raise SourceError(f"The saved source {name!r} cannot be read: {error} {guess}{_AGAIN}") from error
    if not isinstance(source, Source):
        raise SourceError(
            f"The saved source {name!r} was read as {type(source).__name__}, which is no source. {_AGAIN}"
        )
    return source


def _plain(value: object, where: str) -> Any:
    """Return a value as JSON data: tuples as lists, a mapping with tuple keys as a list of (*key, value)."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise SourceError(f"{where} is {value}, which JSON cannot hold.")
        return value
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {key: _plain(item, f"{where}[{key!r}]") for key, item in value.items()}
        if all(isinstance(key, tuple) for key in value):
            return [_plain((*key, item), where) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return [_plain(item, where) for item in value]
    raise SourceError(f"{where} holds a {type(value).__name__}, which is no JSON data.")
