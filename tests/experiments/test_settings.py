from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from experiments.small_bench import SETTINGS, write_bench

from infuser.errors import InputError
from infuser.experiments.grid import all_cells, best_trial, keep_settings, make_cell, read_settings, trials
from infuser.experiments.settings import ArmEntry, Bench, only, read_bench
from infuser.experiments.variations import ablate, sweep
from infuser.stats.metrics import get_metric


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return read_bench(write_bench(tmp_path))


def refused(tmp_path: Path, old: str, new: str) -> str:
    assert old in SETTINGS
    with pytest.raises(InputError) as error:
        read_bench(write_bench(tmp_path, replaced=(old, new)))
    return str(error.value)


def test_a_settings_file_is_read_with_everything_it_says(bench: Bench) -> None:
    assert (bench.title, bench.seeds, bench.baseline) == ("small", (0, 1), "plain")
    assert bench.arms["plain"].kind is None
    assert bench.arms["kam"].sources == ("graph", "names")
    assert bench.tasks["ads"].settings["text"] == "query" and bench.tasks["ads"].hold_out == 8


def test_a_method_like_another_takes_over_its_keys_and_keeps_its_own(bench: Bench) -> None:
    assert bench.arms["placebo"] == replace(bench.arms["kam"], name="placebo", placebo=True)


def test_settings_written_as_json_are_read_back_as_they_were(bench: Bench, tmp_path: Path) -> None:
    keep_settings(tmp_path / "run", bench)
    assert read_settings(tmp_path / "run") == bench


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('title = "small"', "titel = 1", "Did you mean 'title'?"),
        ("seeds = [0, 1]", "seeds = [0, 0]", "would count twice"),
        ("seeds = [0, 1]", "seeds = 3", "a list of whole numbers"),
        ('baseline = "plain"', 'baseline = "plane"', "is no method here"),
        ('checkpoint = "tiny"', "max_length = 3", "needs checkpoint"),
        ('sources = ["graph", "names"]', 'sources = ["graf"]', "there is no [source.graf]"),
        (', sources = ["graph", "names"]', "", "names no sources"),
        ('like = "kam"', 'like = "placebo"', "like itself"),
        ('like = "kam"', 'like = "kan"', "no method here"),
        ("plain = {}", "plain = { alpha = 0.1 }", "no kind"),
        ("hold_out = 8", "hold_out = -1", "hold_out is -1"),
        ("hold_out = 8", 'hold_out = "8"', "hold_out is '8'; give a number"),
        ("placebo = true", 'placebo = "no"', "placebo is 'no'; give true or false"),
        ('sources = ["graph", "names"]', 'sources = "graph"', "give a list"),
        ('checkpoint = "tiny"', 'checkpoint = "tiny", max_length = "x"', "max_length is 'x'"),
        ("[train]", "[tune]\nlearning_rate = []\nepochs = [1, 2]\n[train]", "tries nothing"),
        ("[train]", '[tune]\nlearning_rate = [1e-3]\nn_train = "x"\n[train]', "n_train is 'x'"),
        ("hold_out = 8", "n_train = 0", "at least 1"),
        ("hold_out = 8", 'score_on = "tests"', "score_on is 'tests'"),
        ("[train]", "[tune]\nlearning_rate = 0.1\n[train]", "tries nothing"),
        ("[train]", '[sweep]\nmethod = "kam"\n[train]', "one setting with a list"),
        ("[train]", '[ablate]\nmethod = "kam"\nparts = ["nouns"]\n[train]', "'nouns' cannot be left out"),
    ],
)
def test_what_a_settings_file_cannot_mean_is_said_with_its_place(tmp_path: Path, old: str, new: str, told: str) -> None:
    assert told in refused(tmp_path, old, new)


def test_a_file_that_is_no_toml_or_not_there_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("title = ", encoding="utf-8")
    with pytest.raises(InputError, match="is not TOML"):
        read_bench(tmp_path / "bad.toml")
    with pytest.raises(InputError, match="Cannot read the settings file"):
        read_bench(tmp_path / "none.toml")


def test_cells_go_seed_by_seed_so_that_pairs_are_whole(bench: Bench) -> None:
    cells = all_cells(bench)
    assert [(cell.seed, cell.method) for cell in cells] == [
        (seed, method) for seed in (0, 1) for method in ("plain", "kam", "placebo")
    ]


