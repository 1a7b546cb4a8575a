"""A transformers pipeline that reads knowledge.

python examples/pipeline.py [SAVED_INFUSED_MODEL]
"""

from __future__ import annotations

import sys

import miniature
import torch
from transformers import pipeline

import infuser

infused = infuser.load(sys.argv[1]) if len(sys.argv) > 1 else miniature.trained()

classify = pipeline("text-classification", model=infused.model, tokenizer=infused.reading_tokenizer())
plain = pipeline("text-classification", model=infused.model, tokenizer=infused.tokenizer)

examples, _ = miniature.query_ads(4, seed=1)
for example in examples:
    pair = {"text": example["text"], "text_pair": example["pair"]}
    with_knowledge, without = classify(pair), plain(pair)
    print(f"{pair['text']!r} / {pair['text_pair']!r} ({example['label']}):")
    print(f"  with knowledge {with_knowledge['label']} {with_knowledge['score']:.2f}", end=", ")
    print(f"without {without['label']} {without['score']:.2f}")

with torch.inference_mode():
    logits = infused.model(**infused.batch([pair["text"]], [pair["text_pair"]])).logits
direct = logits.softmax(-1).max().item()
print("the pipeline says what the model says:", abs(direct - with_knowledge["score"]) < 1e-6)
