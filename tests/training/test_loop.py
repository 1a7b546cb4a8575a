from __future__ import annotations

import copy
import json
import logging
import random
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from forked import exit_codes, start_forked
from miniatures import tiny_host
from safetensors.torch import load_file

from infuser.errors import CheckpointError, InputError, UnknownNameError
from infuser.seals import seal
from infuser.training import TrainResult, TrainSettings, evaluate, train
from infuser.training.checkpoints import (
    cpu_state_dict,
    examples_digest,
    newest_checkpoint,
    random_states,
    restore_random_states,
)
from infuser.training.steps import StepPlan, parameter_groups, set_learning_rates
from infuser.types import Span
from infuser.work_folder import locked_folder
from tests.training.training_child import collate, run, run_as_a_process, tiny_classifier, tiny_task

SETTINGS = TrainSettings(epochs=2, batch_size=4, learning_rate=1e-3, new_learning_rate=1e-2)


def weights_after(settings=SETTINGS, *, dropout=0.1, **keywords):
    model = tiny_classifier(dropout=dropout)
    train(model, tiny_task(22), collate, settings=settings, progress=False, **keywords)
    return cpu_state_dict(model)


def assert_same(left, right):
    assert left.keys() == right.keys()
    different = [name for name in left if not torch.equal(left[name], right[name])]
    assert different == []


def differ(left, right):
    return any(not torch.equal(left[name], right[name]) for name in left)


# learning


def test_training_learns_the_task():
    model, dev = tiny_classifier(), tiny_task(60, seed=1)
    before = evaluate(model, dev, collate).metrics["auc"]
    settings = TrainSettings(epochs=6, batch_size=16, learning_rate=5e-3)
    result = train(model, tiny_task(300), collate, dev=dev, settings=settings, progress=False)
    assert before < 0.8 < 0.95 < result.best
    assert result.history[0].loss > result.history[-1].loss
    assert [entry.epoch for entry in result.history] == [1, 2, 3, 4, 5, 6]
    assert result.steps == 6 * 19
    assert result.n_examples == 6 * 300
    assert result.examples_per_second > 0
    assert result.seconds >= result.step_seconds > 0
    assert not model.training


def test_a_judge_scores_the_dev_set_and_chooses_the_weights(tmp_path):
    model, dev, asked = tiny_classifier(), tiny_task(8, seed=1), []
    values = iter([0.2, 0.9, 0.5])

    def judge(judged, examples):
        asked.append((judged is model, examples is dev))
        return {"auc": next(values), "more": 1.0}

    settings = replace(SETTINGS, epochs=3)
    result = train(model, tiny_task(22), collate, dev=dev, settings=settings, progress=False, judge=judge, out=tmp_path)
    assert asked == [(True, True)] * 3
    assert (result.best, result.best_step) == (0.9, 12)
    assert [entry.metrics for entry in result.history] == [{"auc": v, "more": 1.0} for v in (0.2, 0.9, 0.5)]
    again = train(
        tiny_classifier(), tiny_task(22), collate, dev=dev, settings=settings, progress=False, judge=judge, out=tmp_path
    )
    assert again.history == result.history  # read from the checkpoint: the judge would have no more values


def test_a_judge_that_does_not_give_the_metric_is_an_error():
    with pytest.raises(InputError, match="The judge gave no 'auc' but more"):
        train(
            tiny_classifier(), tiny_task(8), collate, dev=tiny_task(8), progress=False, judge=lambda *_: {"more": 1.0}
        )


def test_same_seed_gives_the_same_weights_bit_for_bit():
    first = weights_after()
    assert_same(first, weights_after())
    assert differ(first, weights_after(replace(SETTINGS, seed=1)))


def test_looking_at_the_dev_set_or_working_in_the_background_changes_nothing():
    plain = weights_after()
    seen = {}
    model = tiny_classifier()
    train(
        model,
        tiny_task(22),
        collate,
        dev=tiny_task(9, seed=1),
        settings=replace(SETTINGS, evaluate_every=1, n_workers=1),
        progress=lambda report: seen.update({report.step: cpu_state_dict(model)}),
    )
    assert_same(plain, seen[max(seen)])


