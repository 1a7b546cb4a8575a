"""The same model under `transformers.Trainer`.

python examples/trainer.py [CHECKPOINT]
"""

from __future__ import annotations

import sys

import miniature
from transformers import Trainer, TrainingArguments

from infuser import Graph, Kam, evaluate, infuse, load

checkpoint = sys.argv[1] if len(sys.argv) > 1 else miniature.checkpoint()
out = miniature.scratch()
train_set, known = miniature.query_ads(240, seed=0)
test_set, more = miniature.query_ads(60, seed=1)

infused = infuse(checkpoint, Kam(), sources=[Graph([*known, *more])], task="sequence-classification", num_labels=2)
trainer = Trainer(
    model=infused.model,
    args=TrainingArguments(
        output_dir=str(out / "trainer"),
        num_train_epochs=4,
        per_device_train_batch_size=16,
        learning_rate=3e-3,
        remove_unused_columns=False,  # else the texts are dropped before the collator sees them
        report_to="none",
        disable_tqdm=True,
        save_strategy="no",
        use_cpu=True,
    ),
    train_dataset=train_set,
    data_collator=infused.collator(),
)
trainer.train()

infused.save(out / "model")
again = load(out / "model")
scores = evaluate(again.model, test_set, again.collator(), metric="auc")
print(f"test AUC {scores.metrics['auc']:.2f}")
