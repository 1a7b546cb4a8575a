"""From a saved model to a service: ask it over HTTP, add an entity, ask again; no training, no restart.

python examples/serve.py
"""

from __future__ import annotations

import json
import urllib.request
from typing import Any

import miniature

import infuser
from infuser import Graph, Kam, TrainSettings, infuse, train
from infuser.knowledge.builders import build_graph_from_files
from infuser.serving.infused import InfusedModel
from infuser.serving.server import running

folder = miniature.scratch()
examples, triples = miniature.query_ads(240, seed=0)


def build_graph(*new: tuple[str, str, str]) -> None:
    """Write triples, and build a graph of them, as infuser graph build triples.tsv --out kg does."""
    lines = ("\t".join(triple) + "\n" for triple in (*triples, *new))
    (folder / "triples.tsv").write_text("".join(lines), encoding="utf-8")
    build_graph_from_files(folder / "kg", [folder / "triples.tsv"])


build_graph()
graph = Graph(folder / "kg")
infused = infuse(miniature.checkpoint(), Kam(), sources=[graph], task="sequence-classification", num_labels=2)
settings = TrainSettings(epochs=8, batch_size=16, learning_rate=3e-3)
train(infused.model, examples, infused.collator(), settings=settings, progress=False)
infused.save(folder / "model")


def ask(path: str, body: dict[str, Any]) -> Any:
    """Send JSON to the server and return its answer."""
    request = urllib.request.Request(f"{address}{path}", json.dumps(body).encode())
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


question = {"text": "buy glipizide online", "pair": "pharmacy near me"}

with running(InfusedModel(infuser.load(folder / "model"))) as address:
    [before] = ask("/predict", question)["predictions"]
    build_graph(("glipizide", "sold by", "pharmacy"))
    known = ask("/knowledge/reload", {})["knowledge"]
    [after] = ask("/predict", question)["predictions"]
    [explanation] = ask("/explain", question)["explanations"]

print(f"relevant before: {before['probabilities']['LABEL_1']:.2f}")
print("version of the knowledge:", known["version"])
print(f"relevant after: {after['probabilities']['LABEL_1']:.2f}")
print("found:", ", ".join(span["text"] for span in explanation["found"]["graph"]["spans"]))
print(f"relevant without the graph: {explanation['without_source']['graph']['LABEL_1']:.2f}")
