"""A penalty on the smallest singular values of what enters the task head: in our loop, and with `Trainer`.

python examples/spectral.py [CHECKPOINT]
"""

from __future__ import annotations

import sys

import miniature
import torch
from transformers import Trainer, TrainingArguments

from infuser import Graph, Kam, TrainSettings, infuse, train
from infuser.methods.spectral import Spectral, SpectralTraining

checkpoint = sys.argv[1] if len(sys.argv) > 1 else miniature.checkpoint()
few, known = miniature.query_ads(48, seed=0)
settings = TrainSettings(epochs=4, batch_size=16, learning_rate=3e-3)

smallest = []
for spectral in (None, Spectral(eta=0.1, k=4)):  # strong, so that it shows within a few steps
    torch.manual_seed(0)
    infused = infuse(checkpoint, Kam(), sources=[Graph(known)], task="sequence-classification", num_labels=2)
    train(infused.model, few, infused.collator(), settings=settings, spectral=spectral)
    batch = infused.batch([example["text"] for example in few[:16]], [example["pair"] for example in few[:16]])
    with torch.no_grad():
        features = infused.model.base_model(**batch).pooler_output  # (16, hidden): what enters the head
    smallest.append(torch.linalg.svdvals(features)[-4:].square().sum().item())
print(f"smallest four squared singular values: {smallest[0]:.3f}, with the penalty {smallest[1]:.3f}")
print("the penalty shrank them:", smallest[1] < smallest[0])


class PunishingTrainer(SpectralTraining, Trainer):
    """Trainer with one keyword more."""


arguments = TrainingArguments(
    output_dir=str(miniature.scratch()),
    max_steps=2,
    gradient_accumulation_steps=2,
    logging_steps=1,
    remove_unused_columns=False,  # else the texts are dropped before the collator sees them
    report_to="none",
    disable_tqdm=True,
    save_strategy="no",
    use_cpu=True,
)
trainer = PunishingTrainer(
    infused.model, arguments, train_dataset=few, data_collator=infused.collator(), spectral=Spectral()
)
trainer.train()
print("Trainer logs the penalty:", all("spectral" in log for log in trainer.state.log_history[:2]))
