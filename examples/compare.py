"""Does knowledge help? The plain encoder, the infused one and a placebo, on a toy task.

python examples/compare.py [CHECKPOINT]
"""

from __future__ import annotations

import sys

import miniature

from infuser import Graph, Kam, TrainSettings
from infuser.experiments.comparing import Trial, run_trial
from infuser.reports import write_report
from infuser.reports.table import markdown_table
from infuser.stats.comparison import compare

checkpoint = sys.argv[1] if len(sys.argv) > 1 else miniature.checkpoint()
out = miniature.scratch()
train_set, known = miniature.query_ads(240, seed=0)
dev_set, more = miniature.query_ads(60, seed=1)
test_set, most = miniature.query_ads(100, seed=2)

trial = Trial(
    checkpoint=checkpoint,
    method=Kam(),
    sources=[Graph([*known, *more, *most])],
    train=train_set,
    dev=dev_set,
    test=test_set,
    settings=TrainSettings(epochs=3, batch_size=16, learning_rate=3e-3),
)
arms = run_trial(trial, seeds=[0], out=out)  # one seed for speed; a verdict needs several

comparison = compare(arms, [example["label"] for example in test_set], also=[("kam", "placebo")])
print(markdown_table(comparison))
write_report(out / "report.html", title="Query-to-ad relevance, a toy", comparison=comparison)
print("report written:", (out / "report.html").exists())

# finished runs are files: the same comparison again trains nothing
steps: list[str] = []
run_trial(trial, seeds=[0], out=out, tell=lambda arm, seed, report: steps.append(arm) if report else None)
print("steps trained the second time:", len(steps))
