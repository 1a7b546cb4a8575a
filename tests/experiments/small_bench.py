"""A bench on a tiny checkpoint and a small table, as a settings file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cli.commands import MEDICINES, TOOLS, examples_of, save_checkpoint, write_csv, write_lines

SETTINGS = """\
title = "small"
seeds = [0, 1]
baseline = "plain"

host.tiny = { checkpoint = "tiny" }

[source.graph]
kind = "graph"
file = "triples.tsv"
aliases = "names.tsv"

[source.names]
kind = "entities"
file = "entities.txt"

[method]
plain = {}
kam = { kind = "kam", sources = ["graph", "names"] }
placebo = { like = "kam", placebo = true }

[task.ads]
kind = "table"
data = "."
train = "train.csv"
dev = "dev.csv"
text = "query"
pair = "ad"
label = "verdict"
hold_out = 8

[train]
epochs = 1
batch_size = 8
learning_rate = 0.003
"""


def write_bench(folder: Path, more: str = "", *, replaced: tuple[str, str] = ("", "")) -> Path:
    """Write a settings file with all that it names, and return it; tiny checkpoint, table, graph."""
    if not (folder / "tiny").exists():
        save_checkpoint(folder / "tiny")
    write_csv(folder / "train.csv", examples_of(MEDICINES[:2], TOOLS[:2]))
    write_csv(folder / "dev.csv", examples_of(MEDICINES[2:], TOOLS[2:]))
    ties = [f"{word}\tis a\tmedicine" for word in MEDICINES] + [f"{word}\tis a\ttool" for word in TOOLS]
    write_lines(folder / "triples.tsv", *ties)
    write_lines(folder / "names.tsv", "medicine\tpharmacy", "medicine\tdrug store", "tool\tshop")
    write_lines(folder / "entities.txt", *MEDICINES)
    path = folder / "bench.toml"
    path.write_text(SETTINGS.replace(*replaced) + more, encoding="utf-8")
    return path


def comparable(result: dict[str, Any]) -> dict[str, Any]:
    """Return what must be the same whenever and wherever a cell was computed."""
    return {name: result[name] for name in ("digest", "data", "scores", "golds", "predictions", "extra_weights")}
