"""Entity linking: a knowledge base goes inside an encoder, its linker is trained, and texts are linked.

python examples/link.py [--checkpoint CHECKPOINT] [--out DIRECTORY]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import miniature
import torch

import infuser
from infuser import Candidates, EntityVectors, Kar, KnowledgeBase, TrainSettings, find_mentions, infuse
from infuser.linking.description_vectors import encode_descriptions
from infuser.linking.evaluation import prior_only
from infuser.linking.examples import link_examples
from infuser.linking.scores import score_links
from infuser.linking.training import train_linker

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--checkpoint", help="hub id or directory; else a miniature is built")
parser.add_argument("--out", type=Path, help="where the model goes")
given = parser.parse_args()
checkpoint, out = given.checkpoint or miniature.checkpoint(), given.out or miniature.scratch()
train_texts, meanings, described = miniature.linked_goods(80, seed=0)
test_texts, more_meanings, more_described = miniature.linked_goods(30, seed=1)  # names that training does not see

entities = dict(described + more_described)
vectors = EntityVectors.of(list(entities), encode_descriptions(list(entities.values()), checkpoint))
base = KnowledgeBase(Candidates({**meanings, **more_meanings}), vectors, name="goods")

torch.manual_seed(0)  # a linker starts at random
infused = infuse(checkpoint, Kar(inner=64), sources=[base])
examples = link_examples(train_texts, {"goods": base})
settings = TrainSettings(epochs=14, batch_size=16, learning_rate=5e-3)
train_linker(infused, examples, loss="softmax", settings=settings, progress=False)

text = test_texts[0].text
for mention in find_mentions(infused, text)[0]:
    print(f"{mention.start}-{mention.end} {mention.text!r} means {mention.id!r}, score {mention.score:.2f}")
    print("  candidates:", ", ".join(f"{one.id} ({one.prior:.2f}, {one.score:.2f})" for one in mention.candidates))

texts = [linked.text for linked in test_texts]
linker = score_links(test_texts, find_mentions(infused, texts)).total
prior = score_links(test_texts, prior_only(texts, base)).total
print(f"F1 {linker.f1:.2f}, by the priors alone {prior.f1:.2f}; at most {linker.ceiling:.2f} can be found")

infused.save(out / "model")
loaded = infuser.load(out / "model")
print("loaded, it links as before:", find_mentions(loaded, texts) == find_mentions(infused, texts))
