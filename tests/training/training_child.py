"""A miniature classifier, its task, and a training run of it that a test can start as a process of its own and kill."""

from __future__ import annotations

import json
import os
import random
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from safetensors.torch import save_file
from torch import nn
from transformers import BertConfig, BertForSequenceClassification
from transformers.modeling_outputs import SequenceClassifierOutput

from infuser.training import StepReport, TrainSettings, evaluate, train

KEY_WORD = 7


class Knowing(BertForSequenceClassification):
    """A classifier with one new weight, which only batches with a hint use."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.knowledge = nn.Linear(1, config.num_labels, bias=False)
        nn.init.zeros_(self.knowledge.weight)

    def forward(self, knowledge_hint=None, labels=None, **inputs):
        logits = super().forward(**inputs).logits
        if knowledge_hint is not None:
            logits = logits + self.knowledge(knowledge_hint.to(logits.dtype))
        loss = None
        if labels is not None and self.config.num_labels == 1:
            loss = nn.functional.mse_loss(logits[:, 0], labels.to(logits.dtype))
        elif labels is not None:
            loss = nn.functional.cross_entropy(logits, labels)
        return SequenceClassifierOutput(loss=loss, logits=logits)


def tiny_classifier(*, dropout: float = 0.1, num_labels: int = 2) -> Knowing:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=50,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=16,
        initializer_range=0.3,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        num_labels=num_labels,
    )
    return Knowing(config).eval().double()


def tiny_task(n: int, *, seed: int = 0) -> list[dict[str, Any]]:
    """Texts of numbers; those with the key word are positive, and every eighth brings a hint."""
    dice = random.Random(seed)
    task = []
    for i in range(n):
        words = [dice.randrange(10, 50) for _ in range(dice.randrange(2, 8))]
        if i % 2:
            words[dice.randrange(len(words))] = KEY_WORD
        task.append({"text": " ".join(map(str, words)), "label": i % 2, "hint": float(i % 8 == 0)})
    return task


def collate(examples: list[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
    rows = [torch.tensor([1, *map(int, example["text"].split())]) for example in examples]
    ids = nn.utils.rnn.pad_sequence(rows, batch_first=True)
    batch = {
        "input_ids": ids,
        "attention_mask": (ids != 0).long(),
        "labels": torch.tensor([example["label"] for example in examples]),
    }
    hints = torch.tensor([[example["hint"]] for example in examples])
    return {**batch, "knowledge_hint": hints} if hints.any() else batch


def run(
    out: Path,
    settings: Mapping[str, Any],
    *,
    n_examples: int = 30,
    dropout: float = 0.1,
    progress: Callable[[StepReport], None] | bool = False,
) -> None:
    """Train, evaluate on several sizes, and write weights and scores of this process into `out`."""
    model, dev = tiny_classifier(dropout=dropout), tiny_task(11, seed=1)
    result = train(
        model,
        tiny_task(n_examples),
        collate,
        dev=dev,
        settings=TrainSettings(**settings),
        out=out,
        progress=progress,
    )
    scores = {n: evaluate(model, dev[:n], collate, metric="accuracy", batch_size=2) for n in (1, 2, 3, 11)}
    told = {
        "result": result.to_json(),
        "accuracy": {n: score.metrics["accuracy"] for n, score in scores.items()},
        "logits": {n: score.logits.tolist() for n, score in scores.items()},
    }
    process = PartialState().process_index
    save_file(dict(model.state_dict()), out / f"weights-{process}.safetensors")
    (out / f"told-{process}.json").write_text(json.dumps(told))


def run_as_a_process(
    out: Path,
    settings: Mapping[str, Any],
    *,
    n_examples: int = 30,
    dropout: float = 0.1,
    kill_at_step: int | None = None,
    kill_in_checkpoint: int | None = None,
) -> None:
    """Do what `run` does in a process that ends with it, or dies at a step or within a checkpoint."""

    def die_at_step(report: StepReport) -> None:
        if report.step == kill_at_step:
            os.kill(os.getpid(), signal.SIGKILL)

    if kill_in_checkpoint is not None:
        kill_while_writing(kill_in_checkpoint)
    run(out, settings, n_examples=n_examples, dropout=dropout, progress=die_at_step)
    PartialState().destroy_process_group()


def kill_while_writing(step: int) -> None:
    """Let the process die between two files of the checkpoint of that step."""
    from infuser.training import checkpoints

    write = checkpoints.save_file

    def write_or_die(tensors: dict[str, torch.Tensor], path: Path) -> None:
        if f"-{step:08d}" in str(path) and path.stem == "optimizer":
            os.kill(os.getpid(), signal.SIGKILL)
        write(tensors, path)

    checkpoints.save_file = write_or_die
