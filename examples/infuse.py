"""The front door: infuse a checkpoint, read a batch, save, load, detach.

python examples/infuse.py [CHECKPOINT]
"""

from __future__ import annotations

import sys

import miniature
import torch

import infuser
from infuser import Entities, Kam

checkpoint = sys.argv[1] if len(sys.argv) > 1 else miniature.checkpoint()
out, small = miniature.scratch() / "whole", miniature.scratch() / "small"

places = Entities({"Bern": "city", "Aare": "river", "New York": "city"})
infused = infuser.infuse(checkpoint, Kam(), sources=[places], task="sequence-classification", num_labels=2)

texts = ["Bern lies on the Aare.", "New York lies on the Hudson."]
batch = infused.batch(texts)  # token tensors and knowledge, ready for the model
logits = infused.model(**batch).logits  # a plain transformers model: (batch, labels)
vectors = infused.encode(texts)  # (batch, seq, hidden)

for name, tensor in batch.items():
    print(f"{name}: {tuple(tensor.shape)}")
print(f"logits: {tuple(logits.shape)}, vectors: {tuple(vectors.shape)}, new weights: {infused.n_new_weights()}")

without = {name: tensor for name, tensor in batch.items() if not name.startswith("knowledge_")}
unchanged = torch.allclose(logits, infused.model(**without).logits, atol=1e-5)
print("a fresh infusion answers as before:", unchanged)

with infused.disabled("entities"):  # one source, or disabled() for all; batches from before included
    plain_logits = infused.model(**batch).logits

infused.save(out)
again = infuser.load(out)  # method, settings, sources, tokenizer and weights
same = torch.equal(again.model(**batch).logits, logits)
print("loaded, it gives the same logits:", same)
print("saved files:", ", ".join(sorted(file.name for file in out.iterdir())))

infused.save(small, only_new=True)  # the new weights, and which checkpoint they belong to
print("saved in the small form:", ", ".join(sorted(file.name for file in small.iterdir())))

plain = infused.detach()  # the host without the method
print("detached, it has new weights:", any("knowledge" in name for name, _ in plain.named_parameters()))
