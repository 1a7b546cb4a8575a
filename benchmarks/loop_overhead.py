"""What our training loop costs beside a bare `transformers.Trainer` on the same work.

The same fine-tuning of MiniLM, twice: 240 sentences of one length, 15 batches of 16, AdamW, linear warm-up and decay,
gradients clipped at 1, the same collator, no evaluation and no checkpoints. Both take turns; the fastest of several
rounds counts, and the ratio of the two. A second row does the same with KAM inside. Wall time around the whole call, so
that what each does before the first and after the last step counts.

    python benchmarks/loop_overhead.py     # about four minutes
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import torch
from support.measuring import about, timed, write_result
from transformers import Trainer, TrainingArguments, set_seed
from transformers.utils import logging

from infuser import Entities, Kam, TrainSettings, assets, infuse, train
from infuser.hosts.loading import load_model, load_tokenizer
from infuser.signals import Collator

RESULT = Path(__file__).parent / "results" / "loop_overhead.json"
TARGET = 1.05
SENTENCE = "the old river bends around a small town where people sell bread and wool on market days"
N_EXAMPLES, BATCH, RATE = 240, 16, 5e-5


def examples() -> list[dict[str, Any]]:
    """Return sentences of one length, so that neither loop gains by how it puts texts into batches."""
    words = SENTENCE.split()
    return [{"text": " ".join(words[at % 7 :] + words[: at % 7]), "label": at % 2} for at in range(N_EXAMPLES)]


def model_and_collator(kam: bool) -> tuple[Any, Collator]:
    """Return a fresh model and what makes its batches."""
    folder = str(assets.fetch("minilm"))
    set_seed(0)
    if kam:
        source = Entities({"old river": "river", "small town": "town", "market days": "time"})
        infused = infuse(folder, Kam(), sources=[source], task="sequence-classification", num_labels=2)
        return infused.model, infused.collator()
    model = load_model(folder, "sequence-classification", num_labels=2)
    return model, Collator(load_tokenizer(folder), max_length=128)


def ours(kam: bool) -> float:
    """Return the seconds of our loop."""
    model, collator = model_and_collator(kam)
    settings = TrainSettings(epochs=1, batch_size=BATCH, learning_rate=RATE)
    return timed(lambda: train(model, examples(), collator, settings=settings, progress=False))[0]


def bare(kam: bool) -> float:
    """Return the seconds of a bare Trainer."""
    model, collator = model_and_collator(kam)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            num_train_epochs=1,
            per_device_train_batch_size=BATCH,
            learning_rate=RATE,
            weight_decay=0.01,
            warmup_steps=2,
            max_grad_norm=1.0,
            optim="adamw_torch_fused",
            remove_unused_columns=False,
            save_strategy="no",
            logging_strategy="no",
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
        )
        # making the Trainer counts, too
        return timed(lambda: Trainer(model, arguments, train_dataset=examples(), data_collator=collator).train())[0]  # type: ignore[arg-type]


def main() -> None:
    """Time both in turn, print the ratio and keep it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    rows = {}
    for name, kam in (("plain", False), ("kam", True)):
        times: dict[str, list[float]] = {"ours": [], "Trainer": []}
        for turn in range(given.rounds + 1):
            # who goes first changes, because a machine may slow down within a round
            pair = [("ours", ours), ("Trainer", bare)]
            for who, loop in pair if turn % 2 else reversed(pair):
                seconds = loop(kam)
                if turn:  # the first round warms up
                    times[who].append(seconds)
        ratio = min(times["ours"]) / min(times["Trainer"])
        rows[name] = {"seconds": times, "ratio": ratio}
        print(
            f"{name:6} ours {min(times['ours']):.2f} s  Trainer {min(times['Trainer']):.2f} s  "
            f"ratio {ratio:.3f} (target {TARGET})",
            flush=True,
        )
    facts = about("torch", threads=given.threads)
    write_result(RESULT, {"about": facts, "examples": N_EXAMPLES, "batch": BATCH, "target": TARGET, "rows": rows})


if __name__ == "__main__":
    main()
