"""Our own loop on a toy task: train, evaluate, go on after a kill.

python examples/train.py [CHECKPOINT]
accelerate launch --cpu --num_processes 2 examples/train.py [CHECKPOINT]
"""

from __future__ import annotations

import sys

import miniature

from infuser import Graph, Kam, TrainSettings, evaluate, infuse, train

checkpoint = sys.argv[1] if len(sys.argv) > 1 else miniature.checkpoint()
out = miniature.scratch() / "run"
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
again = train(infused.model, train_set, infused.collator(), dev=dev_set, settings=settings, out=out)
print("asked again, it trained anew:", again.step_seconds != result.step_seconds)
