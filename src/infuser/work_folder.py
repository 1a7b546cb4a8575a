"""A folder that one run at a time fills part by part, so that a run that was killed can be resumed.

    RECORD    JSON: {"sha256": of all else, "made_with": {...}}, and whatever else its writer records
    parts     the results so far; each is written whole, so a part that exists is finished

A run opens it like this:

    folder = WorkFolder(out, record="made-with.json", parts=("block-*.npz",))
    with folder.locked():                                  # InputError if another process works in it
        resumed = folder.begin(made_with, restart=False)   # InputError if its parts were made with something else
        for number in range(n_blocks):
            if not (folder.path / f"block-{number}.npz").exists():
                with folder.write_part(f"block-{number}.npz", "wb") as file:
                    ...
        folder.update(finished=True)
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from fnmatch import fnmatch
from pathlib import Path
from typing import IO, Any

from infuser.errors import InputError
from infuser.files import lock_folder, nan_to_null, parse_json, sha256_of, whole_file, write_whole

_SHOWN = 80  # characters of a value in an error message


class WorkFolder:
    """The folder of one resumable run; it does nothing until `begin`."""

    def __init__(self, path: str | Path, *, record: str, parts: Sequence[str], shared: bool = False) -> None:
        """`parts` are glob patterns of what a run writes; a `shared` folder may hold other files beside them."""
        self.path, self.record, self.parts, self.shared = Path(path), record, tuple(parts), shared

    def locked(self) -> AbstractContextManager[None]:
        """Create the folder and lock it until the end or until the process dies; InputError if another one has it."""
        return locked_folder(self.path)

    def begin(self, made_with: Mapping[str, Any], *, restart: bool = False, **further: Any) -> bool:
        """Record what the run is made with and return whether it resumes an earlier run, whose parts are kept.

        Parts that were made with something else are an InputError that names what differs, unless `restart` removes
        them. A run without finished parts can be replaced. `further` is recorded too, and not compared.
        """
        made_with = json.loads(json.dumps(nan_to_null(made_with)))
        try:
            before = self.read()
        except InputError:
            if not restart or (self.others() and not self.shared):
                raise
            before = {}  # damaged, but ours
        if before is None:
            self._check_empty()
        resumed = bool(self.finished()) and not restart
        if resumed:
            self.check_same((before or {}).get("made_with", {}), made_with)
        else:
            self.clear()
        for path in [path for path in self.path.glob(".*.part") if self._is_left_over(path)]:
            path.unlink()
        self.write({**(before or {} if resumed else {}), "made_with": made_with, **further})
        return resumed

    def read(self) -> dict[str, Any] | None:
        """Return the record, or None if no run was begun here."""
        path = self.path / self.record
        if not path.is_file():
            return None
        try:
            record = dict(parse_json(path, "it"))
            mark = record.pop("sha256", None)  # the first records had none
            if mark not in (None, sha256_of(record)):
                raise ValueError("its content has another digest than it had")
        except (ValueError, TypeError) as error:
            raise InputError(f"{str(path)!r} is damaged ({error}). {self.advice()}") from error
        return record

    def write(self, record: Mapping[str, Any]) -> None:
        """Write the record."""
        plain = json.loads(json.dumps(nan_to_null(record)))
        text = json.dumps({"sha256": sha256_of(plain), **plain}, indent=1, allow_nan=False)
        write_whole(self.path / self.record, text + "\n")

    def update(self, **values: Any) -> None:
        """Add values to the record."""
        self.write({**(self.read() or {}), **values})

    def finished(self) -> list[Path]:
        """Return the parts that are finished, by name."""
        found = (path for pattern in self.parts for path in self.path.glob(pattern))
        return sorted({path for path in found if not path.name.endswith(".part") and path.name != self.record})

    def write_part(self, name: str, mode: str = "w") -> AbstractContextManager[IO[Any]]:
        """Open a part for writing; it appears under its name when all of it is written."""
        return whole_file(self.path / name, mode)

    def remove(self, *patterns: str) -> None:
        """Remove the files and folders that match, at any time and without complaint."""
        for path in [path for pattern in patterns for path in self.path.glob(pattern)]:
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    def clear(self) -> None:
        """Remove all parts, and the record last."""
        self.remove(*self.parts)
        self.remove(self.record)

    def check_same(self, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
        """Raise InputError if a run that was begun with `before` would be resumed with something else."""
        if differing := differences(before, now):
            raise InputError(
                f"{str(self.path)!r} was begun with something else: {name_differences(differing)}. Resume with the "
                "same, choose another --out, or start again with --restart (restart=True)."
            )

    def others(self) -> list[str]:
        """Return the names of what no such run wrote."""
        ours = {self.path / self.record}.union(*(self.path.glob(pattern) for pattern in self.parts))
        found = self.path.iterdir() if self.path.is_dir() else ()
        return sorted(path.name for path in found if path not in ours and not self._is_left_over(path))

    def advice(self) -> str:
        """Return what to do about a damaged record."""
        return "Choose another --out." if self.others() else "Start again with --restart (restart=True)."

    def _check_empty(self) -> None:
        """Raise InputError if there is something that no recorded run wrote."""
        strange = [path.name for path in WorkFolder.finished(self)] + ([] if self.shared else self.others())
        if strange:
            raise InputError(
                f"{str(self.path)!r} holds other files ({', '.join(strange[:3])}) and no {self.record}, so it was left "
                "alone. Choose another --out, or remove it."
            )

    def _is_left_over(self, path: Path) -> bool:
        """Return whether a killed process was writing this: a part or the record, under its temporary name."""
        found = re.fullmatch(r"\.(.+)\.\d+\.part", path.name)
        return found is not None and any(fnmatch(found[1], pattern) for pattern in (*self.parts, self.record))


@contextmanager
def locked_folder(path: Path) -> Iterator[None]:
    """Create a folder and lock it until the end or until the process dies; InputError if another one has it."""
    with ExitStack() as stack:
        try:
            path.mkdir(parents=True, exist_ok=True)
            stack.enter_context(lock_folder(path))
        except BlockingIOError as error:
            raise InputError(f"Another process is writing to {str(path)!r}. Wait for it to finish.") from error
        except OSError as error:
            raise InputError(f"Cannot write {str(path)!r}: {error}. Choose a place you may write to.") from error
        yield


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return (name, value before, value now), shortened for people, of all values that differ."""
    found = []
    for name in sorted({*before, *now}):
        one, other = (_by_number(value) for value in (before.get(name), now.get(name)))
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            found += [(f"{name}.{inner}", was, is_) for inner, was, is_ in differences(one, other)]
        elif one != other:
            found.append((name, str(before.get(name))[:_SHOWN], str(now.get(name))[:_SHOWN]))
    return found


def _by_number(value: Any) -> Any:
    """Return a list of mappings as a mapping, so that only what differs in them is named."""
    is_list_of_mappings = isinstance(value, list) and value and all(isinstance(one, Mapping) for one in value)
    return {str(number): one for number, one in enumerate(value)} if is_list_of_mappings else value


def name_differences(differing: Sequence[tuple[str, str, str]]) -> str:
    """Return "epochs was 2, is 3; seed was 0, is 1"."""
    return "; ".join(f"{name} was {one}, is {other}" for name, one, other in differing)
