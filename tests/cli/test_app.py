"""The commands as a whole: what help costs and teaches, and how errors are told."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from cli.commands import COLUMNS, error_of, run_command, write_lines

import infuser

HELP_AND_REPORT = """
import json, sys
from infuser.cli import app
try:
    app(["--help"])
except SystemExit as end:
    print(json.dumps({"code": end.code, "modules": sorted(sys.modules)}), file=sys.stderr)
"""


def test_help_loads_nothing_heavy() -> None:
    child = subprocess.run([sys.executable, "-c", HELP_AND_REPORT], capture_output=True, text=True, check=True)
    report = json.loads(child.stderr)
    assert report["code"] == 0
    assert "explain" in child.stdout
    heavy = {"torch", "transformers", "numpy", "matplotlib", "sklearn", "accelerate"}
    assert heavy.isdisjoint(report["modules"])


def test_version_is_that_of_the_package() -> None:
    assert run_command("--version").output.strip() == f"infuser {infuser.__version__}"


@pytest.mark.parametrize("command", ["train", "predict", "explain", "demo"])
def test_help_of_each_command_teaches_with_an_example(command: str) -> None:
    told = run_command(command, "--help").output
    assert re.search(rf"infuser {command} \S", told)


@pytest.mark.parametrize("command", ["train", "predict", "explain"])
def test_knowledge_is_named_the_same_way_in_every_command(command: str) -> None:
    told = run_command(command, "--help").output
    flags = ("--sources", "--entities", "--phrases", "--correlation", "--graph", "--aliases", "--terms")
    assert all(flag in told for flag in flags)


def test_assets_are_a_group_of_commands() -> None:
    assert "fetch" in run_command("assets", "--help").output


def test_an_error_is_one_line_and_its_traceback_shows_on_request(tmp_path: Path) -> None:
    missing = tmp_path / "missing.csv"
    arguments = ("train", "minilm", missing, "--plain", "--out", tmp_path / "out")
    assert str(missing) in error_of(*arguments)
    for place in (0, len(arguments)):  # before the command or behind it
        with_debug = [*arguments[:place], "--debug", *arguments[place:]]
        result = run_command(*with_debug, code=1)
        assert isinstance(result.exception, infuser.InfuserError)


@pytest.mark.parametrize("command", ["predict", "explain"])
def test_a_model_that_does_not_exist_is_named(command: str, tmp_path: Path) -> None:
    missing = tmp_path / "no" / "model"
    told = error_of(command, missing, "--text", "Bern", code=1)
    assert str(missing) in told and "infuser assets list" in told


@pytest.mark.parametrize("command", [("predict",), ("explain", "--json")])
def test_the_folder_of_a_run_stands_for_its_model(command: tuple[str, ...], trained: Path) -> None:
    of_run, of_model = (run_command(*command, place, "--text", "Bern").output for place in (trained, trained / "model"))
    assert of_run == of_model != ""


def test_where_a_run_is_no_checkpoint_its_model_is_named(trained: Path, task: Path, tmp_path: Path) -> None:
    told = error_of("train", trained, task / "train.csv", *COLUMNS, "--plain", "--out", tmp_path / "out", code=1)
    assert str(trained / "model") in told


def test_a_folder_without_a_model_is_named(tmp_path: Path) -> None:
    data = write_lines(tmp_path / "train.csv", "text,label", "a,0", "b,1", "c,0", "d,1")
    told = error_of("train", tmp_path, data, "--plain", "--out", tmp_path / "out", code=1)
    assert str(tmp_path) in told and "config.json" in told
    assert not (tmp_path / "out").exists()
