"""Do classes and roles of entities say anything about their relation that the sentence does not? A linear model.

Logistic regression on ChemProt and DDI: the words of the sentence (one and two in a row, those between the mentions
apart), and beside them, as one feature each, type, classes and roles of the two mentions in the biomedical graph, from
direct ones to all within six edges. If a linear model that sees each class cannot gain, an encoder has little to gain
either. Scores are those of dev rows, with the best of three strengths of regularisation for every set of features.

    python benchmarks/relation_classes.py      # needs shared/data; a few minutes
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from evidence import BENCHES, build_graph
from scipy.sparse import csr_matrix, hstack
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from support.measuring import RESULTS, about, write_result

from infuser.knowledge.graph.store import GraphStore
from infuser.sources import Graph
from infuser.tasks.base import Task
from infuser.tasks.splitting import subset

SIZES = {"chemprot": ("417", "all"), "ddi": ("2000",)}
STRENGTHS = (1.0, 10.0, 100.0)
WEIGHTS = (0.3, 1.0)
"""What a class counts beside a word."""
DEPTHS = {"type": 0, "direct classes and roles": 1, "classes and roles within 2 edges": 2, "within 6 edges": 6}
_UP = {"is_a", "broader", "has_role"}


class Classes:
    """What the graph says about the marked mentions of an example."""

    def __init__(self) -> None:
        folder = build_graph("biomedical")
        self._store, self._source = GraphStore.open(folder), Graph(folder)
        self._above = cache(self._find_above)

    def of(self, examples: Sequence[Mapping[str, Any]]) -> list[list[tuple[str, int]]]:
        """Return the classes of each example with the number of edges that lead to them; 0 for types."""
        found = self._source.annotate([example["text"] for example in examples])
        return [list(self._of_example(example, one)) for example, one in zip(examples, found, strict=True)]

    def _of_example(self, example: Mapping[str, Any], found: Any) -> Iterator[tuple[str, int]]:
        for place, (start, end) in enumerate(example["mentions"]):
            inside = [span for span in found.spans if span.id and start <= span.start and span.end <= end]
            if inside:
                longest = max(inside, key=lambda span: span.end - span.start)
                yield f"type {place} {longest.label}", 0
                yield from self._above(longest.id)

    def _find_above(self, id: str) -> list[tuple[str, int]]:
        distances, front = {id: 0}, [id]
        for distance in range(1, max(DEPTHS.values()) + 1):
            edges = [
                edge
                for one in front
                if (number := self._store.number_of(one)) is not None
                for edge in self._store.edges_of(number)
            ]
            front = [edge.tail for edge in edges if edge.relation in _UP and edge.head in front]
            front = [one for one in dict.fromkeys(front) if one not in distances]
            distances |= dict.fromkeys(front, distance)
        return [(one, distance) for one, distance in distances.items() if distance]


def words(example: Mapping[str, Any]) -> str:
    """Return the words of an example, and once more, marked, those between its two mentions."""
    (_, end), (start, _) = sorted(example["mentions"])[:2]
    between = [f"between_{word}" for word in example["text"][end:start].lower().split()]
    return " ".join([*between, *example["text"].lower().split()])


def best_score(task: Task, features: csr_matrix, labels: list[int], asked: csr_matrix, golds: list[Any]) -> float:
    """Return the best dev score over the strengths of regularisation."""
    scores = []
    for strength in STRENGTHS:
        model = LogisticRegression(C=strength, max_iter=300).fit(features, labels)
        logits = np.full((asked.shape[0], max(labels) + 1), -np.inf)
        logits[:, model.classes_] = model.predict_log_proba(asked)
        scores.append(task.score(golds, logits.tolist())[task.metrics[0]])
    return max(scores)


def measure(name: str, size: str, classes: Classes) -> dict[str, Any]:
    """Return the scores with and without classes."""
    task = BENCHES[name].task()
    train, dev = task.read("train"), task.read("dev")
    few = [
        train[place] for place in subset(len(train), None if size == "all" else int(size), strata=task.strata(train))
    ]
    labels, golds = [example["label"] for example in few], task.golds(dev, few)
    vectorizer = TfidfVectorizer(token_pattern=r"\S+", ngram_range=(1, 2), sublinear_tf=True)
    texts, asked_texts = vectorizer.fit_transform(map(words, few)), vectorizer.transform(map(words, dev))
    known, asked_known = classes.of(few), classes.of(dev)
    scores = {"words": best_score(task, texts, labels, asked_texts, golds)}
    for title, depth in DEPTHS.items():
        counter = CountVectorizer(analyzer=lambda row, most=depth: [one for one, at in row if at <= most], binary=True)
        own, asked_own = counter.fit_transform(known), counter.transform(asked_known)
        scores[f"{title} alone"] = best_score(task, own, labels, asked_own, golds)
        scores[f"words and {title}"] = max(
            best_score(
                task,
                hstack([texts, weight * own]).tocsr(),
                labels,
                hstack([asked_texts, weight * asked_own]).tocsr(),
                golds,
            )
            for weight in WEIGHTS
        )
    n_known = sum(any(distance for _, distance in row) for row in asked_known)
    return {"metric": task.metrics[0], "dev rows": len(dev), "of them with a class": n_known, "scores": scores}


def main() -> None:
    """Measure all and write the result."""
    classes, found = Classes(), dict[str, Any]()
    for name, sizes in SIZES.items():
        for size in sizes:
            found[f"{name}, {size}"] = one = measure(name, size, classes)
            print(f"\n{name}, {size}: {one['metric']}, {one['of them with a class']} of {one['dev rows']} rows known")
            for title, score in one["scores"].items():
                print(f"  {title:50}{score:.3f}", flush=True)
    write_result(RESULTS / "relation_classes.json", {"about": about("scikit-learn"), **found})


if __name__ == "__main__":
    main()
