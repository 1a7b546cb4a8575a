"""Relations: a linear model on attention learns who is what to whom, extracts triples from raw text and says why.

python examples/relations.py [--checkpoint CHECKPOINT] [--out DIRECTORY]
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

import miniature

from infuser import Entities, Span
from infuser.relations.examples import RelationText, Triple
from infuser.relations.extraction import extract
from infuser.relations.model import AttentionRelations
from infuser.relations.scores import score_relations

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--checkpoint", help="hub id or directory; else a miniature is built")
parser.add_argument("--out", type=Path, help="where the model goes")
given = parser.parse_args()
checkpoint, out = given.checkpoint or miniature.checkpoint(), given.out or miniature.scratch()

PATTERNS = {
    "sold_by": "cheap {other} , {head} for sale in the {tail}",
    "near": "the {tail} lies near {head} , buy {other}",
}
TRIGGERS = {"sold_by": "for sale in", "near": "lies near"}


def made_up(n_texts: int, *, seed: int) -> list[RelationText]:
    """Return texts with one triple each, about products that only this seed has."""
    chance = random.Random(seed)
    texts = []
    for number in range(n_texts):
        head, other = ("".join(chance.choice("bdfgklmn") + chance.choice("aeiou") for _ in range(3)) for _ in range(2))
        relation, tail = list(PATTERNS)[number % 2], chance.choice(miniature.SHOPS)
        text = PATTERNS[relation].format(head=head, tail=tail, other=other)
        spans = {part: Span(text.index(part), text.index(part) + len(part)) for part in (head, tail, other)}
        trigger = TRIGGERS[relation]
        said = Span(text.index(trigger), text.index(trigger) + len(trigger))
        triple = Triple(spans[head], spans[tail], relation, said, relation.replace("_", " "))
        texts.append(RelationText(text, (triple,), tuple(spans.values())))
    return texts


train, dev, test = made_up(200, seed=0), made_up(60, seed=1), made_up(60, seed=2)
names = {text.text[span.start : span.end]: "name" for text in (*train, *dev, *test) for span in text.spans}
sources = [Entities(names)]  # finds the spans of raw text

relations = AttentionRelations(checkpoint).fit(train, dev=dev, spans=sources)
print("learned:", ", ".join(relations.labels_.values()), "and the words", list(relations.triggers_.phrases))

texts = [text.text for text in test]
found = list(extract(relations, texts, sources))
print(texts[0])
for one in found[0]:
    head, tail = (texts[0][span.start : span.end] for span in (one.triple.head, one.triple.tail))
    heads = ", ".join(f"layer {part.layer} head {part.head}" for part in one.heads)
    print(f"  {head!r} {one.triple.label} {tail!r}, probability {one.probability:.2f}, because of {heads}")

scores = score_relations(test, [[one.triple for one in of_text] for of_text in found]).total
print(f"strict F1 {scores.f1:.2f}, precision {scores.precision:.2f}, recall {scores.recall:.2f}")

relations.save(out / "relations")
again = AttentionRelations.load(out / "relations")
print("loaded, it finds the same:", list(extract(again, texts, sources)) == found)
