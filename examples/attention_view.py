"""bertviz on the attentions of an infused model.

python examples/attention_view.py [SAVED_INFUSED_MODEL]
"""

from __future__ import annotations

import sys

import miniature
import torch
from bertviz import head_view

import infuser

infused = infuser.load(sys.argv[1]) if len(sys.argv) > 1 else miniature.trained()
out = miniature.scratch() / "attention.html"
_, [(product, _, shop), *_] = miniature.query_ads(4, seed=1)

batch = infused.batch([f"buy {product} online"], [f"{shop} near me"])
with torch.inference_mode():
    attentions = infused.model(**batch, output_attentions=True).attentions  # per layer (batch, heads, seq, seq)
tokens = infused.tokenizer.convert_ids_to_tokens(batch["input_ids"][0])
page = head_view(attentions, tokens, html_action="return")
out.write_text(page.data, encoding="utf-8")

print(f"{len(attentions)} layers, each {tuple(attentions[0].shape)}; tokens: {len(tokens)}")
print("page written:", out.stat().st_size > 10_000)
