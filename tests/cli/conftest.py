"""A tiny checkpoint on disk, a small task beside it, and a model trained on both."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cli.commands import COLUMNS, MEDICINES, TOOLS, examples_of, run_command, save_checkpoint, write_csv, write_lines


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what these tests annotate out of the user's cache."""
    folder = tmp_path_factory.mktemp("annotations")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("infuser.sources.annotating.cache.default_cache", lambda: folder)
        yield


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_checkpoint(tmp_path_factory.mktemp("checkpoint"))


@pytest.fixture(scope="session")
def task(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train.csv, dev.csv, triples.tsv and names.tsv."""
    folder = tmp_path_factory.mktemp("task")
    write_csv(folder / "train.csv", examples_of(MEDICINES[:2], TOOLS[:2]))
    write_csv(folder / "dev.csv", examples_of(MEDICINES[2:], TOOLS[2:]))
    write_lines(
        folder / "triples.tsv",
        "head\trelation\ttail",
        *(f"{word}\tis a\tmedicine" for word in MEDICINES),
        *(f"{word}\tis a\ttool" for word in TOOLS),
    )
    write_lines(folder / "names.tsv", "medicine\tpharmacy", "medicine\tdrug store", "tool\tshop")
    return folder


@pytest.fixture(scope="session")
def trained(checkpoint: Path, task: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run with a graph, trained fast enough that knowledge matters."""
    out = tmp_path_factory.mktemp("runs") / "mine"
    run_command(
        *("train", checkpoint, task / "train.csv", "--dev", task / "dev.csv", "--out", out, *COLUMNS),
        *("--graph", task / "triples.tsv", "--aliases", task / "names.tsv"),
        *("--epochs", 4, "--batch-size", 8, "--learning-rate", 0.003, "--new-learning-rate", 0.01),
    )
    return out
