"""Ids, names, labels and file names are shown as text on a terminal: they cannot act, and are never markup."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import re
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from cli.commands import COLUMNS, error_of, examples_of, run_command, save_checkpoint, write_csv
from hypothesis import given
from hypothesis import strategies as st

from infuser.cli import console
from infuser.progress import progress_bar
from infuser.terminal import json_for_programs, say, visible

SOURCE = Path(console.__file__).parents[1]
HOSTILE = "E\x1b[2J\x07\x9b1m\x7f\u202e[red]:cat:[/][link=x]"
"""Clears the screen, rings, sets colours in one byte, writes from right to left, and is markup with an error."""
SHOWN = r"E\x1b[2J\x07\x9b1m\x7f\u202e[red]:cat:[/][link=x]"
TEXTS = st.text(st.sampled_from([*HOSTILE, "\r", "\b", "\u2066", "\u2028", "\ud800", "[", "]", "/", "\\", "\n", "é"]))


def acting(text: str) -> set[str]:
    """Return the characters of a text that a terminal obeys or that change the order of others."""
    kinds = {"RLE", "LRE", "RLO", "LRO", "PDF", "RLI", "LRI", "FSI", "PDI"}
    return {
        char
        for char in text
        if char not in "\n\t"
        and (unicodedata.category(char) in ("Cc", "Cs") or unicodedata.bidirectional(char) in kinds)
    }


def joined(shown: str) -> str:
    """Return what was printed without the frames and line breaks of tables."""
    return re.sub(r"[\s│┃]+", "", shown)


@given(TEXTS, TEXTS)
def test_whatever_is_printed_cannot_act(capsys_each: Any, one: str, other: str) -> None:
    say(one)
    console.print_table([one, "n"], [(other, 1)], title=other, caption=one)
    console.print_fields({one: other, "n": 1}, title=one)
    console.print_finding(one, [other])
    with console.loading(one) as report:
        report(other, 1, 2)
    with progress_bar(one, 3, last_line=True) as bar:
        bar.report(other, 1, detail=one)
    console.print_json({one: other})
    out, err = capsys_each()
    assert not acting(out + err)
    assert json.loads(json_for_programs([one, {other: one}])) == [one, {other: one}]


@pytest.fixture(scope="module")
def capsys_each() -> Any:
    """Return a function that reads what one example printed; `capsys` itself lives for a single one."""
    out, err = io.StringIO(), io.StringIO()

    def read() -> tuple[str, str]:
        read_now = out.getvalue(), err.getvalue()
        for stream in (out, err):
            stream.seek(0)
            stream.truncate()
        return read_now

    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        yield read


def test_escapes_look_as_in_python_and_other_characters_stay() -> None:
    assert visible(HOSTILE) == SHOWN
    plain = "Zürich\t東京\nनमस्ते 👨‍👩‍👧 שלום [red] \\x1b"
    assert visible(plain) == plain


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with hostile triples, names, candidates and vectors."""
    folder = tmp_path_factory.mktemp("hostile")
    rows = [
        {"head": HOSTILE, "relation": f"r{HOSTILE}", "tail": f"t{HOSTILE}"},
        {"head": HOSTILE, "relation": "in", "tail": "Q1"},
    ]
    (folder / "triples.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    entity = {"id": HOSTILE, "label": HOSTILE, "aliases": ["Bern", HOSTILE], "description": HOSTILE, "types": [HOSTILE]}
    other = {"id": "Q1", "label": HOSTILE, "aliases": [], "description": "", "types": []}
    (folder / "entities.jsonl").write_text(f"{json.dumps(entity)}\n{json.dumps(other)}\n")
    (folder / "counts.jsonl").write_text(json.dumps({"mention": "Bern", "entity": HOSTILE, "count": 1}) + "\n")
    (folder / "names.jsonl").write_text(json.dumps({"name": "Bern", "label": HOSTILE}) + "\n")
    return folder


def test_no_command_about_knowledge_lets_an_id_act(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    graph, names, candidates = folder / "g[red]", folder / "n", folder / "c"
    files = ("--entities", folder / "entities.jsonl")
    texts = folder / "texts.txt"
    texts.write_text(f"Bern {HOSTILE}\n")
    shown = {
        "build": run_command("graph", "build", folder / "triples.jsonl", *files, "--out", graph),
        "info": run_command("graph", "info", graph),
        "show": run_command("graph", "show", graph, "Bern"),
        "json": run_command("graph", "show", graph, "Bern", "--json"),
        "names": run_command("gazetteer", "build", *files, "--out", names),
        "find": run_command("gazetteer", "find", names, f"Bern {HOSTILE}", "--overlaps"),
        "candidates": run_command("candidates", "build", "--counts", folder / "counts.jsonl", "--out", candidates),
        "lookup": run_command("candidates", "lookup", candidates, "Bern"),
        "lookup json": run_command("candidates", "lookup", candidates, "Bern", "--json"),
    }
    for name, result in shown.items():
        assert not acting(result.output + result.stderr), name
    assert joined(shown["info"].output).count(joined(SHOWN)) >= 1
    assert SHOWN in shown["show"].output and joined(SHOWN) in joined(shown["lookup"].output)
    assert json.loads(shown["json"].stdout)["id"] == HOSTILE


def test_errors_and_skipped_rows_do_not_act_either(folder: Path, tmp_path: Path) -> None:
    run_command("graph", "build", folder / "triples.jsonl", "--out", tmp_path / "g")
    assert not acting(error_of("graph", "show", tmp_path / "g", HOSTILE + "?"))
    assert not acting(error_of("graph", "info", tmp_path / HOSTILE.replace("/", "")))
    bad = tmp_path / f"bad{HOSTILE.replace('/', '')}.tsv"
    bad.write_text(f"{HOSTILE}\nA\tin\tB\n{HOSTILE}\t\tx\n")
    told = run_command("graph", "build", bad, "--out", tmp_path / "h")
    assert "could not be read" in told.stderr and not acting(told.output + told.stderr)


def test_warnings_of_the_library_do_not_act(folder: Path) -> None:
    result = run_command("graph", "info", folder / "none", code=2)  # any command listens to the library
    with contextlib.redirect_stderr(io.StringIO()) as err:
        logging.getLogger("infuser.sources").warning("a tree of %s", HOSTILE)
    assert SHOWN in err.getvalue() and not acting(err.getvalue() + result.output)


def test_labels_of_a_task_are_shown_as_text(tmp_path: Path) -> None:
    checkpoint = save_checkpoint(tmp_path / "tiny")
    rows = examples_of(("glipizide",), ("adze",))
    for row in rows:
        row["verdict"] = HOSTILE if row["verdict"] == "good" else "[/red]"
    data, out = write_csv(tmp_path / "[red]train.csv", rows), tmp_path / "[bold]run"
    trained = run_command("train", checkpoint, data, "--plain", "--epochs", 1, "--out", out, *COLUMNS)
    answered = run_command("predict", out / "model", "--text", f"buy {HOSTILE}")
    lines = run_command("predict", out / "model", data, "--text-column", "query", "--pair-column", "ad")
    for result in (trained, answered, lines):
        assert not acting(result.output + result.stderr)
    assert joined(SHOWN) in joined(answered.output) and "[/red]" in answered.output
    assert {json.loads(line)["label"] for line in lines.stdout.splitlines()} <= {HOSTILE, "[/red]"}


def test_one_place_prints() -> None:
    """Whoever makes a console of his own forgets the escapes: tables and lines go through `infuser.terminal`."""
    makers = {
        str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py") if re.search(r"\bConsole\(", path.read_text())
    }
    assert makers == {"terminal.py", "progress.py", "cli/console.py"}
    secho = [path for path in SOURCE.rglob("*.py") if re.search(r"\bsecho\(|rich import print", path.read_text())]
    assert secho == []
