"""The folder of annotations while it is written and when it is finished.

shard-00000.arrow  annotations of some texts
progress.json      while a run is under way: what it is made with
shard-00000.json   while a run is under way: digest and counts of the finished shard
about.json         at the end, in place of these: what the folder was made with, its files, sizes and digests
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from infuser.errors import InputError, SourceError
from infuser.files import parse_json, write_whole
from infuser.knowledge.artifact import damaged
from infuser.sources.annotating.files import canonical, digest
from infuser.sources.annotating.shards import FOUND, Shard
from infuser.versions import __version__
from infuser.work_folder import WorkFolder

KIND, FORMAT = "annotations", 1
_ABOUT, _PROGRESS, _SHARDS = "about.json", "progress.json", "shard-[0-9]*.json"


def read_about(folder: Path) -> dict[str, Any]:
    """Return what a finished folder holds; SourceError if it is none, or damaged."""
    path = folder / _ABOUT
    if not folder.is_dir():
        raise SourceError(f"There is no folder of annotations at {str(folder)!r}. Check the path.")
    if not path.is_file():
        left = (
            "the run that writes it is not finished; run the same command again"
            if (folder / _PROGRESS).exists()
            else f"it has no {_ABOUT}; make one with infuser annotate"
        )
        raise SourceError(f"{str(folder)!r} is no folder of annotations: {left}.")
    try:
        content = parse_json(path, "it")
        found = content.pop("digest")
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise damaged(path) from error
    if found != digest(canonical(content)):
        raise damaged(path)
    if content["kind"] != KIND:
        raise SourceError(f"{str(folder)!r} is a {content['kind']} folder, not one of annotations.")
    if content["format"] != FORMAT:
        raise SourceError(
            f"{str(folder)!r} has format {content['format']}, this version of infuser reads {FORMAT}. Annotate again."
        )
    return {**content, "digest": found}


def counts_by_source(about: Mapping[str, Any]) -> list[dict[str, int]]:
    """Return how many texts with something, spans, links and terms each source found."""
    return [
        {what: sum(shard["found"][place][what] for shard in about["shards"]) for what in FOUND}
        for place in range(len(about["made_with"]["sources"]))
    ]


class AnnotationFolder(WorkFolder):
    """The shards that a run has finished."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, record=_PROGRESS, parts=(_SHARDS, "shard-[0-9]*.arrow", "frequencies.arrow", _ABOUT))
        self.shards: dict[int, Shard] = {}

    def begin(self, made_with: Mapping[str, Any], *, restart: bool = False, **further: Any) -> bool:
        """Record what the run is made with, and read which shards are finished."""
        resumed = super().begin(made_with, restart=restart, **further)
        self.shards = self._read_shards()
        return resumed

    def read(self) -> dict[str, Any] | None:
        """Return what the run is made with; of a finished folder, what it was made with."""
        record = super().read()
        if record is not None or not (self.path / _ABOUT).exists():
            return record
        try:
            return {"made_with": read_about(self.path)["made_with"]}
        except SourceError as error:
            raise InputError(f"{error} {self.advice()}") from error

    def finished(self) -> list[Path]:
        """Return the files that say what is finished."""
        return [path for path in super().finished() if path.match(_SHARDS) or path.name == _ABOUT]

    def check_same(self, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
        """Raise InputError if the shards were made with something else, or this cannot be known."""
        if any(source["fingerprint"] is None for source in now["sources"]):
            raise InputError(
                f"{str(self.path)!r} was begun with sources of which one cannot be written down, so they cannot be "
                "compared. Choose another --out, or start again with --restart (restart=True)."
            )
        super().check_same(before, now)

    def add(self, shard: Shard) -> None:
        """Record a shard whose file is written."""
        self.shards[shard.number] = shard
        content = canonical({"number": shard.number, **shard.to_json()})
        write_whole(self.path / f"shard-{shard.number:05d}.json", content)

    def _read_shards(self) -> dict[int, Shard]:
        """Return the finished shards by number; one whose file is damaged is not among them."""
        found: dict[int, Shard] = {}
        with suppress(SourceError):
            found = {n: Shard.from_json(n, values) for n, values in enumerate(read_about(self.path)["shards"])}
        for path in self.path.glob(_SHARDS):
            with suppress(ValueError, KeyError, TypeError):
                values = parse_json(path, "it")
                found[values["number"]] = Shard.from_json(values["number"], values)
        return {number: shard for number, shard in found.items() if self._is_whole(shard)}

    def close(self, made_with: Mapping[str, Any], **about: Any) -> None:
        """Write what the folder holds: from now on it is finished."""
        content = {
            "kind": KIND,
            "format": FORMAT,
            "infuser": __version__,
            "made_with": made_with,
            "shards": [shard.to_json() for _, shard in sorted(self.shards.items())],
            **about,
        }
        content["digest"] = digest(canonical(content))
        # sorted: shards that were read back from an earlier run have their keys in another order
        # in ASCII: a name may hold half of a character
        write_whole(self.path / _ABOUT, json.dumps(content, indent=1, sort_keys=True) + "\n")
        self.remove(_SHARDS, _PROGRESS)

    def _is_whole(self, shard: Shard) -> bool:
        try:
            shard.written.open(self.path)
        except SourceError:
            return False  # it is made again
        return True
