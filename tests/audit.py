"""The audit: break everything that Infuser writes, in every way that happens, and count what goes unnoticed.

    damage     40 flipped bits in each kind of artifact; every file cut short, emptied, deleted, and replaced by its
               namesake of another artifact or by its neighbour. Noticed: an error that names the file, at least its
               folder, or that says there is no result (a deleted one). Harmless: every answer is as before (a bit
               that no answer depends on, white space in JSON)
    faults     the disk fails at every operation of every kind: full, broken once, dead process, dead machine.
               Afterwards the old artifact or the new one is there, and the next run succeeds and leaves nothing else
    kills      every command that writes a folder is killed (SIGKILL) five times at random moments, then run to its end:
               the folder equals that of an uninterrupted run
    writers    two of each command write the same folder at once: one of the two results is there, whole, and who did
               not succeed got one sentence

    python tests/audit.py [damage] [faults] [kills] [writers]      # all: half an hour; any machine will do

Artifacts and commands are those of tests/artifact_kinds.py and tests/audited_commands.py. The last column must be zero.
"""

from __future__ import annotations

import collections
import json
import random
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

RESULT = Path(__file__).resolve().parents[1] / "benchmarks" / "results" / "audit.json"
N_FLIPS, N_KILLS, N_MEETINGS = 40, 10, 3
"""Flips per kind of artifact, kills and meetings per command."""

Outcome = tuple[str, str]
"""How a case ended ("noticed", "harmless", "unnoticed", ...), and what to say about a bad one."""
Cases = Iterator[tuple[str, Outcome]]


# damage --------------------------------------------------------------------------------------------------------------


def damage(name: str, folder: Path) -> Cases:
    """Yield every case of damage to one kind of artifact."""
    from artifact_kinds import KINDS

    kind, places = KINDS[name], [folder / f"version {version}" for version in range(2)]
    for version, place in enumerate(places):
        place.mkdir(parents=True)
        kind.write(place, version)
    whole = kind.read(places[0])
    for what, path, change in _changes(places, parts_alone=kind.parts_alone):
        yield what, _read_damaged(kind, places[0], path, change, whole)


