"""The tour in CONTRIBUTING.md is true: its rooms are those of the import contract, and its walks go where it says."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from cli.commands import run_command
from experiments.small_bench import write_bench

from infuser import Entities, Kam, infuse

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "infuser"
TOUR = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def layers() -> list[list[str]]:
    """Return the rooms of the import contract, from the one that imports nothing to the one that may import all."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    [contract] = settings["tool"]["importlinter"]["contracts"]
    assert contract["exhaustive"] and "ignore_imports" not in contract
    return [layer.split(" | ") for layer in reversed(contract["layers"])]


def walk(title: str) -> list[str]:
    """Return the files that a walk of the tour names."""
    _, _, rest = TOUR.partition(f"\n### {title}\n")
    lines = re.findall(r"^\d+\. (.*?): ", re.split(r"\n##", rest)[0], re.M)
    assert lines, title
    return [file for line in lines for file in re.findall(r"`([\w/]+\.py)`", line)]


def test_the_table_of_rooms_is_the_import_contract() -> None:
    table = re.findall(r"^\| ((?:`\w+` ?)+) \|", TOUR, re.M)
    assert [re.findall(r"`(\w+)`", row) for row in table] == layers()


def test_every_module_is_in_a_room_of_the_contract() -> None:
    rooms = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert rooms - {"__init__"} == {room for layer in layers() for room in layer}


def test_rooms_of_the_drawing_exist() -> None:
    drawn = re.findall(r"\b([a-z]+)/", TOUR.partition("```\nfiles")[2].partition("```")[0])
    assert len(drawn) > 8 and all((SOURCE / room).is_dir() for room in drawn)


@pytest.mark.parametrize("title", ["One text through batch and model", "`infuser train`", "`infuser bench run`"])
def test_no_walk_enters_a_room_twice(title: str) -> None:
    rooms = [file.split("/")[0] for file in walk(title)]
    entered = [room for at, room in enumerate(rooms) if at == 0 or rooms[at - 1] != room]
    assert len(entered) == len(set(entered))


def files_run_by(job: Callable[[], Any]) -> set[str]:
    """Return the files of the package in which a function is called while the job runs."""
    seen: set[str] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            seen.add(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        job()
    finally:
        sys.setprofile(before)
    return {str(Path(file).relative_to(SOURCE)) for file in seen if Path(file).is_relative_to(SOURCE)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("walk")
    write_bench(folder, replaced=("seeds = [0, 1]", "seeds = [0]"))
    return folder


def test_one_text_walks_through_the_files_that_the_tour_names(folder: Path) -> None:
    infused = infuse(str(folder / "tiny"), Kam(), sources=[Entities(["pharmacy"])])
    ran = files_run_by(lambda: infused.model(**infused.batch(["buy it in the pharmacy"])))
    assert set(walk("One text through batch and model")) <= ran


def test_train_walks_through_the_files_that_the_tour_names(folder: Path) -> None:
    columns = ("--text-column", "query", "--pair-column", "ad", "--label-column", "verdict")
    command = ("train", folder / "tiny", folder / "train.csv", "--graph", folder / "triples.tsv", *columns)
    ran = files_run_by(lambda: run_command(*command, "--epochs", 1, "--out", folder / "run"))
    assert set(walk("`infuser train`")) - ran == set()


def test_bench_walks_through_the_files_that_the_tour_names(folder: Path) -> None:
    ran = files_run_by(lambda: run_command("bench", "run", folder / "bench.toml", "--out", folder / "bench"))
    assert set(walk("`infuser bench run`")) - ran == set()
