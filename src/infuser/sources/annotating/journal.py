"""What is finished, so that a run that was killed goes on; and, at the end, what the folder holds.

progress.jsonl   while a run is under way: what it is made with, then one line per finished shard
about.json       at the end, in its place: what the folder was made with, its files, sizes and digests
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from infuser.errors import InputError, SourceError
from infuser.files import write_whole
from infuser.knowledge.artifact import damaged
from infuser.sources.annotating.files import canonical, digest
from infuser.sources.annotating.shards import Shard
from infuser.versions import __version__

KIND, FORMAT = "annotations", 1
_ABOUT, _PROGRESS = "about.json", "progress.jsonl"
_NAMES = r"(shard-\d{5,}\.arrow|frequencies\.arrow|about\.json|progress\.jsonl)"
_UNFINISHED = re.compile(rf"\.{_NAMES}\.\d+\.part")
_OURS = re.compile(rf"{_NAMES}|{_UNFINISHED.pattern}")


def read_about(folder: Path) -> dict[str, Any]:
    """Return what a finished folder holds, or say what is wrong with it."""
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
        content = json.loads(path.read_text(encoding="utf-8"))
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


class Journal:
    """The shards of one run that are finished; kept on disk with every new one."""

    def __init__(self, folder: Path, made_with: Mapping[str, Any], finished: dict[int, Shard], file: IO[bytes]) -> None:
        self.folder, self.finished = folder, finished
        self._made_with, self._file = made_with, file

    def add(self, shard: Shard) -> None:
        """Note a shard; its file is there already."""
        self.finished[shard.number] = shard
        self._file.write(_shard_line(shard))
        self._file.flush()

    def close(self, **about: Any) -> None:
        """Say what the folder holds: from now on it is whole."""
        content = {
            "kind": KIND,
            "format": FORMAT,
            "infuser": __version__,
            "made_with": self._made_with,
            "shards": [shard.to_json() for _, shard in sorted(self.finished.items())],
            **about,
        }
        content["digest"] = digest(canonical(content))
        # sorted: shards that were read back from an earlier run have their facts in another order
        told = json.dumps(content, indent=1, sort_keys=True)  # in ASCII: a name may hold half of a character
        write_whole(self.folder / _ABOUT, told + "\n")
        (self.folder / _PROGRESS).unlink()


@contextmanager
def open_journal(folder: Path, made_with: Mapping[str, Any], *, restart: bool) -> Iterator[Journal]:
    """Open the journal of a run: a new one, or the one of a run with the same input, sources and settings."""
    made_with = json.loads(canonical(made_with))
    before, shards = (None, {}) if restart else _read_earlier(folder)
    if before is None or not shards:  # a run that finished nothing, such as one with a mistyped source, binds nobody
        clear(folder)
    else:
        _compare(folder, before, made_with)
    for left in list(folder.iterdir()):
        if _UNFINISHED.fullmatch(left.name):  # what a killed process was writing
            left.unlink()
    finished = {number: shard for number, shard in shards.items() if _is_whole(folder, shard)}
    write_whole(folder / _PROGRESS, b"".join([_line(made_with), *map(_shard_line, finished.values())]))
    with (folder / _PROGRESS).open("ab") as file:
        yield Journal(folder, made_with, finished, file)


def clear(folder: Path) -> None:
    """Remove what an earlier run wrote; refuse a folder that holds anything else."""
    others = _others(folder)
    if others:
        raise InputError(
            f"{str(folder)!r} holds other files ({', '.join(others[:3])}); it was left alone. Choose another --out."
        )
    for path in list(folder.iterdir()):
        path.unlink()


def _others(folder: Path) -> list[str]:
    """Return the names of what no run wrote."""
    return sorted(path.name for path in folder.iterdir() if path.is_dir() or not _OURS.fullmatch(path.name))


def _shard_line(shard: Shard) -> bytes:
    return _line({"number": shard.number, **shard.to_json()})


def _line(values: Mapping[str, Any]) -> bytes:
    return canonical(values) + b"\n"


def _read_earlier(folder: Path) -> tuple[dict[str, Any] | None, dict[int, Shard]]:
    """Return what an earlier run in this folder was made with, and its finished shards."""
    if (folder / _PROGRESS).exists():
        return _read_progress(folder / _PROGRESS)
    if not (folder / _ABOUT).exists():
        return None, {}
    try:
        about = read_about(folder)
    except SourceError as error:
        advice = "Choose another --out." if _others(folder) else "Or start anew with --restart (restart=True)."
        raise InputError(f"{error} {advice}") from error
    return about["made_with"], {n: Shard.from_json(n, values) for n, values in enumerate(about["shards"])}


def _read_progress(path: Path) -> tuple[dict[str, Any] | None, dict[int, Shard]]:
    made_with: dict[str, Any] | None = None
    shards: dict[int, Shard] = {}
    for line in path.read_bytes().splitlines():
        try:
            values = json.loads(line)
            if made_with is None:
                made_with = dict(values)
            else:
                shards[values["number"]] = Shard.from_json(values["number"], values)
        except (ValueError, KeyError, TypeError):  # the line that was being written when the run was killed
            break
    return made_with, shards


def _compare(folder: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    differing = [name for name in now if before.get(name) != now[name]]
    if any(source["fingerprint"] is None for source in now["sources"]):
        differing.append("sources, one of which cannot be written down")
    if differing:
        raise InputError(
            f"{str(folder)!r} holds annotations that were made with other {' and other '.join(differing)}. Choose "
            "another --out, or start anew with --restart (restart=True)."
        )


def _is_whole(folder: Path, shard: Shard) -> bool:
    try:
        shard.written.open(folder)
    except SourceError:
        return False  # it is made again
    return True
