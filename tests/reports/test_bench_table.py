from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from experiments.bench_results import all_cells, cell, settings

from infuser.experiments.bench_table import BenchTable
from infuser.experiments.summary import summarise
from infuser.reports.bench_page import bench_page
from infuser.reports.bench_table import latex_table, markdown_table, table_grid, table_verdicts, terminal_table

PUBLISHED = {
    "from": "Bai et al., Table 1",
    "note": "test server",
    "scale": 100,
    "minilm": {
        "plain": {"cola": 50.1, "mrpc": {"f1": 88.7, "accuracy": 84.3}, "n_weights": 109_500_000},
        "kam": {"cola": 53.7, "mrpc": {"f1": 89.2, "accuracy": 85.0}, "n_weights": 112_000_000},
        "SenseBERT": {"cola": 54.6},
    },
}


@pytest.fixture(scope="module")
def table() -> BenchTable:
    return summarise(settings(published=PUBLISHED), all_cells(), rounds=150)


def line_of(text: str, *names: str) -> list[str]:
    """Return the cells of the one Markdown line that begins with these names."""
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]
    [line] = [line for line in lines if line[: len(names)] == list(names)]
    return line


def test_measured_and_published_stand_side_by_side(table: BenchTable) -> None:
    text = markdown_table(table)
    head = line_of(text, "task")
    kam = dict(zip(head, line_of(text, "cola", "kam"), strict=True))
    mean, apart = table.row("kam").entries[0].first.mean, table.row("kam").entries[0].first.difference
    assert mean is not None and apart is not None
    assert kam["measured"].startswith(f"{100 * mean:.2f} ± ") and kam["published"] == "53.7 (+3.6)"
    assert kam["minus plain"].startswith(f"{100 * apart.mean:+.2f} ± ") and kam["minus plain"].endswith("▲")
    assert re.fullmatch(r"\[\+\d+\.\d\d, \+\d+\.\d\d\]", kam["over examples"])
    assert kam["extra weights"] == "1,234" and kam["published extra"] == "2,500,000" and kam["time"] == "11.0 s"
    assert line_of(text, "mrpc", "kam")[4].endswith("▼") and "▲" not in "".join(line_of(text, "cola", "placebo"))
    sense = dict(zip(head, line_of(text, "cola", "SenseBERT"), strict=True))
    assert sense["measured"] == "" and sense["published"] == "54.6 (+4.5)"
    assert "- Published: Bai et al., Table 1 (test server)." in text and "▲ better" in text


def test_all_metrics_are_shown_when_asked_for_and_empty_columns_never(table: BenchTable) -> None:
    first, every = table_grid(table), table_grid(table, metrics="all")
    assert [line[:3] for line in every.body if line[1] == "kam"] == [
        ["cola", "kam", "matthews"],
        ["mrpc", "kam", "f1"],
        ["mrpc", "kam", "accuracy"],
    ]
    assert len(first.body) < len(every.body) and "missing" not in first.head and "host" not in first.head
    bare = table_grid(summarise(settings(), [cell("plain", "cola", 0)], rounds=100))
    assert "published" not in bare.head and "minus plain" not in bare.head and "missing" in bare.head
    kam = next(line for line in bare.body if line[:2] == ["cola", "kam"])
    assert kam[bare.head.index("measured")] == "" and kam[bare.head.index("missing")] == "3"


def test_a_wide_table_has_a_line_per_method_and_a_column_per_task(table: BenchTable) -> None:
    grid = table_grid(table, layout="wide", metrics="all")
    assert [line[0] for line in grid.body] == ["plain", "kam", "placebo", "SenseBERT"]
    assert [name for name in grid.head if name != "published"] == [
        "method",
        "cola matthews",
        "mrpc f1",
        "mrpc accuracy",
        "extra weights",
        "published extra",
    ]
    assert re.fullmatch(r"\d+\.\d\d ± \d+\.\d\d \(\+\d+\.\d\d\) ▲", grid.body[1][1]) and grid.body[1][2] == "53.7"


