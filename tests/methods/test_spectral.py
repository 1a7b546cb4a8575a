"""Spectral regularisation: value and gradient against an SVD, every head, our loop, Trainer, two processes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from gradients import drop_nothing
from hypothesis import given
from hypothesis import strategies as st
from miniatures import TEXTS, every_host_and_head, tiny_config, tiny_host, tiny_tokenizer
from safetensors.torch import load_file
from tiny_infusions import examples, infuse_tiny, loss
from torch import Tensor, nn
from transformers import BertForPreTraining, PreTrainedModel

from infuser.errors import CheckpointError, InputError
from infuser.hosts import is_new_weight
from infuser.methods.spectral import Spectral
from infuser.methods.spectral_watch import watch_of
from infuser.signals import Collator
from infuser.training import TrainSettings, train
from infuser.training.steps import StepPlan, StepReport, parameter_groups
from tests.methods.spectral_child import STRONG, InOrder, learn, run_trainer
from tests.training.training_child import collate, tiny_classifier, tiny_task

ROOT = Path(__file__).parents[2]
READS_EVERY_TOKEN = ("eurobert", "sequence-classification")  # unless it is told to take one vector of each text
HEADS = [(host, head, {}) for host, head in every_host_and_head() if head != "encoder"]
HEADS.remove((*READS_EVERY_TOKEN, {}))
HEADS += [(*READS_EVERY_TOKEN, {"classifier_pooling": pooling}) for pooling in ("bos", "mean")]
HEADS.append(("modernbert", "sequence-classification", {"classifier_pooling": "mean"}))


def by_svd(features: Tensor, spectral: Spectral) -> Tensor:
    """Return the penalty as the paper has it."""
    squares = torch.linalg.svdvals(features).square()  # largest first
    return spectral.eta * squares[1:][-spectral.k :].sum()


def value_and_gradient(penalty: Any, features: Tensor) -> tuple[Tensor, Tensor]:
    leaf = features.clone().requires_grad_()
    value = penalty(leaf)
    value.backward()
    assert leaf.grad is not None
    return value.detach(), leaf.grad


@given(rows=st.integers(1, 12), hidden=st.integers(1, 12), k=st.integers(1, 14), seed=st.integers(0, 999))
def test_value_and_gradient_are_those_of_an_svd(rows: int, hidden: int, k: int, seed: int) -> None:
    noise = torch.Generator().manual_seed(seed)
    features = torch.randn(rows, hidden, generator=noise, dtype=torch.float64)
    spectral = Spectral(eta=0.3, k=k)
    value, gradient = value_and_gradient(spectral.penalty, features)
    assert value.dtype == torch.float64
    if min(rows, hidden) == 1:  # the only singular value is the largest
        assert value == 0 and gradient.eq(0).all()
        return
    expected, slope = value_and_gradient(lambda leaf: by_svd(leaf, spectral), features)
    torch.testing.assert_close(value, expected, rtol=0, atol=1e-6)
    torch.testing.assert_close(gradient, slope, rtol=0, atol=1e-6)
    assert value > 0 and gradient.abs().max() > 0


def test_two_rows_by_hand() -> None:
    features = torch.tensor([[3.0, 0.0, 0.0], [0.0, 2.0, 0.0]], dtype=torch.float64)
    value, gradient = value_and_gradient(Spectral(eta=0.1, k=5).penalty, features)
    assert value == pytest.approx(0.1 * 4)  # of 9 and 4 the smaller; the largest is spared whatever k is
    torch.testing.assert_close(gradient, torch.tensor([[0.0, 0, 0], [0, 0.4, 0]], dtype=torch.float64))


@pytest.mark.parametrize("shape", [(1, 5), (2, 5), (6, 5), (6, 12)], ids=str)
@pytest.mark.parametrize("kind", ["equal rows", "two equal rows", "zero rows", "all zero", "nan", "inf"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_value_and_gradient_are_finite_for_any_matrix(shape: tuple[int, int], kind: str, dtype: torch.dtype) -> None:
    features = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    if kind in ("equal rows", "two equal rows"):
        features[: None if kind == "equal rows" else 2] = features[0].clone()
    if kind in ("zero rows", "all zero"):
        features[0 if kind == "zero rows" else slice(None)] = 0.0
    if kind in ("nan", "inf"):
        features[-1, 0] = float(kind)
    value, gradient = value_and_gradient(Spectral().penalty, features.to(dtype))
    assert value.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert value.isfinite() and gradient.isfinite().all()
    if kind in ("nan", "inf", "all zero") or len(features) == 1:
        assert value == 0 and gradient.eq(0).all()
    if len(features) <= features.shape[1] and kind in ("equal rows", "two equal rows", "zero rows"):
        assert value <= 1e-12 and gradient.abs().max() < 1e-6  # the smallest singular value is 0 already


def test_a_solver_that_gives_up_costs_one_penalty_not_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def give_up(gram: Tensor) -> None:
        raise torch.linalg.LinAlgError("failed to converge")  # type: ignore[attr-defined]

    monkeypatch.setattr(torch.linalg, "eigh", give_up)
    value, gradient = value_and_gradient(Spectral().penalty, torch.eye(3))
    assert value == 0 and gradient.eq(0).all()


@pytest.mark.parametrize("wrong", [{"eta": -1.0}, {"eta": float("nan")}, {"eta": float("inf")}, {"k": 0}, {"k": 1.5}])
def test_settings_that_mean_nothing_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        Spectral(**wrong)
    with pytest.raises(InputError, match="shape"):
        Spectral().penalty(torch.ones(2, 3, 4))


def in_training(model: PreTrainedModel) -> PreTrainedModel:
    """Return a model in training mode whose dropout drops nothing, so that two calls can be compared."""
    drop_nothing(model.train())
    return model


def what_enters_the_head(model: PreTrainedModel) -> list[Tensor]:
    """Return a list that gets what each linear layer behind the encoder reads."""
    inside, entering = set(model.base_model.modules()), []
    for module in model.modules():
        if isinstance(module, nn.Linear) and module not in inside:
            module.register_forward_pre_hook(lambda _, args: entering.append(args[0]))
    return entering


def gradients(model: nn.Module, loss: Tensor) -> dict[str, Tensor]:
    model.zero_grad()
    loss.backward(retain_graph=True)
    return {name: weight.grad.clone() for name, weight in model.named_parameters() if weight.grad is not None}


@pytest.mark.parametrize(("host", "head", "changes"), HEADS, ids=str)
def test_every_head_is_punished_for_what_enters_it(host: str, head: str, changes: dict[str, Any]) -> None:
    model = in_training(tiny_host(host, head, **changes))
    batch = Collator(tiny_tokenizer(host))(examples(head))
    entering = what_enters_the_head(model)
    task = loss(model, batch, head)
    features = entering[0] if entering[0].dim() == 2 else entering[0][batch["attention_mask"].bool()]
    expected = task + by_svd(features, STRONG)
    with STRONG.on(model):
        found = loss(model, batch, head)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)
    slopes = gradients(model, expected)
    assert found > task + 1e-6
    for name, gradient in gradients(model, found).items():
        torch.testing.assert_close(gradient, slopes[name], rtol=1e-6, atol=1e-8, msg=name)
    assert torch.equal(loss(model, batch, head), task)  # detached


def test_the_head_of_pretraining_is_punished_for_all_its_words() -> None:
    model = in_training(BertForPreTraining(tiny_config("bert")).double())
    batch = Collator(tiny_tokenizer("bert"))(examples("masked-lm"))
    entering = what_enters_the_head(model)
    with STRONG.on(model):
        output = model(**batch, labels=batch["input_ids"], next_sentence_label=torch.tensor([0, 1, 0, 1]))
    expected = by_svd(entering[0][batch["attention_mask"].bool()], STRONG)
    torch.testing.assert_close(output.parts["spectral"], expected.detach())


@pytest.mark.parametrize("method", ["kam", "kar"])
def test_an_infused_model_is_punished_in_training_and_left_alone_otherwise(method: str, tmp_path: Path) -> None:
    infused = infuse_tiny("bert", "sequence-classification", method)
    model, batch = in_training(infused.model), infused.collator()(examples("sequence-classification"))
    labels = torch.tensor([0, 1, 2, 1])
    task = model(**batch, labels=labels).loss
    before = gradients(model, task)
    with STRONG.on(model):
        output = model(**batch, labels=labels)
        assert type(model(**batch)) is not type(output)  # without labels there is no loss to add to
        answer = model.eval()(**batch, labels=labels)
        model.train().save_pretrained(tmp_path)
    assert output.parts["task"] == task and output.parts["spectral"] > 0
    assert output.loss == output.parts["task"] + output.parts["spectral"]
    assert torch.equal(output.logits, answer.logits) and torch.equal(output[1], output.logits)
    assert answer.loss == task and not hasattr(answer, "parts")
    changed = [name for name, slope in gradients(model, output.loss).items() if not torch.equal(slope, before[name])]
    assert any(is_new_weight(name) for name in changed)
    assert load_file(tmp_path / "model.safetensors").keys() == model.state_dict().keys()


def test_what_cannot_be_watched_is_refused_and_nothing_stays_behind() -> None:
    model = in_training(tiny_host("bert", "sequence-classification"))
    batch = {**tiny_tokenizer("bert")(list(TEXTS), return_tensors="pt", padding=True)}
    with Spectral().on(model):
        with pytest.raises(InputError, match=r"Spectral\(eta=0.001, k=1\) is attached to this model already"):
            STRONG.attach(model)
        with pytest.raises(InputError, match="return_dict"):
            model(**batch, labels=torch.zeros(4, dtype=torch.long), return_dict=False)
        with pytest.raises(ValueError, match="batch_size"):
            model(**batch, labels=torch.zeros(3, dtype=torch.long))
        model.base_model(**batch)
        assert watch_of(model).seen == {}
    assert watch_of(model) is None
    assert not model._forward_hooks and not model._forward_pre_hooks and not model.base_model._forward_hooks
    for wrong in (model.base_model, nn.Linear(2, 2)):
        with pytest.raises(InputError, match=type(wrong).__name__):
            STRONG.attach(wrong)


def test_gradient_checkpointing_changes_nothing() -> None:
    model = in_training(tiny_host("bert", "token-classification"))
    batch = Collator(tiny_tokenizer("bert"))(examples("token-classification"))
    with STRONG.on(model):
        expected = gradients(model, loss(model, batch, "token-classification"))
        model.gradient_checkpointing_enable()
        found = gradients(model, loss(model, batch, "token-classification"))
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


def test_autocast_does_not_touch_the_penalty() -> None:
    features = torch.randn(8, 16, generator=torch.Generator().manual_seed(0))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = value_and_gradient(STRONG.penalty, features)
    torch.testing.assert_close(found, value_and_gradient(STRONG.penalty, features), rtol=0, atol=0)
    reports: list[StepReport] = []
    settings = TrainSettings(epochs=1, batch_size=4, mixed_precision="bf16")
    train(tiny_classifier().float(), tiny_task(8), collate, settings=settings, spectral=STRONG, progress=reports.append)
    for report in reports:
        assert report.parts["spectral"] > 0
        assert report.loss == pytest.approx(report.parts["task"] + report.parts["spectral"], rel=1e-5)


def test_a_step_of_several_batches_punishes_each_by_its_share() -> None:
    task, settings = tiny_task(5), TrainSettings(epochs=1, batch_size=4, accumulate=2, warmup=0, learning_rate=1e-2)
    reports: list[StepReport] = []
    learned = tiny_classifier(dropout=0.0)
    train(learned, task, collate, settings=settings, spectral=STRONG, progress=reports.append)

    model = tiny_classifier(dropout=0.0).train()
    lengths = [len(example["text"]) for example in task]
    (batches,) = StepPlan(5, 4, 2, settings.seed, lengths).epoch(0, 0, 1)
    assert [len(read) for read, _ in batches] == [4, 1]  # a batch of one row has no penalty
    whole = torch.zeros((), dtype=torch.float64)
    for read, share in batches:
        batch = collate([task[place] for place in read])
        features = model.bert(**{name: batch[name] for name in ("input_ids", "attention_mask")}).pooler_output
        whole = whole + share * (model(**batch).loss + (by_svd(features, STRONG) if len(read) > 1 else 0.0))
    whole.backward()
    for new in (False, True):
        nn.utils.clip_grad_norm_([w for name, w in model.named_parameters() if is_new_weight(name) is new], 1.0)
    torch.optim.AdamW(parameter_groups(model, 1e-2, 1e-2, settings.weight_decay), fused=True).step()
    assert reports[0].loss == pytest.approx(whole.item(), abs=1e-9)
    assert reports[0].parts["spectral"] > 0.01
    torch.testing.assert_close(learned.state_dict(), model.state_dict(), rtol=0, atol=1e-9)


def test_a_run_with_another_penalty_is_not_resumed(tmp_path: Path) -> None:
    def run(spectral: Spectral | None) -> int:
        reports: list[StepReport] = []
        settings = TrainSettings(epochs=1, batch_size=4)
        train(
            tiny_classifier(),
            tiny_task(8),
            collate,
            settings=settings,
            out=tmp_path,
            spectral=spectral,
            progress=reports.append,
        )
        return len(reports)

    assert run(Spectral(k=2)) == 2
    assert run(Spectral(k=2)) == 0
    for other in (Spectral(k=1), None):
        with pytest.raises(CheckpointError, match=r"spectral was \{'eta': 0.001, 'k': 2\}"):
            run(other)


def test_a_run_that_diverges_says_so() -> None:
    model = tiny_classifier()
    with torch.no_grad():
        model.bert.encoder.layer[0].output.dense.weight.fill_(float("nan"))
    with pytest.raises(InputError, match="diverged at step 1"):
        train(model, tiny_task(8), collate, spectral=STRONG, progress=False)
    assert watch_of(model) is None


def own_loss(output: Any, labels: Tensor, num_items_in_batch: Tensor) -> Tensor:
    return nn.functional.cross_entropy(output.logits, labels, reduction="sum") / num_items_in_batch


@pytest.mark.parametrize(
    ("kind", "accumulate"),
    [("plain", 1), ("plain", 2), ("smoothed", 2), ("own loss", 2), ("divided by Trainer", 2)],
    ids=str,
)
def test_trainer_adds_the_penalty_whatever_its_loss(kind: str, accumulate: int, tmp_path: Path) -> None:
    options: dict[str, Any] = {"max_steps": 1, "gradient_accumulation_steps": accumulate}
    if kind == "smoothed":
        options["label_smoothing_factor"] = 0.1
    if kind == "own loss":
        options["compute_loss_func"] = own_loss
    models = [tiny_classifier(dropout=0.0) for _ in range(3)]
    if kind == "divided by Trainer":
        for model in models:
            model.accepts_loss_kwargs = False
    start, without, punished = models
    total = torch.zeros((), dtype=torch.float64)
    for at in range(0, 3 * accumulate, 3):
        batch = collate(tiny_task(24)[at : at + 3])
        features = start.train().bert(batch["input_ids"], batch["attention_mask"]).pooler_output
        total = total + by_svd(features, STRONG) / accumulate
    slopes = gradients(start, total)
    quiet = run_trainer(tmp_path, without, kind=InOrder, **options)
    trainer = run_trainer(tmp_path, punished, spectral=STRONG, **options)
    moved = {name: (w - punished.get_parameter(name)).detach() for name, w in without.named_parameters()}
    for name, change in moved.items():
        torch.testing.assert_close(
            change, 0.1 * slopes.get(name, torch.zeros_like(change)), rtol=0, atol=1e-9, msg=name
        )
    log, quiet_log = trainer.state.log_history[0], quiet.state.log_history[0]
    assert log["spectral"] == pytest.approx(total.item())
    assert log["loss"] - quiet_log["loss"] == pytest.approx(total.item(), abs=1e-6)
    assert "spectral" not in quiet_log
    evaluated = trainer.evaluate(tiny_task(6, seed=1))
    assert "eval_spectral" not in evaluated and watch_of(punished) is None
    if kind == "plain" and accumulate == 1:  # then attaching is enough
        attached = tiny_classifier(dropout=0.0)
        with STRONG.on(attached):
            run_trainer(tmp_path, attached, kind=InOrder, **options)
        torch.testing.assert_close(attached.state_dict(), punished.state_dict(), rtol=0, atol=1e-12)


@pytest.mark.slow
def test_two_processes_learn_what_one_learns(tmp_path: Path) -> None:
    learn(tmp_path / "one", 1)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    started = []
    for rank in ("0", "1"):
        env = {**os.environ, "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true", "WORLD_SIZE": "2", "RANK": rank}
        env |= {"LOCAL_RANK": rank, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        command = [sys.executable, "-m", "tests.methods.spectral_child", str(tmp_path / "two")]
        with (tmp_path / f"log-{rank}.txt").open("w") as log:
            started.append(subprocess.Popen(command, cwd=ROOT, env=env, stdout=log, stderr=subprocess.STDOUT))
    try:
        for process in started:
            assert process.wait(timeout=300) == 0, "".join(log.read_text() for log in tmp_path.glob("log-*.txt"))
    finally:
        for process in started:
            process.kill()
            process.wait(timeout=30)
    one, first, second = (
        load_file(tmp_path / folder / f"learned-{rank}.safetensors")
        for folder, rank in (("one", 0), ("two", 0), ("two", 1))
    )
    assert len(one["logged"]) == 2 and one["logged"].min() > 0
    torch.testing.assert_close(first, second, rtol=0, atol=0)
    torch.testing.assert_close(first, one, rtol=0, atol=1e-7)
