"""Inject what is worth it: draw entities by how rare and connected they are, or leave out what the encoder knows.

python examples/selective.py [CHECKPOINT]
"""

from __future__ import annotations

import sys

import miniature

from infuser import Graph, Kam, TrainSettings, infuse, train
from infuser.analysis.select import explain_selection
from infuser.sources import Known, Sampling, Selective
from infuser.sources.entity_statistics import count_entities
from infuser.types import join_pair

checkpoint = sys.argv[1] if len(sys.argv) > 1 else miniature.checkpoint()
examples, known = miniature.query_ads(96, seed=0)
texts = [join_pair(example["text"], example["pair"]) for example in examples]
settings = TrainSettings(epochs=2, batch_size=16, learning_rate=3e-3)

graph = Graph(known)
counts = count_entities([found] for found in graph.annotate(texts))  # or a folder of `infuser annotate`
selective = Selective(graph, Sampling(frequencies=counts, rare=20))

infused = infuse(checkpoint, Kam(), sources=[selective], task="sequence-classification", num_labels=2)
train(infused.model, examples, infused.collator(), settings=settings)  # draws again in every epoch

report = explain_selection(selective, graph.annotate(texts))
for bucket in report.buckets:
    print(f"entities {bucket.name}: {bucket.kept:.0%} kept")
print("frequent ones are dropped more often:", report.buckets[-1].kept < report.buckets[0].kept)

batches = [infused.collator().for_epoch(epoch)(examples[:4]) for epoch in range(4)]
shapes = [int((batch["knowledge_boxes"][..., 0] >= 0).sum()) for batch in batches]
print("every epoch draws its own links:", len(set(shapes)) > 1)

shops = dict.fromkeys(miniature.SHOPS, 0.9)  # as measured by infuser.analysis.probe, or by you
without = Selective(graph, Known(shops)).annotate(texts)
print("what the encoder knows is left out:", not any(span.id in shops for found in without for span in found.spans))
