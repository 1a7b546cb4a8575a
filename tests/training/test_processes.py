"""The same loop on two processes that talk through gloo; each test starts them for real."""

from __future__ import annotations

import json
import signal

import pytest
import torch
from forked import exit_codes, start_ranks
from safetensors.torch import load_file

from infuser.training.checkpoints import newest_checkpoint
from tests.training.training_child import run, run_as_a_process

pytestmark = pytest.mark.slow

# 21 examples in steps of 2 x 3: the last step of an epoch has three, so one process gets more than the other,
# and hints are rare, so the new weight is unused in most batches of one process or both
SETTINGS = {"epochs": 2, "batch_size": 3, "accumulate": 2, "learning_rate": 1e-3, "evaluate_every": 2}
SETTINGS["clip"] = 3.0  # some gradients are longer and some shorter, so a wrong scale shows in spite of Adam


def results(out, n_processes):
    weights = [load_file(out / f"weights-{rank}.safetensors") for rank in range(n_processes)]
    return weights, [json.loads((out / f"told-{rank}.json").read_text()) for rank in range(n_processes)]


def run_two(out, settings, **options):
    out.mkdir(exist_ok=True)
    ranks = start_ranks(run_as_a_process, out, settings, n_examples=21, logs=out, **options)
    assert exit_codes(*ranks) == [0, 0], "".join(log.read_text() for log in out.glob("log-*.txt"))
    return results(out, 2)


def assert_same(left, right):
    assert left.keys() == right.keys()
    assert [name for name in left if not torch.equal(left[name], right[name])] == []


def test_two_processes_learn_what_one_learns_and_count_each_example_once(tmp_path):
    run(tmp_path / "one", SETTINGS, n_examples=21, dropout=0.0)
    (one,), (told,) = results(tmp_path / "one", 1)
    (first, second), both_told = run_two(tmp_path / "two", SETTINGS, dropout=0.0)
    assert_same(first, second)
    torch.testing.assert_close(first, one, rtol=0, atol=1e-9)
    assert first["knowledge.weight"].abs().max() > 0
    for of_two in both_told:
        assert of_two["accuracy"] == told["accuracy"]
        assert [len(rows) for rows in of_two["logits"].values()] == [1, 2, 3, 11]
        for n, rows in told["logits"].items():
            torch.testing.assert_close(torch.tensor(of_two["logits"][n]), torch.tensor(rows))
        assert of_two["result"]["n_examples"] == told["result"]["n_examples"] == 42
        assert [entry["metrics"] for entry in of_two["result"]["history"]] == [
            entry["metrics"] for entry in told["result"]["history"]
        ]
        losses = [[entry["loss"] for entry in result["history"]] for result in (of_two["result"], told["result"])]
        assert losses[0] == pytest.approx(losses[1])


def test_two_killed_processes_go_on_as_if_nothing_had_happened(tmp_path):
    settings = {**SETTINGS, "checkpoint_every": 3}
    (whole, _), (told, _) = run_two(tmp_path / "whole", settings)
    out = tmp_path / "killed"
    out.mkdir()
    first, second = start_ranks(run_as_a_process, out, settings, n_examples=21, kill_at_step=5, logs=out)
    died = exit_codes(first)
    second.kill()  # it waits for the first
    second.join(30)
    assert died == [-signal.SIGKILL], (out / "log-0.txt").read_text()
    assert newest_checkpoint(out).name == "checkpoint-00000003"
    (again, other), (told_again, _) = run_two(out, settings)
    assert_same(again, other)
    assert_same(again, whole)
    assert told_again["result"]["history"] == told["result"]["history"]