def test_order_depends_on_seed_and_epoch_alone():
    plan = StepPlan(n_examples=10, batch_size=3, accumulate=2, seed=5)

    def read(plan, epoch, process=0, n_processes=1):
        return [i for step in plan.epoch(epoch, process, n_processes) for part, share in step for i in part if share]

    assert read(plan, 1) == read(StepPlan(10, 2, 1, 5), 1)
    assert read(plan, 0) != read(plan, 1) != read(replace(plan, seed=6), 1)
    assert sorted(read(plan, 0, 0, 2) + read(plan, 0, 1, 2)) == list(range(10))
    assert [plan.n_read(step) for step in range(5)] == [0, 6, 10, 16, 20]


@pytest.mark.parametrize("n_processes", [1, 2, 3, 5])
def test_every_example_of_a_step_weighs_the_same(n_processes):
    plan = StepPlan(n_examples=10, batch_size=3, accumulate=2, seed=0)
    for step in range(plan.n_epoch_steps):
        weights = {}
        for process in range(n_processes):
            shares = plan.epoch(0, process, n_processes)[step]
            assert len(shares) == len(plan.epoch(0, 0, n_processes)[step])  # all take part in every exchange
            for part, share in shares:
                assert part
                for example in part if share else ():
                    weights[example] = weights.get(example, 0) + share / len(part)
        assert list(weights.values()) == pytest.approx([1 / len(weights)] * len(weights))
        assert len(weights) == (6, 4)[step]


def test_small_batches_accumulate_to_what_a_large_one_gives():
    settings = replace(SETTINGS, clip=100.0)  # clipping would hide a wrong scale
    large = weights_after(replace(settings, batch_size=12), dropout=0.0)  # 22 examples: the second step is short
    small = weights_after(replace(settings, batch_size=5, accumulate=2), dropout=0.0)
    parts = weights_after(replace(settings, batch_size=4, accumulate=3), dropout=0.0)
    torch.testing.assert_close(parts, large, rtol=0, atol=1e-9)
    assert max((small[name] - large[name]).abs().max() for name in large) > 1e-6


def test_new_weights_have_a_step_size_of_their_own_and_do_not_decay():
    model = tiny_classifier()
    names = {id(weight): name for name, weight in model.named_parameters()}
    groups = parameter_groups(model, 1e-4, 1e-2, 0.1)
    told = {
        names[id(weight)]: (group["highest"], group["weight_decay"]) for group in groups for weight in group["params"]
    }
    assert told.keys() == set(names.values())
    assert told["knowledge.weight"] == (1e-2, 0.0)
    assert told["classifier.weight"] == told["bert.embeddings.word_embeddings.weight"] == (1e-4, 0.1)
    assert told["classifier.bias"] == told["bert.encoder.layer.0.output.LayerNorm.weight"] == (1e-4, 0.0)


def test_the_first_step_goes_as_far_as_its_rate():
    before = tiny_classifier().state_dict()
    settings = TrainSettings(epochs=1, batch_size=22, learning_rate=1e-4, new_learning_rate=1e-2, warmup=0.0)
    after = weights_after(settings)
    # Adam's first step has the size of its rate, whatever the gradient
    moved = {name: float((after[name] - before[name]).abs().max()) for name in after}
    assert moved["knowledge.weight"] == pytest.approx(1e-2, rel=1e-3)
    assert moved["classifier.bias"] == pytest.approx(1e-4, rel=1e-3)


def test_rates_rise_and_fall_in_straight_lines():
    groups = [{"highest": 1.0}, {"highest": 10.0}]
    rates = [set_learning_rates(groups, step, 10, 0.2) for step in range(10)]
    assert rates == pytest.approx([0.5, 1.0, 1.0, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125])
    assert groups[1]["lr"] == pytest.approx(1.25)
    assert set_learning_rates(groups, 0, 10, 0.0) == 1.0
    assert set_learning_rates(groups, 9, 10, 1.0) == 1.0


def test_frozen_weights_stay_as_they_are():
    model = tiny_classifier()
    model.bert.requires_grad_(False)
    before = cpu_state_dict(model)
    train(model, tiny_task(22), collate, settings=SETTINGS, progress=False)
    moved = {name for name, tensor in model.state_dict().items() if not torch.equal(tensor, before[name])}
    assert moved == {"classifier.weight", "classifier.bias", "knowledge.weight"}
    with pytest.raises(InputError, match="frozen"):
        train(model.requires_grad_(False), tiny_task(4), collate, settings=SETTINGS, progress=False)


