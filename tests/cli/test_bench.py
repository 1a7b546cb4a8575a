"""`infuser bench`: run, table, sweep, ablate and submission, as people call them."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from cli.commands import error_of, run_command
from experiments.small_bench import SETTINGS, write_bench

ONE_SEED = ("seeds = [0, 1]", "seeds = [0]")


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bench(tmp_path_factory.mktemp("bench"), replaced=ONE_SEED)


@pytest.fixture(scope="module")
def ran(settings: Path) -> Path:
    out = settings.parent / "run"
    told = run_command("bench", "run", settings, "--out", out).output
    assert "3 trainings (1 hosts x 3 methods x 1 tasks x 1 seeds)" in told
    assert "ads, tiny, kam, seed 0: done" in told and "3 cells in" in told
    return out


def test_a_run_leaves_results_settings_and_a_page(ran: Path) -> None:
    assert len(list(ran.glob("cells/*.json"))) == 3
    assert json.loads((ran / "bench.json").read_text())["title"] == "small"
    page = (ran / "bench.html").read_text()
    assert "placebo" in page and "<script src" not in page and "http://" not in page.replace("http://www.w3.org", "")


def test_a_second_run_says_that_all_is_known(ran: Path, settings: Path) -> None:
    told = run_command("bench", "run", settings, "--out", ran).output
    assert "3 known from before" in told and "done" not in told


@pytest.mark.parametrize(
    ("format", "told"), [("markdown", "| "), ("latex", "\\toprule"), ("html", "<table"), ("json", '"title"')]
)
def test_the_table_can_be_written_in_every_format(ran: Path, tmp_path: Path, format: str, told: str) -> None:
    run_command("bench", "table", ran, "--format", format, "--out", tmp_path / "table")
    written = (tmp_path / "table").read_text()
    assert told in written and "placebo" in written


def test_the_table_in_the_terminal_names_methods_and_the_task(ran: Path) -> None:
    told = run_command("bench", "table", ran).output
    assert "placebo" in told and "ads" in told


def test_a_sweep_takes_over_known_cells_and_draws_its_curve(ran: Path, settings: Path) -> None:
    told = run_command("bench", "sweep", settings, "--method", "kam", "--over", "alpha=0.1,0.2", "--out", ran).output
    assert "2 known from before" in told, "plain, and kam, whose alpha is 0.2"
    assert "kam alpha=0.1" in run_command("bench", "table", ran, "--of", "sweep-alpha", "--format", "markdown").output
    assert "<svg" in (ran / "sweep-alpha.html").read_text()


def test_an_ablation_leaves_one_part_out_at_a_time(ran: Path, settings: Path) -> None:
    chosen = ("--method", "kam", "--part", "graph", "--part", "convolution")
    run_command("bench", "ablate", settings, *chosen, "--out", ran)
    told = (ran / "ablate.html").read_text()
    assert "kam without graph" in told and "kam without convolution" in told and "<svg" in told


def test_answers_to_hidden_tests_become_a_submission(settings: Path, tmp_path: Path) -> None:
    rows = ["index\tsentence", *(f"{n}\ttext number {n}" for n in range(1063))]
    (tmp_path / "test.tsv").write_text("\n".join(rows) + "\n")
    for part in ("train", "dev"):
        lines = [f"a\t{n % 2}\t\tsentence {n} buy {'medicine' if n % 2 else 'tool'}" for n in range(24)]
        (tmp_path / f"{part}.tsv").write_text("\n".join(lines) + "\n")
    start, end = SETTINGS.index("[task.ads]"), SETTINGS.index("[train]")
    entry = f"[task.cola]\ndata = '{tmp_path}'\nscore_on = 'test'\nhold_out = 8\n\n"
    path = settings.parent / "hidden.toml"
    path.write_text((SETTINGS[:start] + entry + SETTINGS[end:]).replace(*ONE_SEED))
    run_command("bench", "run", path, "--out", tmp_path / "run", "--method", "kam")
    asked = ("--method", "kam", "--out", tmp_path / "sent.zip")
    told = run_command("bench", "submission", tmp_path / "run", *asked).output
    assert "CoLA.tsv" in told and "Missing" in told and "RTE.tsv" in told
    with zipfile.ZipFile(tmp_path / "sent.zip") as sent:
        lines = sent.read("CoLA.tsv").decode().splitlines()
    assert lines[0] == "index\tprediction" and len(lines) == 1064 and {line[-1] for line in lines[1:]} <= {"0", "1"}


def test_what_cannot_be_done_is_said_in_one_line(settings: Path, ran: Path, tmp_path: Path) -> None:
    assert "name a setting and its values" in error_of("bench", "sweep", settings, "--over", "alpha", "--out", tmp_path)
    assert "There is no method 'kar'" in error_of("bench", "run", settings, "--method", "kar", "--out", tmp_path)
    assert "holds no bench called 'bench'" in error_of("bench", "table", tmp_path)
    assert "give --out FILE.html" in error_of("bench", "table", ran, "--format", "html")
    assert "holds no answers" in error_of("bench", "submission", ran, "--method", "kam", "--out", tmp_path / "x.zip")


def test_an_unknown_setting_of_a_method_or_of_training_is_named(tmp_path: Path) -> None:
    path = write_bench(tmp_path, replaced=("placebo = true", "alfa = 0.1"))
    assert "kam has no setting 'alfa'" in error_of("bench", "run", path, "--out", tmp_path / "run", "--seeds", 1)
    path = write_bench(tmp_path, replaced=("epochs = 1", "epoch = 1"))
    assert "[train] has no setting 'epoch'" in error_of("bench", "run", path, "--out", tmp_path / "run2")
