"""Which folder holds the model of what a command was given."""

from __future__ import annotations

import os
from pathlib import Path

from infuser.experiments.run_folder import find_model


def write(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{}")


def test_a_training_has_one_model_and_a_comparison_the_newest_it_kept(tmp_path: Path) -> None:
    write(tmp_path / "training" / "model" / "config.json")
    assert find_model(tmp_path / "training") == find_model(tmp_path / "training" / "model")
    assert find_model(tmp_path / "training") == str(tmp_path / "training" / "model")
    for name, seconds in (("kam--1", 20), ("kam--0", 10)):
        for file in ("config.json", "infuser.json"):
            write(tmp_path / "comparison" / "models" / name / file)
        os.utime(tmp_path / "comparison" / "models" / name / "infuser.json", (seconds, seconds))
    assert find_model(tmp_path / "comparison") == str(tmp_path / "comparison" / "models" / "kam--1")


def test_a_model_with_another_inside_and_what_is_no_run_stay_as_they_are(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "model"):
        write(folder / "config.json")
    assert find_model(str(tmp_path)) == str(tmp_path)
    assert [find_model(name) for name in ("minilm", "org/model", "./nowhere/")] == ["minilm", "org/model", "./nowhere/"]
