"""The commands run as people run them, and small files for them."""

from __future__ import annotations

import csv
import itertools
import json
from pathlib import Path
from typing import Any

from miniatures import tiny_host, tiny_tokenizer
from typer.testing import CliRunner, Result

from infuser.cli import app

COLUMNS = ("--text-column", "query", "--pair-column", "ad", "--label-column", "verdict")
"""How the columns of the small task are called."""

MEDICINES, TOOLS = ("glipizide", "warfarin", "ramipril", "naproxen"), ("adze", "froe", "gimlet", "bradawl")


def run_command(*arguments: object, code: int = 0, stdin: str | None = None) -> Result:
    """Run `infuser` with these arguments and see that it ends with this exit code."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)
    shown = f"{result.output}\n{result.stderr}\n{result.exception!r}"
    assert result.exit_code == code, shown
    return result


def error_of(*arguments: object, code: int = 2, stdin: str | None = None) -> str:
    """Run `infuser`, which must fail with one line on stderr and no traceback, and return that line."""
    result = run_command(*arguments, code=code, stdin=stdin)
    (line,) = [line for line in result.stderr.splitlines() if line.strip()]
    assert line.startswith("Error: ") and "Traceback" not in result.output
    return line


def write_lines(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def write_csv(path: Path, rows: list[dict[str, Any]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def save_checkpoint(folder: Path, head: str | None = None, **changes: Any) -> Path:
    tiny_host("bert", head, **changes).float().save_pretrained(folder)
    tiny_tokenizer("bert").save_pretrained(folder)
    return folder


def examples_of(medicines: tuple[str, ...], tools: tuple[str, ...]) -> list[dict[str, Any]]:
    rows = []
    for verb, word, shop in itertools.product(("buy", "cheap", "new"), medicines + tools, ("pharmacy", "shop")):
        fits = (word in MEDICINES) == (shop == "pharmacy")
        rows.append({"query": f"{verb} {word}", "ad": f"the {shop} near me", "verdict": "good" if fits else "bad"})
    return rows
