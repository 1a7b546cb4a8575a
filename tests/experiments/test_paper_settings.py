"""The settings files of the papers' tables: they can be run, and their published numbers are those of the papers."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import infuser.methods
import infuser.sources
import infuser.tasks.catalogue  # noqa: F401
from infuser.experiments.grid import make_task
from infuser.experiments.settings import Bench, read_bench
from infuser.experiments.summary import summarise
from infuser.registry import METHODS, SOURCES, TASKS
from infuser.reports.bench_table import table_grid
from infuser.sources.naming import fields_of
from infuser.training import TrainSettings

ROOT = Path(__file__).parents[2]
FILES = sorted(
    path for start in ("kam-table-", "si-sr-", "attention-") for path in ROOT.glob(f"benchmarks/settings/{start}*.toml")
)
PAPERS = ROOT.parent / "shared" / "papers"
OF_A_MODEL = {"average", "n_weights", "flops"}
ONLY_PUBLISHED = {
    "kam-table-1": {"bert-base.ernie", "bert-base.sensebert", "bert-base.corefbert", "roberta-large.kepler"},
    "kam-table-2": {"bert-large.wklm", "bert-large.wklm-ranking", "roberta-large.multitask", "roberta-large.k-adapter"},
    "si-sr-table-1": {
        *("bert-base.plain", "bert-base.ERNIE*", "bert-base.KnowBERT*", "bert-base.WKLM"),
        *("roberta-base.KEPLER", "roberta-base.K-Adapter"),
    },
    "attention-relations": {"bart-large.rebel"},
}
"""Rows of models that we do not run; every other published row must be one that we do."""


def published_rows(path: Path) -> Iterator[tuple[str, str, dict[str, Any]]]:
    published = tomllib.loads(path.read_text(encoding="utf-8"))["published"]
    for host, rows in published.items():
        if isinstance(rows, dict):
            yield from ((host, method, row) for method, row in rows.items())


def test_every_table_of_the_papers_has_its_file() -> None:
    tables = [f"kam-table-{number}" for number in range(1, 7)] + ["si-sr-table-1", "si-sr-table-2"]
    assert [path.stem for path in FILES] == ["attention-relations", *tables]


@pytest.fixture(params=FILES, ids=lambda path: path.stem)
def path(request: pytest.FixtureRequest) -> Path:
    found: Path = request.param
    return found


@pytest.fixture
def bench(path: Path) -> Bench:
    return read_bench(path)


def test_every_kind_is_registered_and_has_the_settings_that_are_given(bench: Bench) -> None:
    for entry in bench.sources.values():
        known = {field.name for field in fields_of(entry["kind"])}
        assert entry["kind"] in SOURCES and set(entry) - {"kind", "file"} <= known
    for arm in bench.arms.values():
        if arm.kind is not None:
            METHODS[arm.kind](**arm.settings)
        assert (arm.select is None or set(arm.select) == {"graph"}) and set(arm.sources) <= set(bench.sources)
    for entry in bench.tasks.values():
        task = make_task(bench, entry)
        assert isinstance(task, TASKS[entry.kind]) and task.metrics
        TrainSettings(**{**bench.train, **entry.train})
    assert set(bench.tune) <= {field.name for field in dataclasses.fields(TrainSettings)}
    assert len(bench.seeds) >= 3 and bench.arms[bench.baseline].kind is None


def test_published_rows_and_numbers_are_of_what_the_file_runs(path: Path, bench: Bench) -> None:
    only_published = set()
    for host, method, row in published_rows(path):
        if host not in bench.hosts or method not in bench.arms:
            only_published.add(f"{host}.{method}")
        for key, said in row.items():
            if key in OF_A_MODEL:
                assert isinstance(said, int | float) and said > 0
                continue
            metrics = make_task(bench, bench.tasks[key]).metrics
            numbers = said if isinstance(said, dict) else {metrics[0]: said}
            assert set(numbers) <= set(metrics), (host, method, key)
            assert all(type(number) in (int, float) and 0 < number <= 100 for number in numbers.values())
    assert only_published == ONLY_PUBLISHED.get(path.stem, set())


def test_a_table_of_nothing_but_published_numbers_can_be_drawn(path: Path, bench: Bench) -> None:
    table = summarise(bench, [])
    assert table.n_missing == table.n_cells > 0 and table.source
    grid = table_grid(table, metrics="all")
    at = grid.head.index("published")
    assert sum(bool(line[at]) for line in grid.body) == sum(
        len(said) if isinstance(said, dict) else 1
        for _, _, row in published_rows(path)
        for key, said in row.items()
        if key not in ("n_weights", "flops")
    )


def test_the_first_lines_say_what_it_needs_and_how_it_is_run(path: Path) -> None:
    opening = path.read_text(encoding="utf-8").split("\ntitle")[0]
    assert f"infuser bench run benchmarks/settings/{path.name} --out runs/{path.stem}" in opening
    assert "Data" in opening and "Cost" in opening


def test_sweep_and_ablation_have_the_names_of_the_published_rows() -> None:
    swept = read_bench(ROOT / "benchmarks/settings/kam-table-4.toml")
    assert [name for name in swept.arms if "=" in name] == [
        f"kam alpha={value}" for value in ("0", "0.1", "0.2", "0.4")
    ]
    parts = read_bench(ROOT / "benchmarks/settings/kam-table-6.toml")
    assert parts.arms["kam without convolution"].settings["fusion"] == "mean"
    assert parts.arms["kam without pmi"].sources == ("phrase", "entity")


COLUMNS = {
    "kam-table-1": "n_weights average cola sst-2 mrpc sts-b qqp mnli qnli rte wnli",
    "kam-table-2": "n_weights search-qa quasar-t cosmos-qa",
    "kam-table-3": "squad google-re trex conceptnet",
    "kam-table-4": "cola search-qa google-re",
    "kam-table-5": "n_weights flops ads",
    "kam-table-6": "average cola sst-2 mrpc sts-b qqp mnli qnli rte wnli",
}
ROWS = {
    "kam-table-1": {
        "BERT-Base": "bert-base.plain",
        "ERNIE": "bert-base.ernie",
        "SenseBERT": "bert-base.sensebert",
        "CorefBERT": "bert-base.corefbert",
        "KAM-BERT-Base": "bert-base.kam",
        "BERT-Large": "bert-large.plain",
        "KAM-BERT-Large": "bert-large.kam",
        "RoBERTa-Large": "roberta-large.plain",
        "KEPLER": "roberta-large.kepler",
        "KAM-RoBERTa-Large": "roberta-large.kam",
    },
    "kam-table-2": {
        "BERT-Large": "bert-large.plain",
        "WKLM": "bert-large.wklm",
        "WKLM+Ranking": "bert-large.wklm-ranking",
        "KAM-BERT-Large (Ours)": "bert-large.kam",
        "RoBERTa-Large": "roberta-large.plain",
        "RoBERTa + multitask": "roberta-large.multitask",
        "K-Adapter": "roberta-large.k-adapter",
        "KAM-RoBERTa-Large (Ours)": "roberta-large.kam",
    },
    "kam-table-3": {
        "BERT-Large": "bert-large.plain",
        "KAM-BERT-Large": "bert-large.kam",
        "RoBERTa-Large": "roberta-large.plain",
        "KAM-RoBERTa-Large": "roberta-large.kam",
    },
    "kam-table-4": {f"0.{at}": f"bert-base.kam alpha={at / 10:g}" for at in (0, 1, 2, 4)},
    "kam-table-5": {
        "BERT-Base": "bert-base.plain",
        "KAM-BERT-Base (Ours)": "bert-base.kam",
        "BERT-Large": "bert-large.plain",
        "KAM-BERT-Large (Ours)": "bert-large.kam",
        "RoBERTa-Base": "roberta-base.plain",
        "KAM-RoBERTa-Base (Ours)": "roberta-base.kam",
    },
    "kam-table-6": {
        "BERT-Base": "bert-base.plain",
        "KAM-BERT-Base": "bert-base.kam",
        **{
            f"-KAM-BERT w/o {name}": f"bert-base.kam without {part}"
            for name, part in (("PMI", "pmi"), ("Phrase", "phrase"), ("Entity", "entity"), ("Conv", "convolution"))
        },
    },
}
PAIRS = {
    "mrpc": ("f1", "accuracy"),
    "qqp": ("f1", "accuracy"),
    "sts-b": ("pearson", "spearman"),
    "search-qa": ("exact-match", "f1"),
    "quasar-t": ("exact-match", "f1"),
}
UNITS = {"M": 1e6, "G": 1e9, "": 1.0}


def amounts(column: str, cell: str) -> dict[str, Any]:
    """Return what a cell of the paper says, as it stands in a settings file."""
    numbers = [None if part.strip() == "-" else part.strip() for part in cell.replace(" ", "").split("/")]
    values = [None if one is None else float(one.rstrip("MG")) * UNITS[one.strip("0123456789.")] for one in numbers]
    if column == "mnli":
        said = {"mnli": values[0], "mnli-mm": values[1]}
    elif column in PAIRS:
        of = {metric: value for metric, value in zip(PAIRS[column], values, strict=True) if value is not None}
        said = {column: of or None}
    else:
        said = {column: values[0]}
    return {key: value for key, value in said.items() if value is not None}


@pytest.mark.shared
@pytest.mark.skipif(not PAPERS.is_dir(), reason="the papers are not in ../shared/papers")
@pytest.mark.parametrize("name", list(ROWS))
def test_published_numbers_are_those_of_the_paper_on_kam(name: str) -> None:
    text = (PAPERS / "kam-bert.txt").read_text(encoding="utf-8")
    table = re.split(rf"\nTable {name[-1]}: [^\n]*\n\n", text)[1].split("\n\n")[0]
    stored = {
        f"{host}.{method}": row for host, method, row in published_rows(ROOT / f"benchmarks/settings/{name}.toml")
    }
    if name == "kam-table-4":  # taken over from Table 1
        assert stored.pop("bert-base.plain") == {"cola": 50.1}
    seen = set()
    for line in table.splitlines()[1:]:
        label, *cells = line.split("\t")
        expected: dict[str, Any] = {}
        for column, cell in zip(COLUMNS[name].split(), cells, strict=True):
            expected |= amounts(column, cell)
        assert _flat(stored[ROWS[name][label]]) == pytest.approx(_flat(expected)), label
        seen.add(ROWS[name][label])
    assert seen == set(stored)


def _flat(row: dict[str, Any]) -> dict[str, float]:
    inside = {
        f"{key} {metric}": one for key, said in row.items() if isinstance(said, dict) for metric, one in said.items()
    }
    return {**{key: said for key, said in row.items() if not isinstance(said, dict)}, **inside}


@pytest.mark.shared
@pytest.mark.skipif(not PAPERS.is_dir(), reason="the papers are not in ../shared/papers")
def test_published_numbers_are_those_of_the_paper_on_selective_injection() -> None:
    text = (PAPERS / "selective-injection.txt").read_text(encoding="utf-8")
    stored = {
        (host, method.lower()): row
        for host, method, row in published_rows(ROOT / "benchmarks/settings/si-sr-table-1.toml")
    }
    order = [("open-entity", ("typing-precision", "typing-recall", "typing-micro-f1"))]
    order += [("tacred", ("relation-precision", "relation-recall", "relation-f1"))]
    order += [("search-qa", ("exact-match", "f1")), ("quasar-t", ("exact-match", "f1"))]
    places = {"bert-base": ("bert-base", "plain"), "roberta": ("roberta-base", "plain")}
    places |= {name: ("bert-base", name) for name in ("wklm", "ernie*", "knowbert*")}
    seen = set()
    for line in text.splitlines():
        label, *cells = line.split("\t")
        name = label.split(" [")[0].lower()
        if len(cells) != 10 or not re.fullmatch(r"[\d.\s-]+", "".join(cells)):
            continue
        place = places.get(name, ("roberta-base", name))
        said = [stored[place].get(task, {}).get(metric) for task, metrics in order for metric in metrics]
        assert said == [None if cell == "-" else float(cell) for cell in cells], label
        seen.add(place)
    assert seen == set(stored)
    typed = [row["open-entity"] for row in stored.values() if "open-entity" in row]
    for precision, recall, f1 in ([row[metric] for metric in order[0][1]] for row in typed):
        assert 2 * precision * recall / (precision + recall) == pytest.approx(f1, abs=0.05)  # so "Ma-F1" is recall

    lost = text.split("\nModel\tMNLI")[1].split("\nTable 2")[0]
    readable = [
        (row["rte"], row["average"]) for _, _, row in published_rows(ROOT / "benchmarks/settings/si-sr-table-2.toml")
    ]
    assert readable == [(float(rte), float(mean)) for rte, mean in re.findall(r"([\d.]+) {3}([\d.]+)", lost)]


@pytest.mark.shared
@pytest.mark.skipif(not PAPERS.is_dir(), reason="the papers are not in ../shared/papers")
def test_published_numbers_are_those_of_the_paper_on_attention() -> None:
    text = (PAPERS / "attention-relations.md").read_text(encoding="utf-8")
    rows = {
        f"{host}.{method}": row
        for host, method, row in published_rows(ROOT / "benchmarks/settings/attention-relations.toml")
    }
    lines = [[re.sub("<[^>]*>", "", cell) for cell in line.split("\t")] for line in text.splitlines() if "\t" in line]
    measures = ("precision", "recall", "f1")
    expected: dict[str, dict[str, Any]] = {"bert-base.plain": {}, "random-bert.plain": {}, "bart-large.rebel": {}}
    places = {"Our": "bert-base.plain", "REBEL": "bart-large.rebel"}
    places |= {"BERT": "bert-base.plain", "Random BERT": "random-bert.plain"}
    tasks = {"T-REx": "trex", "DocREd": "docred", "Binary": "binary", "Multi": "multi"}
    for label, task, *cells in lines:
        if task not in tasks:
            continue
        numbers = [float(cell) for cell in cells if cell]
        start = "macro-" if task == "Multi" else ""
        said = (
            numbers[0] if task == "Binary" else {start + name: one for name, one in zip(measures, numbers, strict=True)}
        )
        expected[places[label]][tasks[task]] = said
    assert rows == expected
