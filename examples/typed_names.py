"""What a mention is, as vectors on its words: a list of types for products that training never shows.

python examples/typed_names.py [CHECKPOINT]

The task: which shop sells what the text asks for? Products of the test set never occur in training; the list says of
each what it is.
"""

from __future__ import annotations

import sys

import miniature
import torch

from infuser import Collator, Entities, TrainSettings, Types, evaluate, infuse, train

checkpoint = sys.argv[1] if len(sys.argv) > 1 else miniature.checkpoint()
train_set, test_set = [], []
type_of: dict[str, str] = {}
for number, examples in enumerate((train_set, test_set)):
    _, triples = miniature.query_ads(240, seed=number)
    for place, (product, _, shop) in enumerate(triples):
        text = miniature.QUERIES[place % len(miniature.QUERIES)].format(product)
        examples.append({"text": text, "label": miniature.SHOPS.index(shop)})
        type_of[product] = shop
torch.manual_seed(0)  # the head starts at random

lists = Entities(type_of, n_terms=1)  # the type's name is offered as a term
infused = infuse(checkpoint, Types(vectors="both"), sources=[lists], task="sequence-classification", num_labels=4)
settings = TrainSettings(epochs=4, batch_size=16, learning_rate=1e-3)
train(infused.model, train_set, infused.collator(), settings=settings)

print("types:", sorted(infused.vocabulary.types[0]))
for name, collate in (("with types", infused.collator()), ("without", Collator(infused.tokenizer))):
    scores = evaluate(infused.model, test_set, collate, metric="accuracy")
    print(f"{name}: accuracy {scores.metrics['accuracy']:.2f} on products never seen")
