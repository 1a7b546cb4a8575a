"""The commands on a real encoder, and a real interruption: slow, because both are."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest
from cli.commands import COLUMNS, read_json_lines, run_command
from fetching import fetch_or_skip
from forked import exit_codes, start_forked

from infuser.cli import app


@pytest.mark.slow
def test_minilm_is_fetched_trained_asked_and_explained(task: Path, tmp_path: Path) -> None:
    fetch_or_skip("minilm")
    model = tmp_path / "run" / "model"
    told = run_command(
        *("train", "minilm", task / "train.csv", "--dev", task / "dev.csv", "--out", tmp_path / "run", *COLUMNS),
        *("--graph", task / "triples.tsv", "--aliases", task / "names.tsv"),
        *("--epochs", 2, "--batch-size", 8, "--learning-rate", 1e-4),
    ).output
    assert "12 links in 12 of 24 training texts" in told and "8,489 new weights" in told
    read = ("predict", model, task / "dev.csv", "--text-column", "query", "--pair-column", "ad", "--out")
    run_command(*read, tmp_path / "with.jsonl")
    run_command(*read, tmp_path / "without.jsonl", "--no-knowledge")
    assert read_json_lines(tmp_path / "with.jsonl") != read_json_lines(tmp_path / "without.jsonl")
    told = run_command(
        *("explain", model, "--text", "buy ramipril", "--pair", "the pharmacy near me"),
        *("--out", tmp_path / "explain"),
    ).output
    assert "ramipril -- is a -- pharmacy" in told
    assert (tmp_path / "explain" / "explanation.png").stat().st_size > 10_000


def run_as_at_a_terminal(*command: str) -> None:
    """Run the program with the default SIGINT; children of tests in the background inherit an ignored one."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = ["infuser", *command]
    app()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGINT to send")
def test_a_command_that_was_interrupted_goes_on_when_run_again(checkpoint: Path, task: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    command = [
        *("train", checkpoint, task / "train.csv", "--dev", task / "dev.csv", "--out", out, *COLUMNS, "--plain"),
        *("--epochs", 60, "--patience", 60, "--batch-size", 8, "--checkpoint-every", 5),
    ]
    child = start_forked(run_as_at_a_terminal, *map(str, command), log=tmp_path / "said.txt")
    deadline = time.monotonic() + 120
    while not list(out.glob("checkpoints/checkpoint-*")) and child.is_alive() and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(child.pid, signal.SIGINT)
    code = exit_codes(child, timeout=60)
    told = (tmp_path / "said.txt").read_text()
    assert code == [130], told
    assert "The same command resumes from the last checkpoint" in told and "Traceback" not in told
    assert not json.loads((out / "train.json").read_text())["finished"]
    kept = max(out.glob("checkpoints/checkpoint-*"))
    result = run_command(*command)
    first_step = int(result.stderr.split("step ")[1].split()[0])
    assert first_step > int(kept.name.split("-")[1]) > 0
    assert json.loads((out / "train.json").read_text())["result"]["steps"] == 180
