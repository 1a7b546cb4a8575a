"""Ask sources once, keep what they found on disk, train from there, and see which entities are frequent.

python examples/annotate.py [--checkpoint CHECKPOINT] [--out DIRECTORY]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import miniature

from infuser import Graph, Kam, TrainSettings, infuse, train
from infuser.sources.annotating import Annotated, annotate, read_frequencies

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--checkpoint", help="hub id or directory; else a miniature is built")
parser.add_argument("--out", type=Path, help="where the annotations go")
given = parser.parse_args()
checkpoint, out = given.checkpoint or miniature.checkpoint(), given.out or miniature.scratch()
examples, triples = miniature.query_ads(240, seed=0)
labels = [example["label"] for example in examples]
graph = Graph(triples)

annotate(examples, [graph], out / "notes", cache=out / "cache")

annotated = Annotated(out / "notes")
first = annotated[0]
print(len(annotated), "texts; the first:", first["text"], "|", first["pair"], "with", first["annotations"][0].links)

infused = infuse(checkpoint, Kam(), sources=[graph], task="sequence-classification", num_labels=2)
settings = TrainSettings(epochs=1, batch_size=16, learning_rate=3e-3)
result = train(infused.model, annotated.with_labels(labels), infused.collator(), settings=settings)
print(result.steps, "steps without asking a source")

frequencies = read_frequencies(out / "notes")
often = frequencies.most_frequent(1)[0]
print(f"{often.id!r} is in {often.n_texts} of {frequencies.n_texts} texts; it is looked up: {frequencies[often.id]}")
