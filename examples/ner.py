"""Entities in texts: what a list of names adds to a tagger, beside what the list alone would find.

python examples/ner.py [CHECKPOINT]
"""

from __future__ import annotations

import random
import sys

import miniature

import infuser
from infuser import Arm, Data, Entities, TrainSettings, Types

checkpoint = sys.argv[1] if len(sys.argv) > 1 else miniature.checkpoint()
chance = random.Random(0)


def name() -> str:
    """Return a made-up name."""
    return "".join(chance.choice("bdfgklmnprstvz") + chance.choice("aeiou") for _ in range(4))


def write(medicines: list[str], towns: list[str], n: int) -> list[dict[str, object]]:
    """Return texts about medicines and towns; nothing but the name says which is which."""
    examples: list[dict[str, object]] = []
    for _ in range(n):
        words = [chance.choice(medicines), chance.choice(towns)]
        chance.shuffle(words)
        text = "buy {} near {}".format(*words)
        types = ["Drug" if word in medicines else "City" for word in words]
        spans = [(text.index(word), text.index(word) + len(word)) for word in words]
        examples.append({"text": text, "entities": [(*span, kind) for span, kind in zip(spans, types, strict=True)]})
    return examples


medicines, towns = [name() for _ in range(60)], [name() for _ in range(60)]
train_set = write(medicines[:30], towns[:30], 160)
dev_set, test_set = write(medicines[20:40], towns[20:40], 40), write(medicines[20:], towns[20:], 60)

# the list knows nine of ten names, and calls their types in its own way
known = [*((one, "medicine") for one in medicines), *((one, "town") for one in towns)]
names = Entities(dict(chance.sample(known, 108)))

data = Data.from_examples(train_set, dev_set, test_set)  # or Data.from_table("train.conll", task="ner")
settings = TrainSettings(epochs=6, batch_size=16, learning_rate=3e-3)
found = infuser.compare(checkpoint, Arm(Types(), [names]), data, seeds=1, settings=settings)

print(found.table())
result = found.results["types"][0]
print("test:", {name: round(value, 2) for name, value in result["scores"].items()})
print("first text:", test_set[0]["text"])
print("found in it:", [one[:3] for one in result["predictions"][0]])
