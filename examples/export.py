"""An infused classifier as an ONNX graph, which answers without torch and takes other knowledge.

python examples/export.py [CHECKPOINT]
"""

from __future__ import annotations

import sys

import miniature
import torch

import infuser.runtime
from infuser import Entities, Types

checkpoint = sys.argv[1] if len(sys.argv) > 1 else miniature.checkpoint()
out = miniature.scratch() / "exported"

infused = infuser.infuse(checkpoint, Types(), sources=[Entities({"glipizide": "drug"})], task="sequence-classification")
infused.export(out)

model = infuser.runtime.load(out)
[answer] = model.predict(["buy glipizide"], ["the pharmacy"])  # {"label": ..., "probabilities": {...}}

with torch.inference_mode():
    logits = infused.model(**infused.batch(["buy glipizide"], ["the pharmacy"])).logits
shares = list(answer["probabilities"].values())
print("it answers as in torch:", torch.allclose(torch.tensor(shares), logits.softmax(-1)[0], atol=1e-4))

newer = [Entities({"metformin": "drug"})]
model = model.with_sources(newer)  # shares the graph
model = infuser.runtime.load(out, sources=newer)  # or when it is loaded
print("it knows:", model.sources[0].annotate(["metformin"])[0].spans[0].label)
print("files:", ", ".join(sorted(file.name for file in out.iterdir())))
