"""The demo's task in full: five seeds, plain trained out (three seeds), and what an answer costs with each arm.

`infuser demo` gives each run about two minutes, in which the plain encoder is not trained out. Here it also trains for
as long as its dev score rises. Beside `Types` and `Text`, which the demo compares, stand KAM with terms and `Types` and
KAM together. The cost of an answer is that of the 600 test pairs, annotated before, as batches of 32 (those of `Text`
are longer): the arms take turns, and the fastest round of each counts. Training is in 16 bits (bf16), for all arms
alike; finished cells are kept.

    python benchmarks/demo_arms.py               # half an hour on two cores
    python benchmarks/demo_arms.py --no-cost     # train only; costs want an idle machine
    python benchmarks/demo_arms.py --encoder mpnet --rate 3e-5 --arms plain types placebo --seeds 3 --only-train
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from support.measuring import RESULTS, about, rounds_of, write_result

from infuser import assets
from infuser.comparing import Comparison, compare
from infuser.demo import LABELS, Demo
from infuser.experiments.arm import Arm, Host, make_model
from infuser.experiments.data import Annotator, Data
from infuser.methods import Kam, Text, Types

ROOT = Path(__file__).resolve().parents[1]
RUN = ROOT / "runs" / "demo_arms"
TRAINED_OUT = {"epochs": 16, "patience": 5}
"""At most so many epochs, and so many without a better dev score until training stops."""


def arms(sources: Any) -> list[Arm]:
    """Return the arms that train as long as the demo does."""
    types = Arm(Types(vectors="names"), sources, name="types")
    return [
        Arm(),
        types,
        Arm(Text(), sources, name="text"),
        types.placebo(),
        Arm(Kam(channels="types"), sources, name="kam terms"),
        Arm([Types(vectors="names"), Kam(channels="types")], sources, name="types+kam"),
    ]


def seconds_of(found: Comparison, encoder: Path, rounds: int) -> dict[str, list[float]]:
    """Return how long the arms take for the answers to all test pairs, in each round."""
    annotator = Annotator()
    calls: dict[str, Callable[[], None]] = {}
    for arm in found.arms:
        if arm.shuffled:
            continue
        known, data = annotator.annotate(found.data, arm)
        # fresh weights cost what trained ones do, but a gate at 0 may be skipped
        model, collator, _ = make_model(data.task, Host(str(encoder)), known)
        with torch.no_grad():
            for name, weight in model.named_parameters():
                if "knowledge" in name:
                    weight.add_(torch.randn_like(weight) * 0.01)
        batches = [collator(data.test[at : at + 32]) for at in range(0, len(data.test), 32)]
        calls[arm.name] = _answering(model.eval(), batches)
    return rounds_of(calls, rounds, warm_up=1)


def _answering(model: Any, batches: list[Any]) -> Callable[[], None]:
    def answer() -> None:
        with torch.inference_mode():
            for batch in batches:
                model(**{name: tensor for name, tensor in batch.items() if name != "labels"})

    return answer


def main() -> None:
    """Train what is missing, time the answers and keep the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--no-cost", action="store_true", help="train only")
    parser.add_argument("--only-train", action="store_true", help="as --no-cost, and plain is not trained out")
    parser.add_argument("--encoder", choices=("minilm", "mpnet"), default="minilm")
    parser.add_argument("--rate", type=float, help="learning rate, instead of the demo's")
    parser.add_argument("--arms", nargs="+", help="instead of all")
    given = parser.parse_args()
    encoder = assets.fetch(given.encoder)
    job = Demo.prepare(RUN, n_pairs=1000, epochs=4, correlation=None)
    data = Data.from_examples(job.task.train, job.task.dev, job.task.test, labels=LABELS)
    settings = replace(job.settings, mixed_precision="bf16", learning_rate=given.rate or job.settings.learning_rate)
    compared = [arm for arm in arms(job.arm.sources) if given.arms is None or arm.name in given.arms]
    run = RUN if given.encoder == "minilm" else RUN / given.encoder
    shared: dict[str, Any] = {
        "data": data,
        "seeds": given.seeds,
        "text": False,
        "placebo": False,
        "workers": given.workers,
        "groups": [example["term"] for example in job.task.test],
        "progress": lambda cell, step: None if step else print(f"{cell}: done", flush=True),
    }
    found = compare(encoder, compared, settings=settings, out=run / "arms", **shared)
    kept = {
        "about": about("torch"),
        "encoder": given.encoder,
        "learning rate": settings.learning_rate,
        "table": found.table(),
        "rule": job.rule,
        "scores": {name: [one["scores"] for one in results] for name, results in found.results.items()},
        "best dev scores": {
            name: [max(step["metrics"]["auc"] for step in one["history"]) for one in results]
            for name, results in found.results.items()
        },
    }
    print(kept["table"], kept["rule"], sep="\n\n")
    if not given.only_train:
        longer = replace(settings, **TRAINED_OUT)
        few = {**shared, "seeds": min(given.seeds, 3)}
        types = next(arm for arm in arms(job.arm.sources) if arm.name == "types")
        trained_out = compare(encoder, [types], settings=longer, out=run / "longer", **few)
        kept["trained out"] = trained_out.table()
        kept["epochs of trained out"] = {
            name: [len(one["history"]) for one in results] for name, results in trained_out.results.items()
        }
        for name, results in trained_out.results.items():
            kept["scores"][f"{name}, trained out"] = [one["scores"] for one in results]
        print(kept["trained out"])
    if not (given.no_cost or given.only_train):
        seconds = seconds_of(found, encoder, given.rounds)
        kept["seconds per 600 pairs"] = seconds
        plain = min(seconds["plain"])
        for name, rounds in seconds.items():
            print(f"{name:<12}{1e3 * min(rounds):8.0f} ms  {min(rounds) / plain:.2f}x of plain")
    write_result(RESULTS / ("demo_arms.json" if given.encoder == "minilm" else f"demo_arms_{given.encoder}.json"), kept)


if __name__ == "__main__":
    main()
