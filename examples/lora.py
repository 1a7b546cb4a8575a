"""PEFT LoRA on an infused model: the host stays frozen, LoRA and the knowledge weights learn.

python examples/lora.py [CHECKPOINT]
"""

from __future__ import annotations

import sys

import miniature
import torch
from peft import LoraConfig, PeftModel, TaskType, get_peft_model

from infuser import Graph, Infused, Kam, TrainSettings, infuse, train

checkpoint = sys.argv[1] if len(sys.argv) > 1 else miniature.checkpoint()
out = miniature.scratch() / "adapter"
train_set, known = miniature.query_ads(120, seed=0)


def infuse_with_graph() -> Infused:
    torch.manual_seed(0)  # the fresh head of the host starts the same each time
    return infuse(checkpoint, Kam(), sources=[Graph(known)], task="sequence-classification", num_labels=2)


infused = infuse_with_graph()
lora = LoraConfig(
    task_type=TaskType.SEQ_CLS,
    r=4,
    target_modules=["query", "value"],
    modules_to_save=["knowledge", "classifier"],  # trained whole and kept in the adapter
)
model = get_peft_model(infused.model, lora)
learning = [name for name, weight in model.named_parameters() if weight.requires_grad]
print("learning:", sorted({name.split(".")[-1] if "lora" not in name else "lora" for name in learning}))

collate = infused.collator()
settings = TrainSettings(epochs=2, batch_size=16, learning_rate=3e-3)
train(model, train_set, collate, settings=settings, progress=False)

model.save_pretrained(out)
again = PeftModel.from_pretrained(infuse_with_graph().model, out).eval()
batch = infused.batch(["buy medicine"], ["the best pharmacy in town"])
print("loaded, it gives the same logits:", torch.equal(again(**batch).logits, model(**batch).logits))
