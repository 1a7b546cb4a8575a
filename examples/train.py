"""Our own loop on a toy task: train, evaluate, go on after a kill.

python examples/train.py [--checkpoint CHECKPOINT] [--out DIRECTORY]
ACCELERATE_USE_CPU=true torchrun --nproc-per-node 2 examples/train.py --out runs/toy
"""

from __future__ import annotations

import argparse
from pathlib import Path

import miniature

from infuser import Graph, Kam, TrainSettings, evaluate, infuse, train

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--checkpoint", help="hub id or directory; else a miniature is built")
parser.add_argument("--out", type=Path, help="where checkpoints go: one directory that all processes see")
given = parser.parse_args()
checkpoint, out = given.checkpoint or miniature.checkpoint(), given.out or miniature.scratch()
train_set, known = miniature.query_ads(240, seed=0)
dev_set, more = miniature.query_ads(60, seed=1)
test_set, most = miniature.query_ads(60, seed=2)
print("an example:", train_set[1])

graph = Graph([*known, *more, *most])
infused = infuse(checkpoint, Kam(), sources=[graph], task="sequence-classification", num_labels=2)
settings = TrainSettings(epochs=4, batch_size=16, learning_rate=3e-3, metric="auc", patience=2, seed=0)

result = train(infused.model, train_set, infused.collator(), dev=dev_set, settings=settings, out=out)
print(f"{result.steps} steps, best {result.metric} on dev {result.best:.2f} at step {result.best_step}")

scores = evaluate(infused.model, test_set, infused.collator(), metric=["auc", "accuracy"])
print("test:", {name: round(value, 2) for name, value in scores.metrics.items()}, "logits", scores.logits.shape)

# the same call again finds its checkpoint in `out`: a finished run is read, a killed one goes on
steps: list[object] = []
train(infused.model, train_set, infused.collator(), dev=dev_set, settings=settings, out=out, progress=steps.append)
print("asked again, it trained for", len(steps), "steps")
