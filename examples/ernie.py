"""Entities beside the words: learn to guess them without labels, then learn a task.

python examples/ernie.py [--checkpoint CHECKPOINT]

The task: which shop sells what the text asks for? Products of the test set never occur in training; only their vectors
say what they are.
"""

from __future__ import annotations

import argparse

import miniature
import numpy as np
import torch
from support.denoising import DenoisingObjective

from infuser import Candidates, Collator, EntityVectors, Ernie, KnowledgeBase, TrainSettings, evaluate, infuse, train

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--checkpoint", help="hub id or directory; else a miniature is built")
checkpoint = parser.parse_args().checkpoint or miniature.checkpoint()
train_set, test_set = [], []
shop_of: dict[str, str] = {}
for number, examples in enumerate((train_set, test_set)):
    _, triples = miniature.query_ads(240, seed=number)
    for place, (product, _, shop) in enumerate(triples):
        text = miniature.QUERIES[place % len(miniature.QUERIES)].format(product)
        examples.append({"text": text, "label": miniature.SHOPS.index(shop)})
        shop_of[product] = shop

# vectors as any embedding of a graph gives them: products of one shop lie near each other
chance = np.random.default_rng(0)
centres = {shop: chance.normal(size=16) for shop in miniature.SHOPS}
vectors = np.stack([centres[shop] + 0.5 * chance.normal(size=16) for shop in shop_of.values()])
torch.manual_seed(0)  # most new weights start at random

base = KnowledgeBase(Candidates({name: {name: 1} for name in shop_of}), EntityVectors.of(list(shop_of), vectors))
infused = infuse(checkpoint, Ernie(start="zero"), sources=[base], task="sequence-classification", num_labels=4)
settings = TrainSettings(epochs=4, batch_size=16, learning_rate=1e-3, new_learning_rate=1e-2)

texts = [{"text": example["text"]} for example in train_set]
guessing = train(DenoisingObjective(infused.model), texts, infused.collator(), settings=settings)
print(f"guessing entities: loss {guessing.history[0].loss:.2f}, in the end {guessing.history[-1].loss:.2f}")

train(infused.model, train_set, infused.collator(), settings=settings)
for name, collate in (("with entities", infused.collator()), ("without", Collator(infused.tokenizer))):
    scores = evaluate(infused.model, test_set, collate, metric="accuracy")
    print(f"{name}: accuracy {scores.metrics['accuracy']:.2f} on products never seen")