def test_a_sweep_and_an_ablation_are_methods_that_differ_in_one_thing(bench: Bench) -> None:
    swept = sweep(bench, "kam", "alpha", [0.0, 0.4])
    assert swept.arms["kam alpha=0.4"].settings == {"alpha": 0.4}
    taken = ablate(bench, "kam", ["graph", "convolution"])
    assert taken.arms["kam without graph"].sources == ("names",)
    assert taken.arms["kam without convolution"].settings == {"fusion": "mean"}
    assert all(arm.tuned_as == "kam" for name, arm in taken.arms.items() if "without" in name)


def test_what_can_be_left_out_by_default_are_all_sources_and_parts(bench: Bench) -> None:
    names = [name for name in ablate(bench, "kam").arms if "without" in name]
    assert names[:2] == ["kam without graph", "kam without names"] and "kam without convolution" in names


def test_the_only_method_with_knowledge_need_not_be_named(bench: Bench) -> None:
    assert "kam alpha=0.1" in sweep(bench, None, "alpha", [0.1]).arms
    with pytest.raises(InputError, match="There is no method 'kar'"):
        sweep(bench, "kar", "alpha", [0.1])


def test_what_cannot_be_varied_is_said(bench: Bench) -> None:
    with pytest.raises(InputError, match="is the plain encoder"):
        sweep(bench, "plain", "alpha", [0.1])
    with pytest.raises(InputError, match="different values"):
        sweep(bench, "kam", "alpha", [1, 1.0])
    one = replace(bench, arms={**bench.arms, "own": ArmEntry("own", "ernie", sources=("graph",))})
    with pytest.raises(InputError, match="Nothing can be left out"):
        ablate(one, "own")


def test_a_cell_is_known_by_its_settings_and_not_by_its_name(bench: Bench) -> None:
    same = replace(bench, arms={**bench.arms, "again": replace(bench.arms["kam"], name="again")})
    swept = sweep(bench, "kam", "alpha", [0.2, 0.4, 0])
    digests = {name: make_cell(made, "tiny", name, "ads", 0).digest for made in (same, swept) for name in made.arms}
    assert digests["kam"] == digests["again"] == digests["kam alpha=0.2"], "0.2 is the default"
    assert len({digests[name] for name in ("plain", "kam", "placebo", "kam alpha=0.4", "kam alpha=0")}) == 5
    as_float = sweep(bench, "kam", "alpha", [0.0])
    assert make_cell(as_float, "tiny", "kam alpha=0", "ads", 0).digest == digests["kam alpha=0"], "0 is 0.0"


@pytest.mark.parametrize(
    ("old", "new"),
    [("epochs = 1", "epochs = 2"), ("hold_out = 8", "hold_out = 9"), ('file = "entities.txt"', 'file = "other.txt"')],
)
def test_any_setting_that_decides_the_result_makes_another_cell(
    bench: Bench, tmp_path: Path, old: str, new: str
) -> None:
    other = read_bench(write_bench(tmp_path, replaced=(old, new)))
    one, another = (make_cell(made, "tiny", "kam", "ads", 0) for made in (bench, other))
    assert one == another and one.digest != another.digest


def test_every_method_is_tuned_by_the_same_trials_and_parts_by_those_of_the_whole(tmp_path: Path) -> None:
    bench = read_bench(
        write_bench(tmp_path, "\n[tune]\nlearning_rate = [0.1, 0.01]\nbatch_size = [4, 8]\nepochs = 1\n")
    )
    assert trials(bench) == [{"learning_rate": rate, "batch_size": size} for rate in (0.1, 0.01) for size in (4, 8)]
    assert len(make_cell(bench, "tiny", "plain", "ads", 1).after) == 4
    taken = ablate(bench, "kam", ["graph"])
    of_part, of_whole = (make_cell(taken, "tiny", name, "ads", 1).after for name in ("kam without graph", "kam"))
    assert of_part == of_whole and of_part[0] == make_cell(bench, "tiny", "kam", "ads", 0, trial=0)


def test_the_best_trial_is_the_highest_or_the_lowest_and_of_equals_the_first() -> None:
    results = [{"scores": {"auc": value, "mse": value}} for value in (0.2, 0.7, 0.7, 0.1)]
    assert best_trial(results, get_metric("auc")) == 1
    assert best_trial(results, get_metric("mse")) == 3
    diverged = [{"scores": {}}, *results]
    assert best_trial(diverged, get_metric("auc")) == 2
    with pytest.raises(InputError, match="All 1 trials diverged"):
        best_trial(diverged[:1], get_metric("auc"))


def test_a_part_of_a_bench_keeps_the_baseline(bench: Bench) -> None:
    assert list(only(bench, methods=["placebo"]).arms) == ["plain", "placebo"]
    with pytest.raises(InputError, match="There is no task 'cola'"):
        only(bench, tasks=["cola"])
