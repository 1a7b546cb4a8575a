"""Training with a penalty in our loop and with Trainer, which a test can also start as one of two processes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from safetensors.torch import save_file
from torch.utils.data import Sampler, SequentialSampler
from transformers import BertForTokenClassification, PreTrainedModel, Trainer, TrainingArguments

from infuser.methods.spectral import Spectral, SpectralTraining
from infuser.training import TrainSettings, train
from tests.training.training_child import collate, tiny_classifier, tiny_task

STRONG = Spectral(eta=0.5, k=2)
"""So strong that a mistake shows."""


class InOrder(Trainer):
    """A Trainer that reads its examples in their order."""

    def _get_train_sampler(self, *_: Any) -> Sampler[int]:
        return SequentialSampler(self.train_dataset)  # type: ignore[arg-type]


class SpectralInOrder(SpectralTraining, InOrder):
    """The same with the penalty."""


def run_trainer(
    out: Path,
    model: PreTrainedModel,
    *,
    kind: type[Trainer] = SpectralInOrder,
    rate: float = 0.1,
    n_each: int = 3,
    **options: Any,
) -> Trainer:
    """Train by plain gradient descent, so that a wrong scale shows."""
    given = {name: options.pop(name) for name in ("spectral", "compute_loss_func") if name in options}
    arguments = TrainingArguments(
        output_dir=str(out),
        per_device_train_batch_size=n_each,
        learning_rate=rate,
        lr_scheduler_type="constant",
        max_grad_norm=0.0,
        optim="sgd",
        logging_steps=1,
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
        remove_unused_columns=False,
        use_cpu=True,
        ddp_find_unused_parameters=True,
        **options,
    )
    trainer = kind(model=model, args=arguments, train_dataset=tiny_task(24), data_collator=collate, **given)
    trainer.train()
    return trainer


def collate_words(examples: list[Any]) -> dict[str, torch.Tensor]:
    """Label one word of each text, so that texts weigh the same however long they are."""
    batch = collate([{**example, "hint": 0.0} for example in examples])
    labels = torch.full_like(batch["input_ids"], -100)
    labels[:, 0] = batch["labels"]
    return {**batch, "labels": labels}


def learn(out: Path, n_processes: int) -> None:
    """Train in our loop, with a head for texts and one for words, and with Trainer; write what this process learned."""
    out.mkdir(exist_ok=True)
    # 22 examples in steps of 2 x 3: batches of one row, and a process that has nothing to read
    settings = TrainSettings(epochs=2, batch_size=3, accumulate=2, learning_rate=1e-3, clip=3.0)
    models = {"texts": tiny_classifier(dropout=0.0), "trainer": tiny_classifier(dropout=0.0)}
    torch.manual_seed(0)
    models["words"] = BertForTokenClassification(models["texts"].config).double()
    train(models["texts"], tiny_task(22), collate, settings=settings, spectral=STRONG, progress=False)
    train(models["words"], tiny_task(21), collate_words, settings=settings, spectral=STRONG, progress=False)
    process = PartialState().process_index
    options = {"label_smoothing_factor": 0.1, "gradient_accumulation_steps": 2, "max_steps": 2}
    trainer = run_trainer(out, models["trainer"], spectral=STRONG, n_each=6 // n_processes, **options)
    logged = [log["spectral"] for log in trainer.state.log_history if "spectral" in log]
    learned = {f"{head}.{name}": value for head, model in models.items() for name, value in model.state_dict().items()}
    save_file({"logged": torch.tensor(logged), **learned}, out / f"learned-{process}.safetensors")


if __name__ == "__main__":
    learn(Path(sys.argv[1]), 2)
    PartialState().destroy_process_group()