def _changes(places: list[Path], *, parts_alone: bool) -> Iterator[tuple[str, Path, bytes | None]]:
    """Yield what is done to which file and its content afterwards, None if it is deleted."""
    chance = random.Random(0)
    one, other = ({path.relative_to(place): path for path in _files(place)} for place in places)
    for _ in range(N_FLIPS):
        path = chance.choice([path for path in one.values() if path.stat().st_size])
        content = bytearray(path.read_bytes())
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        yield "flips", path, bytes(content)
    for path in one.values():
        content = path.read_bytes()
        for length in sorted({0, len(content) // 2, len(content) - 1} - {-1, len(content)}):
            yield "cuts", path, content[:length]
        yield "deletions", path, None
    swaps = [(path, other[name]) for name, path in one.items() if name in other and not parts_alone]
    swaps += [two for two in pairwise(one.values()) if two[0].suffix == two[1].suffix]
    for path, instead in swaps:
        if path.read_bytes() != instead.read_bytes():
            yield "swaps", path, instead.read_bytes()


def _files(place: Path) -> list[Path]:
    return sorted(path for path in place.rglob("*") if path.is_file() and path.suffix != ".lock")


def _read_damaged(kind: Any, place: Path, path: Path, change: bytes | None, whole: Any) -> Outcome:
    from infuser.errors import InfuserError

    intact, damaged = path.read_bytes(), str(path.relative_to(place))
    path.unlink()
    if change is not None:
        path.write_bytes(change)
    try:
        return ("harmless", "") if kind.read(place) == whole else ("unnoticed", f"{damaged}: other answers")
    except InfuserError as error:
        return _noticed(str(error), path, place)
    except Exception as error:
        return "unclear", f"{damaged}: {error!r}"
    finally:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(intact)


def _noticed(message: str, path: Path, place: Path) -> Outcome:
    """Tell errors that name the damaged file from those that name its folder, or only that there is no result."""
    if path.name in message:
        return "file named", ""
    if str(path.parent) in message or str(place) in message:
        return "folder named", ""
    return ("none there", "") if "not finished" in message else ("unclear", f"{path.name}: {message}")


# faults --------------------------------------------------------------------------------------------------------------


def faults(name: str, folder: Path) -> Cases:
    """Yield the case of every operation of writing one kind of artifact."""
    from artifact_kinds import KINDS
    from faulty_disk import FaultyDisk, Killed
    from safetensors import SafetensorError
    from test_faults import Place

    from infuser.errors import InfuserError

    place = Place(KINDS[name], folder)
    for fault in ("full", "broken", "killed"):
        for at in range(1, len(place.operations) + 1):
            errors = (Killed, InfuserError, OSError, SafetensorError)
            with FaultyDisk(place.reset(), fault, at) as disk, suppress(*errors):  # type: ignore[arg-type]
                place.write()
            rooms = {fault: place.folder}
            if fault == "killed":
                rooms["without power"] = place.folder.with_name("without power")
                shutil.rmtree(rooms["without power"], ignore_errors=True)
                disk.cut_power(rooms["without power"])
            for what, room in rooms.items():
                try:
                    place.check(room)
                except Exception as error:
                    yield what, ("unnoticed", f"operation {at}, {place.operations[at - 1]}: {error!r}"[:500])
                else:
                    yield what, ("whole", "")


# kills and writers ---------------------------------------------------------------------------------------------------


def kills(name: str, folder: Path) -> Cases:
    """Yield the case of every kill of one command; a folder that was killed five times is then finished."""
    command, expected, seconds = _untouched(name, folder)
    chance = random.Random(0)
    for chain in range(N_KILLS // 5):
        out, log = folder / f"killed {chain}" / "it", folder / "log"
        out.parent.mkdir()
        n_killed = 0
        while n_killed < 5:
            process = command.start(0, out, log)
            time.sleep(chance.uniform(0, seconds))
            process.kill()
            process.join()
            if process.exitcode == -9:
                n_killed += 1
            else:  # it had ended: from the beginning
                shutil.rmtree(out)
        outcome = _finish(command, out, log, expected)
        yield from [("kills", outcome)] * n_killed


def _finish(command: Any, out: Path, log: Path, expected: Mapping[str, Any]) -> Outcome:
    from audited_commands import content_of, problem_of
    from forked import exit_codes

    if exit_codes(command.start(0, out, log)) != [0]:
        return "unnoticed", f"the next run failed: {problem_of(log)}"
    differing = _differing(content_of(out), expected)
    return ("unnoticed", f"differs: {differing}") if differing else ("whole", "")


def writers(name: str, folder: Path) -> Cases:
    """Yield the case of every meeting of two of one command."""
    from audited_commands import content_of, problem_of
    from forked import exit_codes

    command, expected, seconds = _untouched(name, folder)
    either = [expected] if command.together else [expected, _untouched(name, folder, who=1)[1]]
    for meeting in range(N_MEETINGS):
        out, logs = folder / f"met {meeting}" / "it", [folder / "log 0", folder / "log 1"]
        out.parent.mkdir()
        first = command.start(0, out, logs[0])
        time.sleep(seconds * meeting / N_MEETINGS / 2)
        codes = exit_codes(first, command.start(1, out, logs[1]))
        said = [problem_of(log) for code, log in zip(codes, logs, strict=True) if code != 0]
        found = [one for one in either if not _differing(content_of(out), one)]
        if 0 not in codes or not found:
            yield "writers", ("unnoticed", f"exit codes {codes}; {said}; {_differing(content_of(out), expected)}")
        elif any("TRACEBACK" in one for one in said):
            yield "writers", ("unclear", f"{said}")
        else:
            yield "writers", ("one refused" if said else "both whole", "")


def _untouched(name: str, folder: Path, who: int = 0) -> tuple[Any, dict[str, Any], float]:
    """Return a command, what it writes when it is left alone, and the seconds that takes once all is warm."""
    from audited_commands import content_of, problem_of
    from forked import exit_codes

    command = _COMMANDS[name]
    folder.mkdir(parents=True, exist_ok=True)
    for _ in range(2):
        out, log = Path(tempfile.mkdtemp(dir=folder)) / "it", folder / "log"
        started = time.monotonic()
        codes = exit_codes(command.start(who, out, log))
        seconds = time.monotonic() - started
        if codes != [0]:
            raise SystemExit(f"{name} fails even when it is left alone: {problem_of(log)}")
    return command, content_of(out), seconds


def _differing(found: Mapping[str, Any], expected: Mapping[str, Any]) -> list[str]:
    return sorted(name for name in {*found, *expected} if found.get(name, "") != expected.get(name, ""))[:3]


# table ---------------------------------------------------------------------------------------------------------------


_COMMANDS: dict[str, Any] = {}


def main(parts: list[str]) -> None:
    """Run the parts of the audit, print a line for each kind and command, and write them."""
    from artifact_kinds import KINDS
    from audited_commands import write_inputs
    from transformers.utils import logging

    from infuser.files import json_of, write_whole
    from infuser.versions import installed_versions

    logging.disable_progress_bar()
    logging.set_verbosity_error()
    parts = parts or ["damage", "faults", "kills", "writers"]
    audits: dict[str, Callable[[str, Path], Cases]] = {
        "damage": damage,
        "faults": faults,
        "kills": kills,
        "writers": writers,
    }
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        _COMMANDS.update(write_inputs(Path(folder) / "inputs") if {"kills", "writers"} & {*parts} else {})
        for part in parts:
            for name in KINDS if part in ("damage", "faults") else _COMMANDS:
                if part == "damage" and name == "report":  # a plain file for people
                    continue
                place = Path(folder) / part / re.sub(r"\W", "-", name)
                rows.append(_row(part, name, list(audits[part](name, place))))
                _print(rows[-1])
    n_bad = sum(row["unnoticed"] + row["unclear"] for row in rows)
    n_cases = sum(row["cases"] for row in rows)
    print(f"\n{n_cases:,} cases, {n_bad} of them unnoticed or unclear")
    earlier = json.loads(RESULT.read_text(encoding="utf-8"))["rows"] if RESULT.exists() else []
    rows = [row for row in earlier if row["audit"] not in parts] + rows  # of the parts that were not run now
    write_whole(RESULT, json_of({"rows": rows, "versions": installed_versions()}))


def _row(part: str, name: str, cases: list[tuple[str, Outcome]]) -> dict[str, Any]:
    kinds = collections.Counter(what for what, _ in cases)
    ended = collections.Counter(how for _, (how, _) in cases)
    bad = sorted({f"{what}: {said}" for what, (_, said) in cases if said})
    good = {how: n for how, n in ended.items() if how not in ("unnoticed", "unclear")}
    counts = {"cases": len(cases), "of": dict(kinds), "ended": good}
    return {
        "audit": part,
        "name": name,
        **counts,
        "unclear": ended["unclear"],
        "unnoticed": ended["unnoticed"],
        "bad": bad,
    }


def _print(row: Mapping[str, Any]) -> None:
    of, ended = (", ".join(f"{n} {what}" for what, n in row[name].items()) for name in ("of", "ended"))
    print(f"{row['audit']:8} {row['name']:20} {of:60} {ended:40} {row['unclear']:3} {row['unnoticed']:3}", flush=True)
    for line in row["bad"][:5]:
        print(f"         {line[:300]}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
