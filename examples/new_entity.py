"""A new entity: it gets a name, a description and no training at all, and texts that mean it are linked to it.

python examples/new_entity.py [--checkpoint CHECKPOINT]
"""

from __future__ import annotations

import argparse

import miniature
import torch

from infuser import Candidates, EntityVectors, Infused, Kar, KnowledgeBase, TrainSettings, find_mentions, infuse
from infuser.linking.description_vectors import encode_descriptions
from infuser.linking.examples import link_examples
from infuser.linking.training import train_linker

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--checkpoint", help="hub id or directory; else a miniature is built")
checkpoint = parser.parse_args().checkpoint or miniature.checkpoint()
train_texts, meanings, described = miniature.linked_goods(80, seed=0)

ids, descriptions = zip(*described, strict=True)
vectors = EntityVectors.of(ids, encode_descriptions(descriptions, checkpoint))
base = KnowledgeBase(Candidates(meanings), vectors, name="goods")
torch.manual_seed(0)  # a linker starts at random
infused = infuse(checkpoint, Kar(inner=64), sources=[base])
settings = TrainSettings(epochs=14, batch_size=16, learning_rate=5e-3)
train_linker(infused, link_examples(train_texts, {"goods": base}), loss="softmax", settings=settings, progress=False)

# a name of two goods that the florist and the garage sell; nobody knew that the bakery sells a third
name = next(name for name in meanings if {f"{name} of the florist", f"{name} of the garage"} == {*meanings[name]})
new, text = f"{name} of the bakery", f"where to get {name} , bakery near me"
print("before, the text is linked to a rival:", find_mentions(infused, text)[0][0].id in meanings[name])

vector = encode_descriptions(["bakery in town"], checkpoint)
larger = base.with_entities({name: {new: 0.5}}, [new], vector)
now = infused.with_sources([larger])

mention = find_mentions(now, text)[0][0]
print("candidates:", ", ".join(f"{one.id} ({one.prior:.2f}, {one.score:.2f})" for one in mention.candidates))
print("it is linked to the new entity:", mention.id == new)
print("the new entity was the least probable one:", min(mention.candidates, key=lambda one: one.prior).id == new)


def answers(model: Infused, texts: list[str]) -> list[list[str | None]]:
    """Return the entities of all mentions in each text."""
    return [[mention.id for mention in mentions] for mentions in find_mentions(model, texts)]


same_name = [linked.text for linked in train_texts if linked.text.count(name)]
print("where the rivals are meant, they are chosen as before:", answers(now, same_name) == answers(infused, same_name))
all_texts = [linked.text for linked in train_texts]
print("all old answers are unchanged:", answers(now, all_texts) == answers(infused, all_texts))

# the same thing, described as something of the pharmacy: it is the description that decides
misled = base.with_entities({name: {new: 0.5}}, [new], encode_descriptions(["pharmacy in town"], checkpoint))
other = {one.id: one.score for one in find_mentions(infused.with_sources([misled]), text)[0][0].candidates}
print(f"with another description its score is {other[new]:.2f}, less than half:", other[new] < mention.score / 2)
