"""What `Spectral` costs in a training step of MiniLM, with a penalty through torch's SVD beside it.

A step is forward, backward and AdamW on 32 texts. Three kinds take turns, step by step, on one model and one batch:

    plain       no penalty
    spectral    Spectral: eigenvectors of the Gram matrix
    svd         the same number from torch.linalg.svdvals, in float32, behind the same hooks

Whole steps differ by more than a penalty costs, machines being noisy. So the penalty alone, forward and backward on
what enters the head, is timed as well, the two kinds in turn; "share" is its time divided by that of a plain step. A
second table says how the penalty alone grows with the number of texts. All times are medians.

    python benchmarks/spectral_cost.py     # about two minutes
"""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from support.measuring import about, medians, write_result
from torch import Tensor
from transformers import AutoModelForSequenceClassification

from infuser import assets
from infuser.methods.spectral import Spectral

RESULT = Path(__file__).parent / "results" / "spectral_cost.json"
N_TEXTS = 32
TARGET = 0.01
"""The share of a step that the penalty may cost."""


@dataclass(frozen=True, slots=True)
class BySvd(Spectral):
    """The same penalty the costly way."""

    def penalty(self, features: Tensor) -> Tensor:
        """Return it as autograd makes it of an SVD."""
        return self.eta * torch.linalg.svdvals(features.float())[-self.k :].square().sum()

    def penalty_of_all(self, features: Tensor, n_texts: int) -> Tensor:
        """Return that of this process; there is only one."""
        return self.penalty(features)


KINDS: dict[str, Spectral | None] = {"plain": None, "spectral": Spectral(), "svd": BySvd()}


def penalties_of(features: Tensor, rounds: int) -> dict[str, float]:
    """Return the seconds that each kind of penalty takes on these features, forward and backward."""

    def run(spectral: Spectral) -> None:
        leaf = features.clone().requires_grad_()
        spectral.penalty(leaf).backward()

    runs = {name: partial(run, kind) for name, kind in KINDS.items() if kind}
    return medians(runs, rounds, warm_up=2)


def measure_steps(model: Any, n_tokens: int, rounds: int) -> dict[str, Any]:
    """Return what whole steps and penalties cost on texts of so many tokens."""
    noise = torch.Generator().manual_seed(0)
    ids = torch.randint(1000, 30000, (N_TEXTS, n_tokens), generator=noise)
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": torch.arange(N_TEXTS) % 2}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, fused=True)

    def step(spectral: Spectral | None) -> None:
        with spectral.on(model) if spectral else nullcontext():
            model(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    steps = medians({name: partial(step, kind) for name, kind in KINDS.items()}, rounds, warm_up=2)
    with torch.no_grad():
        features = model.base_model(ids, batch["attention_mask"]).pooler_output
    alone = penalties_of(features, 20 * rounds)
    return {
        "tokens": n_tokens,
        "step_ms": {name: round(1e3 * seconds, 2) for name, seconds in steps.items()},
        "step_against_plain": {name: round(seconds / steps["plain"], 4) for name, seconds in steps.items()},
        "penalty_ms": {name: round(1e3 * seconds, 4) for name, seconds in alone.items()},
        "share": {name: round(seconds / steps["plain"], 6) for name, seconds in alone.items()},
        "svd_against_spectral": round(alone["svd"] / alone["spectral"], 2),
    }


def main() -> None:
    """Measure, print both tables, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_pretrained(assets.fetch("minilm"), num_labels=2).train()

    print(f"MiniLM, {N_TEXTS} texts, {options.threads} threads, medians")
    print("tokens  step ms: plain / spectral / svd   penalty ms: spectral / svd   share of a step: spectral / svd")
    rows = []
    for n_tokens, rounds in ((32, 2 * options.rounds), (128, options.rounds)):
        row = measure_steps(model, n_tokens, rounds)
        rows.append(row)
        told = " / ".join(f"{value:.0f}" for value in row["step_ms"].values())
        alone = " / ".join(f"{value:.2f}" for value in row["penalty_ms"].values())
        shares = " / ".join(f"{value:.3%}" for value in row["share"].values())
        print(f"{n_tokens:>6}  {told:>33}   {alone:>26}   {shares:>31}", flush=True)
    kept = all(row["share"]["spectral"] <= TARGET for row in rows)
    print(f"at most {TARGET:.0%} of a step: {kept}")

    print(" texts   penalty ms: spectral / svd   svd by spectral")
    growth = []
    for n_texts in (32, 128, 512):
        features = torch.randn(n_texts, model.config.hidden_size, generator=torch.Generator().manual_seed(1)).tanh()
        alone_seconds = penalties_of(features, max(2 * options.rounds, 20 * options.rounds * 32 // n_texts))
        ratio = alone_seconds["svd"] / alone_seconds["spectral"]
        growth.append({"texts": n_texts, "penalty_ms": {k: round(1e3 * v, 4) for k, v in alone_seconds.items()}})
        growth[-1]["svd_against_spectral"] = round(ratio, 2)
        told = " / ".join(f"{1e3 * value:.2f}" for value in alone_seconds.values())
        print(f"{n_texts:>6}   {told:>26}   {ratio:>14.1f}x", flush=True)

    facts = about("torch", threads=options.threads, rounds=options.rounds)
    found = {**facts, "batch": N_TEXTS, "target": TARGET, "kept": kept, "steps": rows, "growth": growth}
    write_result(options.out, found)


if __name__ == "__main__":
    main()
