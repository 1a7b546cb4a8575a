"""A reranker with knowledge: a CrossEncoder that is trained under sentence-transformers, and a function for pipelines.

python examples/rerank.py [CHECKPOINT]
"""

from __future__ import annotations

import sys

import miniature
from datasets import Dataset
from sentence_transformers import CrossEncoder
from sentence_transformers.cross_encoder import CrossEncoderTrainer, CrossEncoderTrainingArguments

import infuser
from infuser import Graph, Kam
from infuser.clients.sentence_transformers import InfusedCrossEncoder

checkpoint = sys.argv[1] if len(sys.argv) > 1 else miniature.checkpoint()
examples, triples = miniature.query_ads(240, seed=0)
unseen, more = miniature.query_ads(60, seed=1)  # products that training does not see

infused = infuser.infuse(
    checkpoint, Kam(), sources=[Graph([*triples, *more])], task="sequence-classification", num_labels=1
)
reranker = CrossEncoder(modules=[InfusedCrossEncoder(infused)], device="cpu")

columns = {name: [example[key] for example in examples] for name, key in (("query", "text"), ("ad", "pair"))}
trainer = CrossEncoderTrainer(
    model=reranker,  # without a loss it is trained for labels 0 and 1
    args=CrossEncoderTrainingArguments(
        miniature.scratch(),
        num_train_epochs=6,
        per_device_train_batch_size=16,
        learning_rate=3e-3,
        report_to=[],
        save_strategy="no",
    ),
    train_dataset=Dataset.from_dict({**columns, "label": [float(str(example["label"])) for example in examples]}),
)
trainer.train()


def rerank(query: str, texts: list[str], top_k: int = 3) -> list[str]:
    """Return the texts that fit a query best, the best first."""
    return [texts[one["corpus_id"]] for one in reranker.rank(query, texts, top_k=top_k)]


known = {product: shop for product, _, shop in more}
right = {True: 0, False: 0}
for example in unseen:
    query = str(example["text"])
    shop = next((known[word] for word in query.split() if word in known), None)
    if shop is None:
        continue  # no known type
    ads = [f"{one} near me" for one in miniature.SHOPS]
    right[True] += rerank(query, ads, top_k=1) == [f"{shop} near me"]
    with infused.disabled():
        right[False] += rerank(query, ads, top_k=1) == [f"{shop} near me"]
n = len([example for example in unseen if set(str(example["text"]).split()) & known.keys()])
print(f"right first with knowledge: {right[True] / n:.2f}, without: {right[False] / n:.2f}")
