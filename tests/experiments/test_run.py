"""Cells are computed once, whoever computes them and however often it was interrupted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from experiments.small_bench import comparable, write_bench

from infuser.errors import DivergedError, InputError
from infuser.experiments import run as running
from infuser.experiments.cell import Cell
from infuser.experiments.data import Annotator, rows_of
from infuser.experiments.grid import all_cells, make_cell, planned, run_bench
from infuser.experiments.run_folder import Results
from infuser.experiments.settings import Bench, only, read_bench
from infuser.experiments.summary import summarise
from infuser.sources import Selective

SCRIPT = """
import sys
from pathlib import Path
from infuser.experiments.grid import run_bench
from infuser.experiments.settings import read_bench

if __name__ == "__main__":
    run_bench(read_bench(Path(sys.argv[1])), Path(sys.argv[2]), together=len(sys.argv) > 3)
"""


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bench(tmp_path_factory.mktemp("bench"))


@pytest.fixture(scope="module")
def finished(settings: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Bench, Path]:
    bench, out = read_bench(settings), tmp_path_factory.mktemp("run")
    run_bench(bench, out)
    return bench, out


def read(bench: Bench, out: Path) -> dict[Cell, dict[str, Any]]:
    return {cell: result for cell in all_cells(bench) if (result := Results(out).read(cell)) is not None}


def times(out: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in out.glob("cells/*.json")}


def table(bench: Bench, out: Path) -> str:
    without_time = [{**result, "seconds": {"total": 0.0}, "peak_mib": 0.0} for result in read(bench, out).values()]
    return summarise(bench, without_time).to_json()


def test_a_result_tells_everything_about_its_cell(finished: tuple[Bench, Path]) -> None:
    bench, out = finished
    results = read(bench, out)
    assert len(results) == 6
    result = results[Cell("tiny", "kam", "ads", 1)]
    assert result["settings"]["method"]["sources"][0]["kind"] == "graph" and result["settings"]["seed"] == 1
    assert result["settings"]["training"]["learning_rate"] == 0.003
    assert result["data"]["train"]["n"] > 0 and result["data"]["held_out"]["n"] == 8
    assert len(result["predictions"]) == len(result["golds"]) == result["data"]["score"]["n"]
    assert list(result["scores"]) == result["metrics"]
    assert result["extra_weights"] > 0 and results[Cell("tiny", "plain", "ads", 1)]["extra_weights"] == 0
    assert result["peak_mib"] > 10 and 0 < result["seconds"]["training"] < result["seconds"]["total"]
    assert {"infuser", "torch", "transformers"} <= result["versions"].keys()


def test_methods_start_alike_and_seeds_differ(finished: tuple[Bench, Path]) -> None:
    results = read(*finished)
    predictions = {(cell.method, cell.seed): result["predictions"] for cell, result in results.items()}
    assert predictions["plain", 0] != predictions["plain", 1]
    assert predictions["kam", 0] != predictions["placebo", 0] != predictions["plain", 0]


def test_a_second_call_computes_nothing(finished: tuple[Bench, Path]) -> None:
    bench, out = finished
    before, heard = times(out), []
    run_bench(bench, out, progress=lambda cell, report: heard.append(cell))
    assert times(out) == before and not heard


def test_changed_settings_give_new_cells_beside_the_old_ones(finished: tuple[Bench, Path], settings: Path) -> None:
    out = finished[1]
    other = read_bench(write_bench(settings.parent, replaced=("seeds = [0, 1]", "seeds = [0, 1, 2]")))
    before = times(out)
    assert sum(Results(out).is_finished(cell) for cell in all_cells(other)) == 6
    assert len([cell for cell in planned(other) if not Results(out).is_finished(cell)]) == 3
    write_bench(settings.parent)
    assert times(out) == before


def test_a_damaged_result_is_named(finished: tuple[Bench, Path], tmp_path: Path) -> None:
    bench, out = finished
    cell = make_cell(bench, "tiny", "plain", "ads", 0)
    name = Results(out).path(cell).name
    (tmp_path / "cells").mkdir()
    (tmp_path / "cells" / name).write_text('{"format": 1', encoding="utf-8")
    with pytest.raises(InputError, match=r"is damaged.*Remove it"):
        Results(tmp_path).read(cell)


def test_a_cell_that_somebody_works_on_is_left_to_them(finished: tuple[Bench, Path], tmp_path: Path) -> None:
    cell = make_cell(finished[0], "tiny", "plain", "ads", 0)
    with Results(tmp_path).claim(cell) as mine, Results(tmp_path).claim(cell) as other:
        assert mine and not other
    with Results(tmp_path).claim(cell) as mine:
        assert mine


def test_a_worker_reports_steps_by_number_and_not_with_all_the_data_of_a_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = [Cell("host", "plain", "task", seed) for seed in range(3)]
    reported: list[Any] = []

    def steps(cells: Any, results: Any, cache: Any, progress: Any) -> None:
        for cell in reversed(cells):
            progress(cell, None)

    monkeypatch.setattr(running, "_work", steps)
    running._work_apart(cells, Results(tmp_path), None, lambda *values: reported.append(values))
    assert reported == [(2, None), (1, None), (0, None)]


def test_trials_choose_the_settings_of_the_seeds(tmp_path: Path) -> None:
    path = write_bench(
        tmp_path, "\n[tune]\nlearning_rate = [1e-7, 0.01]\nn_train = 8\n", replaced=("seeds = [0, 1]", "seeds = [0]")
    )
    bench = read_bench(path)
    run_bench(bench, tmp_path / "run")
    trials = [json.loads(file.read_text()) for file in sorted((tmp_path / "run").glob("trials/*.json"))]
    assert len(trials) == 6
    for cell, result in read(bench, tmp_path / "run").items():
        own = {
            one["settings"]["train"]["learning_rate"]: one["scores"][one["metrics"][0]]
            for one in trials
            if one["settings"]["method"] == result["settings"]["method"]
        }
        chosen = result["settings"]["tuned"]["learning_rate"]
        assert own[chosen] == max(own.values()), cell
        assert result["settings"]["training"]["learning_rate"] == chosen
    assert all(len(one["golds"]) == 8 for one in trials)  # judged by what is held out


def test_a_trial_that_diverges_is_never_chosen_and_does_not_stop_the_bench(tmp_path: Path) -> None:
    more = "\n[tune]\nlearning_rate = [1e30, 1e-3]\nn_train = 16\n"
    bench = only(read_bench(write_bench(tmp_path, more, replaced=("seeds = [0, 1]", "seeds = [0]"))), methods=["plain"])
    run_bench(bench, tmp_path / "run")
    [result] = read(bench, tmp_path / "run").values()
    assert result["settings"]["tuned"] == {"learning_rate": 1e-3}
    alone = read_bench(write_bench(tmp_path, replaced=("learning_rate = 0.003", "learning_rate = 1e30")))
    with pytest.raises(DivergedError, match=r"^ads, tiny, plain, seed 0: Training diverged"):
        run_bench(alone, tmp_path / "other")


def test_a_method_may_have_any_name(tmp_path: Path) -> None:
    bench = read_bench(write_bench(tmp_path, '\n[method.data]\nlike = "kam"\n[method.task]\nlike = "kam"\n'))
    made: dict[Any, Any] = {}
    for name in ("data", "task", "plain"):
        setup = make_cell(bench, "tiny", name, "ads", 0).open([], made)  # type: ignore[misc]
        assert setup.arm.name == name


def test_what_is_wrong_with_the_last_task_shows_before_the_first_is_trained(tmp_path: Path) -> None:
    bench = read_bench(write_bench(tmp_path, '\n[task.other]\nkind = "table"\ndata = "nowhere"\n'))
    with pytest.raises(InputError, match="nowhere"):
        run_bench(bench, tmp_path / "run")
    assert not (tmp_path / "run" / "cells").exists()


def test_selection_draws_by_how_rare_entities_are(tmp_path: Path) -> None:
    more = '\n[method.si]\nlike = "kam"\nselect = { rare = 1, connection = 0.0 }\n'
    bench = read_bench(write_bench(tmp_path, more))
    annotator, made = Annotator(), dict[str, Any]()
    setups = {name: make_cell(bench, "tiny", name, "ads", 0).open([], made) for name in ("si", "kam")}  # type: ignore[misc]
    arm, data = annotator.annotate(setups["si"].data, setups["si"].arm)
    assert all(isinstance(source, Selective) for source in arm.sources)
    odds = [found[1].odds for example in data.train if (found := example["annotations"])[1].spans]
    assert odds and all(len(one) > 0 for one in odds), "each mention has its odds"
    _, bare = annotator.annotate(setups["kam"].data, setups["kam"].arm)
    assert not any(found.odds for example in bare.train for (found, *_) in rows_of(example))


@pytest.mark.slow
def test_a_killed_bench_goes_on_and_its_table_is_that_of_an_uninterrupted_one(
    finished: tuple[Bench, Path], settings: Path, tmp_path: Path
) -> None:
    bench, whole = finished
    script, out = tmp_path / "script.py", tmp_path / "run"
    script.write_text(SCRIPT, encoding="utf-8")
    command = [sys.executable, str(script), str(settings), str(out)]
    process = subprocess.Popen(command, start_new_session=True)
    deadline = time.monotonic() + 120
    while len(times(out)) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    before = times(out)
    assert 2 <= len(before) < 6, "killed in the middle"
    subprocess.run(command, check=True, timeout=300)
    after = times(out)
    assert len(after) == 6 and {name: after[name] for name in before} == before, "a finished cell was computed again"
    assert [comparable(one) for one in read(bench, out).values()] == [
        comparable(one) for one in read(bench, whole).values()
    ]
    assert table(bench, out) == table(bench, whole)


@pytest.mark.slow
@pytest.mark.parametrize("together", [False, True])
def test_two_launched_processes_give_the_table_of_one(
    finished: tuple[Bench, Path], settings: Path, tmp_path: Path, together: bool
) -> None:
    bench, whole = finished
    script, out = tmp_path / "script.py", tmp_path / "run"
    script.write_text(SCRIPT, encoding="utf-8")
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*launch, str(script), str(settings), str(out), *(["together"] if together else [])]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=400,
        env={**os.environ, "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found, known = read(bench, out), read(bench, whole)
    assert found.keys() == known.keys()
    assert {one["n_processes"] for one in found.values()} == {2 if together else 1}
    if not together:  # each cell was computed by one process alone: bit for bit the same
        assert [comparable(one) for one in found.values()] == [comparable(one) for one in known.values()]
        return
    for cell, result in found.items():  # dropout differs between processes, nothing else
        assert result["golds"] == known[cell]["golds"] and result["data"] == known[cell]["data"]
        apart = np.abs(np.array(result["predictions"]) - np.array(known[cell]["predictions"])).mean()
        other = known[replace(cell, seed=1 - cell.seed)]["predictions"]
        assert apart < np.abs(np.array(other) - np.array(known[cell]["predictions"])).mean(), "less than another seed"
