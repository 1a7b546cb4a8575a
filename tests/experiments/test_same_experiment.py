"""The same table, knowledge and seed give the same experiment, whichever command runs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cli.commands import MEDICINES, TOOLS, examples_of, run_command, write_csv
from experiments.small_bench import SETTINGS, write_bench

import infuser
from infuser import Arm, Data, Graph, Kam, TrainSettings
from infuser.errors import InputError
from infuser.experiments.grid import all_cells, read_results
from infuser.experiments.run_folder import Results
from infuser.experiments.settings import read_bench
from infuser.experiments.train import open_run
from infuser.files import digest_of
from infuser.sources.lists import read_aliases
from infuser.sources.naming import from_path
from infuser.tables.examples import Columns

COLUMNS = Columns("query", "ad", "verdict")
SEED = 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("same")
    write_bench(folder)
    write_csv(folder / "test.csv", examples_of(MEDICINES[1:], TOOLS[1:]))
    return folder


def by_train(folder: Path, *arm: str) -> dict[str, Any]:
    out = folder / "-".join(["train", *arm])
    graph = () if arm == ("--plain",) else ("--graph", folder / "triples.tsv", "--aliases", folder / "names.tsv")
    run_command(
        *("train", folder / "tiny", folder / "train.csv", "--test", folder / "test.csv", "--out", out, *graph, *arm),
        *("--text-column", "query", "--pair-column", "ad", "--label-column", "verdict", "--seed", SEED),
        *("--epochs", 2, "--batch-size", 8, "--learning-rate", 0.003, "--patience", 2),
    )
    record: dict[str, Any] = json.loads((out / "train.json").read_text())
    return record


def by_compare(folder: Path) -> dict[str, dict[str, Any]]:
    graph = from_path("graph", folder / "triples.tsv", {"aliases": read_aliases([folder / "names.tsv"])})
    assert isinstance(graph, Graph)
    found = infuser.compare(
        folder / "tiny",
        Arm(Kam(), [graph]),
        Data.from_table(folder / "train.csv", test=folder / "test.csv", columns=COLUMNS),
        seeds=[SEED],
        settings=TrainSettings(epochs=2, batch_size=8, learning_rate=0.003, patience=2),
        text=False,
    )
    return {name: results[0] for name, results in found.results.items()}


def by_bench(folder: Path) -> dict[str, dict[str, Any]]:
    settings = SETTINGS.replace("seeds = [0, 1]", f"seeds = [{SEED}]").replace('["graph", "names"]', '["graph"]')
    settings = settings.replace('dev = "dev.csv"', 'test = "test.csv"\nscore_on = "test"').replace("hold_out = 8", "")
    settings = settings.replace("epochs = 1", "epochs = 2\npatience = 2")
    (folder / "one.toml").write_text(settings, encoding="utf-8")
    run_command("bench", "run", folder / "one.toml", "--out", folder / "bench")
    results = read_results(folder / "bench", read_bench(folder / "one.toml"))
    return {result["cell"]["method"]: result for result in results}


def test_train_compare_and_a_one_row_bench_give_the_same_predictions(folder: Path) -> None:
    trained = {"plain": by_train(folder, "--plain"), "kam": by_train(folder), "placebo": by_train(folder, "--placebo")}
    compared, benched = by_compare(folder), by_bench(folder)
    assert compared.keys() == benched.keys() == trained.keys()
    for arm, record in trained.items():
        assert record["predictions"] == compared[arm]["predictions"] == benched[arm]["predictions"], arm
        assert record["scores"] == compared[arm]["scores"] == benched[arm]["scores"], arm
        assert next(iter(record["scores"])) == "auc" and record["history"] == benched[arm]["history"]
        assert record["data"] == compared[arm]["data"], "the same examples in every part"
    assert len({str(record["predictions"]) for record in trained.values()}) == 3, "and arms differ"


def test_what_is_held_out_depends_on_the_data_seed_and_not_on_the_seed_of_training(folder: Path) -> None:
    one, other = (Data.from_table(folder / "train.csv", columns=COLUMNS, seed=seed) for seed in (0, 1))
    assert one.dev != other.dev and len(one.dev) == len(other.dev)
    assert {example["label"] for example in one.dev} == {0, 1}, "labels in proportion"
    again = Data.from_table(folder / "train.csv", columns=COLUMNS)
    assert again == one and one.scored == "dev" and one.test is one.dev


def test_results_of_an_earlier_version_are_read_for_tables_and_computed_again(folder: Path, tmp_path: Path) -> None:
    """Before the hold-out rule was stratified, the digest of a cell did not name it."""
    bench = read_bench(write_bench(folder))
    cell = all_cells(bench)[0]
    assert cell.earlier and cell.earlier[0] != cell.digest
    old = tmp_path / "cells" / f"ads--tiny--plain--0--{cell.earlier[0]}.json"
    old.parent.mkdir()
    old.write_text(json.dumps({"format": 1, "scores": {"accuracy": 0.5}}), encoding="utf-8")
    results = Results(tmp_path)
    read = results.read(cell)
    assert read is not None and read["scores"] == {"accuracy": 0.5}
    assert not results.is_finished(cell), "another hold-out is another experiment"
    results.write(cell, {"scores": {"accuracy": 0.75}})
    assert old.exists() and results.is_finished(cell)
    assert (results.read(cell) or {})["scores"] == {"accuracy": 0.75}


def test_a_damaged_result_and_one_of_another_cell_are_refused(folder: Path, tmp_path: Path) -> None:
    cell, other = all_cells(read_bench(write_bench(folder)))[:2]
    results = Results(tmp_path)
    path = results.write(cell, {"scores": {"accuracy": 0.75}})
    content = path.read_text()
    path.write_text(content.replace("0.75", "0.76"))
    with pytest.raises(InputError, match=r"is damaged: its content has another digest.* Remove it"):
        results.read(cell)
    path.write_text(content)
    assert (results.read(cell) or {})["scores"] == {"accuracy": 0.75}
    path.rename(path.with_name(path.name.replace(cell.digest, other.digest)))
    with pytest.raises(InputError, match=rf"is the result of another cell \({cell.digest}\)"):
        results.read(other)


def test_a_run_of_an_earlier_version_is_read_with_the_examples_that_it_held_out(folder: Path) -> None:
    """It had no data seed: the seed of training decided, by the same draw."""
    by_train(folder)
    run = open_run(folder / "train")
    made_with = run.record["made_with"]
    del made_with["data_seed"]
    old = Data.from_table(folder / "train.csv", test=folder / "test.csv", columns=COLUMNS, seed=SEED)
    made_with["dev"] = digest_of(old.dev)
    assert run.again().data.dev == old.dev
    made_with["dev"] = "of another rule"
    with pytest.raises(InputError, match="held out other examples"):
        run.again()