def test_training_stops_early_and_keeps_the_best_weights():
    against = [{**example, "label": 1 - example["label"]} for example in tiny_task(40, seed=1)]
    model = tiny_classifier()
    settings = TrainSettings(epochs=20, batch_size=8, learning_rate=5e-3, evaluate_every=5, patience=3)
    result = train(model, tiny_task(80), collate, dev=against, settings=settings, progress=False)
    values = [entry.metrics["auc"] for entry in result.history]
    assert result.stopped_early
    assert len(values) == values.index(max(values)) + 1 + 3
    assert result.best == max(values) > values[-1]
    assert result.best_step == result.history[values.index(max(values))].step
    assert evaluate(model, against, collate).metrics["auc"] == result.best


def test_lower_is_better_where_the_metric_is_an_error():
    model = tiny_classifier(num_labels=1)
    dev = tiny_task(20, seed=1)
    settings = replace(SETTINGS, epochs=4, metric="mse", learning_rate=5e-3)
    result = train(model, tiny_task(80), collate, dev=dev, settings=settings, progress=False)
    values = [entry.metrics["mse"] for entry in result.history]
    assert result.best == min(values) < values[0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_mixed_precision_leaves_no_trace_on_the_model(dtype):
    settings = replace(SETTINGS, mixed_precision="bf16")
    model = tiny_classifier().to(dtype)
    result = train(model, tiny_task(22), collate, dev=tiny_task(8), settings=settings, progress=False)
    assert np.isfinite(result.history[-1].loss)
    assert "forward" not in model.__dict__
    assert {tensor.dtype for tensor in model.parameters()} == {dtype}
    after = cpu_state_dict(model)
    plain = tiny_classifier().to(dtype)
    train(plain, tiny_task(22), collate, settings=SETTINGS, progress=False)
    if dtype == torch.float32:
        assert differ(after, cpu_state_dict(plain))  # 16 bits were really used
    full = tiny_classifier().to(dtype)
    train(full, tiny_task(22), collate, settings=SETTINGS, progress=False)
    assert_same(cpu_state_dict(plain), cpu_state_dict(full))


# checkpoints


def run_child(out, **kill):
    log = out.with_name("log.txt")
    (code,) = exit_codes(start_forked(run_as_a_process, out, CHILD, log=log, **kill))
    return code, log.read_text()


CHILD = {
    "epochs": 2,
    "batch_size": 2,
    "accumulate": 2,
    "learning_rate": 1e-3,
    "evaluate_every": 3,
    "checkpoint_every": 5,
}  # 30 examples: 8 steps an epoch, the last of them short


@pytest.mark.slow
def test_a_run_killed_twice_goes_on_as_if_nothing_had_happened(tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    run(whole, CHILD)

    code, said = run_child(killed, kill_at_step=13)  # in mid-epoch, three steps after a checkpoint
    assert code == -signal.SIGKILL, said
    assert newest_checkpoint(killed).name == "checkpoint-00000010"

    code, said = run_child(killed, kill_in_checkpoint=15)  # between two of its files
    assert code == -signal.SIGKILL, said
    assert newest_checkpoint(killed).name == "checkpoint-00000010"
    assert list(killed.glob(".checkpoint-00000015.*.part"))

    code, said = run_child(killed)
    assert code == 0, said
    assert_same(load_file(killed / "weights-0.safetensors"), load_file(whole / "weights-0.safetensors"))
    told = [json.loads((out / "told-0.json").read_text()) for out in (killed, whole)]
    for entry in told:
        for name in ("seconds", "step_seconds", "examples_per_second"):
            del entry["result"][name]
    assert told[0] == told[1]
    left = sorted(path.name for path in killed.iterdir())
    assert left == ["checkpoint-00000016", "told-0.json", "weights-0.safetensors"]


class Stopped(Exception):
    pass


def stop_at(step):
    def stop(report):
        if report.step == step:
            raise Stopped

    return stop


@pytest.fixture
def stopped(tmp_path):
    """A directory with the checkpoint of step 6, the end of the first of two epochs."""
    with pytest.raises(Stopped):
        train(tiny_classifier(), tiny_task(22), collate, settings=SETTINGS, out=tmp_path, progress=stop_at(9))
    assert newest_checkpoint(tmp_path).name == "checkpoint-00000006"
    return tmp_path


def test_checkpoints_are_safetensors_and_json(stopped):
    names = {path.name for path in newest_checkpoint(stopped).iterdir()}
    weights = {"model.safetensors", "optimizer.safetensors", "random.safetensors"}
    assert names == {"state.json", "digests.json", *weights}
    assert json.loads((newest_checkpoint(stopped) / "state.json").read_text())["run"]["steps"] == 6


def test_a_stopped_run_goes_on_in_the_same_process_too(stopped):
    assert_same(weights_after(out=stopped), weights_after())


def test_starting_anew_forgets_the_checkpoint(stopped):
    steps = []
    train(
        tiny_classifier(),
        tiny_task(22),
        collate,
        settings=SETTINGS,
        out=stopped,
        resume=False,
        progress=lambda report: steps.append(report.step),
    )
    assert steps == list(range(1, 13))


@pytest.mark.parametrize(
    ("settings", "examples", "message"),
    [
        (replace(SETTINGS, learning_rate=2e-3), tiny_task(22), r"learning_rate was 0.001, is 0.002\. Use the same"),
        (replace(SETTINGS, seed=1), tiny_task(22), "seed was 0, is 1"),
        (SETTINGS, tiny_task(23), r"examples was '22 examples \(\w+\)', is '23 examples"),
        (SETTINGS, tiny_task(22, seed=9), r"examples was '22 examples \(\w+\)', is '22 examples"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused(stopped, settings, examples, message):
    with pytest.raises(CheckpointError, match=message):
        train(tiny_classifier(), examples, collate, settings=settings, out=stopped, progress=False)


def test_a_checkpoint_of_another_model_is_refused(stopped):
    with pytest.raises(CheckpointError, match="weights was"):
        train(tiny_classifier(num_labels=3), tiny_task(22), collate, settings=SETTINGS, out=stopped, progress=False)


def test_workers_and_checkpoints_may_change_between_runs(stopped):
    other = replace(SETTINGS, checkpoint_every=2, n_workers=1)
    assert_same(weights_after(other, out=stopped), weights_after())


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "random.safetensors", "state.json"])
def test_a_damaged_checkpoint_is_named(stopped, name):
    file = newest_checkpoint(stopped) / name
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(CheckpointError, match=rf"checkpoint-00000006/{name} is damaged.* resume=False"):
        weights_after(out=stopped)
    file.write_bytes(content[:100])
    with pytest.raises(CheckpointError, match=rf"checkpoint-00000006/{name} is damaged.* resume=False"):
        weights_after(out=stopped)
    seal(file.parent)
    with pytest.raises(CheckpointError, match=r"checkpoint-00000006: .* resume=False"):
        weights_after(out=stopped)
    file.unlink()
    with pytest.raises(CheckpointError, match=rf"{name} cannot be read .* resume=False"):
        weights_after(out=stopped)


def test_a_run_knows_its_data_by_every_example():
    task = tiny_task(100)
    for place in range(len(task)):
        changed = [dict(one) for one in task]
        changed[place]["label"] = 1 - changed[place]["label"]
        assert examples_digest(changed) != examples_digest(task)


@pytest.mark.parametrize(
    ("was", "now"),
    [
        (np.arange(3), np.arange(1, 4)),
        (np.int64(1), np.int64(2)),
        (torch.zeros(2, 2), torch.zeros(2, 2, dtype=torch.float64)),
        ((Span(0, 4, label="city"),), (Span(0, 4, label="river"),)),
        ([{"spans": [Span(0, 4)]}], [{"spans": [Span(0, 5)]}]),
        ({1: "a"}, {1: "b"}),
        ({("Bern", 0): 1}, {("Bern", 1): 1}),
        ({"a", "b"}, {"a", "c"}),
        (b"a", b"b"),
        (Path("a"), Path("b")),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_run_knows_its_data_by_values_of_every_kind(was, now):
    assert examples_digest([{"text": "", "x": was}]) == examples_digest([{"x": copy.deepcopy(was), "text": ""}])
    assert examples_digest([{"text": "", "x": was}]) != examples_digest([{"text": "", "x": now}])


def test_of_unknown_objects_only_the_kind_is_known():  # their address changes from process to process
    assert examples_digest([{"x": object()}]) == examples_digest([{"x": object()}])


def test_a_score_that_is_no_number_survives_a_checkpoint_in_valid_json(tmp_path):
    def judge(model, examples):
        return {"auc": 0.5, "f1 of nothing": float("nan")}

    run = {"dev": tiny_task(4), "judge": judge, "out": tmp_path, "settings": SETTINGS, "progress": False}
    first = train(tiny_classifier(), tiny_task(22), collate, **run)
    assert "NaN" not in (newest_checkpoint(tmp_path) / "state.json").read_text()
    again = train(tiny_classifier(), tiny_task(22), collate, **run)
    assert repr(again) == repr(first) and "nan" in repr(first)


def test_a_directory_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "taken").write_text("a file, not a directory")
    with pytest.raises(InputError, match=r"Cannot write .*taken'.* Choose a place"):
        weights_after(out=tmp_path / "taken")


def test_a_finished_run_is_not_run_again(tmp_path):
    dev, steps = tiny_task(10, seed=1), []
    first, again = tiny_classifier(), tiny_classifier()
    result = train(first, tiny_task(22), collate, dev=dev, settings=SETTINGS, out=tmp_path, progress=False)
    told = train(again, tiny_task(22), collate, dev=dev, settings=SETTINGS, out=tmp_path, progress=steps.append)
    assert steps == []
    assert told == result
    assert_same(cpu_state_dict(first), cpu_state_dict(again))


def test_random_generators_go_on_where_they_were():
    def draw():
        return random.random(), random.gauss(), np.random.rand(), np.random.randn(), torch.rand(()).item()

    draw()
    states = random_states(torch.device("cpu"))
    expected = [draw(), draw()]
    restore_random_states(states, torch.device("cpu"))
    assert [draw(), draw()] == expected


# what can go wrong, and what is shown


def test_a_loss_that_is_not_finite_stops_before_it_ruins_the_weights():
    examples = [{**example, "label": float(example["label"])} for example in tiny_task(12)]
    order = [i for step in StepPlan(12, 4, 1, 0).epoch(0, 0, 1) for part, _ in step for i in part]
    examples[order[9]]["label"] = float("nan")
    model, steps = tiny_classifier(num_labels=1), []
    with pytest.raises(InputError, match=r"diverged at step 3: the loss is nan .* Lower learning_rate \(0.001\)"):
        train(model, examples, collate, settings=SETTINGS, progress=steps.append)
    assert [report.step for report in steps] == [1, 2]
    assert all(torch.isfinite(weight).all() for weight in model.parameters())


def test_a_dev_set_of_one_class_is_refused_before_training():
    steps = []
    dev = [example for example in tiny_task(10) if example["label"]]
    with pytest.raises(InputError, match="all 5 have the label 1"):
        train(tiny_classifier(), tiny_task(22), collate, dev=dev, settings=SETTINGS, progress=steps.append)
    assert steps == []


@pytest.mark.parametrize(
    ("keywords", "error", "message"),
    [
        ({"epochs": 0}, InputError, "epochs is 0"),
        ({"batch_size": 2.5}, InputError, "batch_size is 2.5"),
        ({"evaluate_every": "day"}, InputError, "evaluate_every is 'day'"),
        ({"patience": 0}, InputError, "patience is 0"),
        ({"learning_rate": float("nan")}, InputError, "learning_rate is nan"),
        ({"new_learning_rate": -1.0}, InputError, "new_learning_rate is -1.0"),
        ({"warmup": 2.0}, InputError, "warmup is 2.0"),
        ({"seed": -1}, InputError, "seed is -1"),
        ({"metric": "aux"}, UnknownNameError, "Did you mean 'auc'"),
    ],
)
def test_settings_that_cannot_work_are_refused(keywords, error, message):
    with pytest.raises(error, match=message):
        TrainSettings(**keywords)


def test_unusable_calls_are_refused():
    model = tiny_classifier()
    with pytest.raises(InputError, match="no examples"):
        train(model, [], collate, progress=False)
    with pytest.raises(InputError, match="no examples"):
        evaluate(model, [], collate)
    with pytest.raises(InputError, match="patience=1 needs a dev set"):
        train(model, tiny_task(4), collate, settings=replace(SETTINGS, patience=1), progress=False)
    if not torch.cuda.is_available():
        with pytest.raises(InputError, match="mixed_precision='fp16' does not work on a CPU"):
            train(model, tiny_task(4), collate, settings=replace(SETTINGS, mixed_precision="fp16"), progress=False)

    def unlabelled(examples):
        return {name: tensor for name, tensor in collate(examples).items() if name != "labels"}

    with pytest.raises(InputError, match="Let collate add 'labels'"):
        train(model, tiny_task(4), unlabelled, settings=SETTINGS, progress=False)
    with pytest.raises(InputError, match="no labels to compare"):
        evaluate(model, tiny_task(4), unlabelled)


def test_evaluation_answers_in_order_and_leaves_the_model_as_it_was():
    model, examples = tiny_classifier().train(), tiny_task(13)
    scores = evaluate(model, examples, collate, metric=["accuracy", "auc", "matthews"], batch_size=4)
    assert model.training
    assert list(scores.metrics) == ["accuracy", "auc", "matthews"]
    assert scores.labels.tolist() == [example["label"] for example in examples]
    model.eval()
    one_by_one = np.concatenate([evaluate(model, [e], collate, metric="accuracy").logits for e in examples])
    np.testing.assert_allclose(scores.logits, one_by_one, atol=1e-6)
    with pytest.raises(UnknownNameError):
        evaluate(model, examples, collate, metric=["accuracy", "acc"])


def test_the_result_can_be_written_and_read():
    result = train(tiny_classifier(), tiny_task(8), collate, dev=tiny_task(6), settings=SETTINGS, progress=False)
    told = json.loads(json.dumps(result.to_json()))
    assert TrainResult.from_json(told) == result
    assert told["history"][0].keys() == {"step", "epoch", "loss", "metrics"}
    assert told["examples_per_second"] == result.examples_per_second


def test_progress_is_shown_on_a_terminal_only(capsys, caplog, monkeypatch):
    def watch():
        with caplog.at_level(logging.INFO, logger="infuser"):
            train(tiny_classifier(), tiny_task(8), collate, dev=tiny_task(6), settings=SETTINGS)
        return capsys.readouterr()

    quiet = watch()
    assert (quiet.out, quiet.err) == ("", "")
    assert "step 2 of 4: Evaluation(step=2, epoch=1.0, loss=" in caplog.text
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    shown = watch()
    assert shown.out == ""
    assert all(word in shown.err for word in ("4/4", "loss", "best", "rate", "examples/s"))


def test_a_callers_own_progress_sees_every_step():
    reports = []
    train(tiny_classifier(), tiny_task(8), collate, dev=tiny_task(6), settings=SETTINGS, progress=reports.append)
    assert [report.step for report in reports] == [1, 2, 3, 4]
    assert {report.n_steps for report in reports} == {4}
    assert reports[0].best is None
    assert reports[-1].best is not None
    assert reports[0].learning_rate == SETTINGS.learning_rate
    assert all(report.loss > 0 and report.examples_per_second > 0 for report in reports)


def test_a_run_that_was_killed_before_its_model_was_saved_ends_with_the_same_settings(tmp_path):
    first, again = (tiny_host("bert", "sequence-classification", vocab_size=50, num_labels=2) for _ in range(2))

    def read(examples):
        batch = collate(examples)
        return {name: batch[name] for name in ("input_ids", "attention_mask", "labels")}

    for model in (first, again):
        assert model.config.problem_type is None
        train(model, tiny_task(22), read, settings=SETTINGS, out=tmp_path / "run", progress=False)
    assert again.config.to_json_string() == first.config.to_json_string()
    assert again.config.problem_type == "single_label_classification"


def test_a_second_run_into_the_same_folder_is_refused_while_the_first_works(stopped):
    with locked_folder(stopped), pytest.raises(InputError, match=r"Another process is writing to .* Wait for it"):
        weights_after(out=stopped)
    assert_same(weights_after(out=stopped), weights_after())