def test_several_hosts_get_a_column_and_a_word_in_the_verdicts() -> None:
    hosts = {name: {"checkpoint": name} for name in ("one", "two")}
    cells = [
        cell(method, "cola", seed, host=host)
        for host in ("one", "two")
        for method in ("plain", "kam")
        for seed in (0, 1)
    ]
    table = summarise(settings(host=hosts, method={"plain": {}, "kam": {}}, seeds=[0, 1]), cells, rounds=120)
    assert table_grid(table).head[:2] == ["task", "host"] and table_grid(table, layout="wide").head[0] == "host"
    assert [re.findall(r"kam \((\w+)\)", one) for one in table_verdicts(table)] == [["one"], ["two"]]


def test_verdicts_are_sentences_with_both_intervals(table: BenchTable) -> None:
    helps, hurts, *others = table_verdicts(table)
    assert re.match(r"kam helps on cola: matthews is \d+\.\d\d higher than plain \(95 % interval \[\+", helps)
    assert "kam hurts on mrpc: f1 is " in hurts and "over 3 seeds" in hurts and "over test examples" in hurts
    assert all(one.startswith("No evidence that placebo differs from plain on") for one in others)
    one_seed = summarise(settings(), [cell(method, "cola", 0) for method in ("plain", "kam")], rounds=120)
    assert table_verdicts(one_seed)[0].endswith("over test examples); run at least two seeds to know more.")


def test_latex_is_escaped_and_uses_booktabs() -> None:
    odd = settings(title=r"50 % of $ & \LaTeX{} ~ #_^", method={"plain": {}, "[kam_1]": {}})
    cells = [cell(method, "cola", seed) for method in ("plain", "[kam_1]") for seed in (0, 1)]
    text = latex_table(summarise(odd, cells, rounds=120))
    assert text.count(r"\toprule") == text.count(r"\midrule") == text.count(r"\bottomrule") == 1
    assert r"50 \% of \$ \& \textbackslash{}LaTeX\{\} \textasciitilde{} \#\_\textasciicircum{}" in text
    body = text.split(r"\midrule")[1].split(r"\bottomrule")[0].strip().splitlines()
    columns = re.search(r"\\begin\{tabular\}\{(l+r+)\}", text)
    assert columns is not None and {line.count(" & ") for line in body} == {len(columns[1]) - 1}
    assert body[1].startswith(r"{[}kam\_1]") and r"$\pm$" in body[0] and "±" not in text and "▲" not in text


def test_terminal_shows_names_as_they_are(table: BenchTable) -> None:
    from rich.console import Console

    methods: dict[str, Any] = {"plain": {}, "[bold]kam": {}}
    odd = summarise(settings(method=methods), [cell(method, "cola", 0) for method in methods], rounds=120)
    console = Console(width=200, file=io.StringIO())
    console.print(terminal_table(odd))
    console.print(terminal_table(table, layout="wide"))
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert "[bold]kam" in printed and "SenseBERT" in printed and "Not finished: 16" not in printed
    assert "Not finished: 10 of 12 cells are missing." in printed


def test_page_is_self_contained_escaped_and_complete(
    tmp_path: Path, read_page: Callable[[Path], Any], evil: str, table: BenchTable
) -> None:
    named = settings(title=evil, method={"plain": {}, "kam": {}, evil: {}})
    methods = ["plain", "kam", evil, "kam alpha=0.1", "kam alpha=0.2", "kam without pmi"]
    cells = [cell(method, "cola", seed) for method in methods for seed in (0, 1)]
    odd = summarise(named, cells, rounds=120)
    (tmp_path / "page.html").write_text(bench_page(odd, settings=named.to_json()), "utf-8")
    page = read_page(tmp_path / "page.html")
    page.check_self_contained()
    assert evil in page.text and "Not finished: 12 of 36 cells have a result." in page.text
    for part in ("What follows", "kam by alpha", "What each part of kam is worth", "Settings", "Versions", "2.6.0"):
        assert part in page.text
    (tmp_path / "done.html").write_text(bench_page(table), "utf-8")
    done = read_page(tmp_path / "done.html")
    assert (
        "What each part" not in done.text
        and "Not finished" not in done.text
        and "kam helps on cola" in done.text
        and "53.7" in done.text
    )
