"""Does knowledge help? The plain encoder, the infused one and a placebo, on a toy task.

python examples/compare.py [CHECKPOINT]
"""

from __future__ import annotations

import sys

import miniature

import infuser
from infuser import Arm, Data, Graph, Kam, TrainSettings

checkpoint = sys.argv[1] if len(sys.argv) > 1 else miniature.checkpoint()
out = miniature.scratch()
train_set, known = miniature.query_ads(240, seed=0)
dev_set, more = miniature.query_ads(60, seed=1)
test_set, most = miniature.query_ads(100, seed=2)

shops = Graph([*known, *more, *most])

data = Data.from_examples(train_set, dev_set, test_set)  # or Data.from_table("train.csv", test="test.csv")
settings = TrainSettings(epochs=3, batch_size=16, learning_rate=3e-3, new_learning_rate=3e-3)
found = infuser.compare(checkpoint, Arm(Kam(), [shops]), data, seeds=1, settings=settings, out=out)

print(found.table())  # one seed for speed; a verdict needs several
print(found.verdict)
print("use:", found.best)
page = found.to_html(out / "report.html", title="Query-to-ad relevance, a toy")
print("report written:", page.exists())

# finished cells are files: the same comparison again trains nothing
steps: list[str] = []
infuser.compare(
    *(checkpoint, Arm(Kam(), [shops]), data),
    seeds=1,
    settings=settings,
    out=out,
    progress=lambda cell, report: steps.append(cell.method) if report else None,
)
print("steps trained the second time:", len(steps))
