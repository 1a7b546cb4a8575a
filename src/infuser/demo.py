"""The demo: does a knowledge graph help an encoder with rare words? The main job on an embedded task."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from infuser import assets
from infuser.analysis.explain import explain
from infuser.analysis.explanation import Explanation
from infuser.comparing import Comparison, compare
from infuser.experiments.arm import Arm
from infuser.experiments.cell import Cell
from infuser.experiments.data import Data, can_write
from infuser.files import write_whole
from infuser.hosts.loading import load_tokenizer
from infuser.knowledge.correlation.store import CorrelationStore
from infuser.knowledge.counting import Counting
from infuser.knowledge.counting.build import build_correlation
from infuser.knowledge.names.name_rule import STOP_WORDS
from infuser.knowledge.readers.wordnet import read_synsets
from infuser.methods import Kam, Types
from infuser.sources import Correlation, Graph
from infuser.stats.metrics import get_metric
from infuser.tasks import query_ads
from infuser.training import StepReport, TrainSettings
from infuser.types import Annotations, join_pair

LABELS = ("not relevant", "relevant")


@dataclass(frozen=True)
class Demo:
    """The embedded task, its knowledge, and how it is trained."""

    encoder: Path
    task: query_ads.QueryAds
    arm: Arm
    """The method inside the encoder and its knowledge."""
    settings: TrainSettings
    out: Path

    @classmethod
    def prepare(
        cls, out: Path, *, n_pairs: int, epochs: int, correlation: str | None, fetching: assets.Progress | None = None
    ) -> Demo:
        """Fetch the encoder and WordNet and build the task from them."""
        encoder, wordnet = (assets.fetch(name, progress=fetching) for name in ("minilm", "wordnet"))
        tokenizer = load_tokenizer(str(encoder))
        task = query_ads.build_query_ads(
            wordnet, n_train=n_pairs, n_dev=160, n_test=600, max_topics=16, tokenizer_pieces=tokenizer.tokenize
        )
        if correlation is None:
            graph = Graph(task.graph.triples, task.graph.aliases, n_terms=3)
            arm = Arm(Types(vectors="names"), [graph])
        else:
            folder = count_glosses(wordnet, out) if correlation == "glosses" else correlation
            arm = Arm(Kam(), [Correlation.load(folder)])
        settings = TrainSettings(epochs=epochs, batch_size=16, learning_rate=7e-5)
        return cls(encoder, task, arm, settings, out)

    @property
    def n_arms(self) -> int:
        """How many arms are trained; the text arm only where the sources provide something to write."""
        return 4 if self._writes else 3

    @cached_property
    def _writes(self) -> bool:
        return can_write(self.task.train, self.arm.sources)

    @property
    def rule(self) -> str:
        """What the links reach alone, without an encoder: an ad is relevant if the graph ties it to the query."""
        found = self.arm.sources[0].annotate([join_pair(one["text"], one["pair"]) for one in self.task.test])
        linked = [_ties_sides(one, len(pair["text"])) for one, pair in zip(found, self.task.test, strict=True)]
        labels = np.array([example["label"] for example in self.task.test])
        logits = np.array([[0.0, weight] for weight in linked])
        return f"The links alone, without an encoder: AUC {get_metric('auc')(logits, labels):.3f}."

    def compare(
        self,
        seeds: int,
        *,
        workers: int | None = None,
        progress: Callable[[Cell, StepReport | None], None] | None = None,
    ) -> Comparison:
        """Train the plain encoder and every other arm with several seeds, in up to four processes."""
        n_cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return compare(
            self.encoder,
            self.arm,
            Data.from_examples(self.task.train, self.task.dev, self.task.test, labels=LABELS),
            seeds=seeds,
            settings=self.settings,
            text=self._writes,
            out=self.out,
            workers=workers or min(n_cores, 4),
            groups=[example["term"] for example in self.task.test],
            progress=progress or (lambda cell, report: None),
        )

    def explain(self, comparison: Comparison) -> list[Explanation]:
        """Explain the three test pairs that gain most from knowledge, and the one that loses most.

        Two trained models are compared, so the titles give the answers of both; the pages below them show what the
        infused model says with its method switched off.
        """
        right = np.array([example["label"] for example in self.task.test]) == 1
        plain, infused = (
            _probabilities(comparison.results[name][0]["predictions"]) for name in ("plain", self.arm.name)
        )
        towards = np.where(right, infused - plain, plain - infused)
        order = np.argsort(-towards)
        model = comparison.load(self.arm.name)
        explanations = []
        for place in [*order[:3].tolist(), int(order[-1])]:
            text, pair = self.task.test[place]["text"], self.task.test[place]["pair"]
            sure = [float(one[place] if right[place] else 1 - one[place]) for one in (plain, infused)]
            title = (
                f"{text} / {pair}: {LABELS[int(right[place])]}, which the plain arm gives {sure[0]:.2f} and "
                f"{self.arm.name} {sure[1]:.2f}"
            )
            explanations.append(replace(explain(model, text, pair, layer="strongest"), title=title))
        return explanations

    def report(self, comparison: Comparison, explanations: list[Explanation], next_steps: list[str]) -> Path:
        """Write the page of the demo."""
        return comparison.to_html(
            self.out / "report.html",
            title="Infuser demo: query-to-ad relevance with rare words",
            explanations=explanations,
            facts=self._facts(),
            next_steps=next_steps,
            settings={"seeds": len(comparison.results["plain"]), "method": self.arm.method, "training": self.settings},
        )

    def _facts(self) -> dict[str, str]:
        """Return what the report says about the task, and about the graph only if it is used."""
        if isinstance(self.arm.sources[0], Graph):
            return {**self.task.facts, "without an encoder": self.rule}
        about_graph = ("graph", "link")
        kept = {
            name: fact
            for name, fact in self.task.facts.items()
            if not any(word in f"{name} {fact}" for word in about_graph)
        }
        return {**kept, "term correlation": str(getattr(self.arm.sources[0], "scores", ""))}


def _ties_sides(found: Annotations, n_query: int) -> float:
    """Return the weight of the strongest link between the two sides of a pair; 0 if there is none."""
    sides = [span.start >= n_query for span in found.spans]
    return max((link.weight for link in found.links if sides[link.source] != sides[link.target]), default=0.0)


def count_glosses(wordnet: Path, out: Path) -> Path:
    """Count which words co-occur in WordNet's glosses, each with the words that it explains; return the folder."""
    synsets = [synset for part in "nvar" for synset in read_synsets(wordnet, part).values()]
    lines = [f"{', '.join(synset.lemmas)}: {synset.gloss}\n" for synset in synsets]
    corpus = write_whole(out / "glosses.txt", "".join(lines))
    # a rare word is explained once, so what was seen once must count
    counting = Counting(unit="document", min_count=1, min_pairs=1, stop_words=STOP_WORDS)
    store: CorrelationStore = build_correlation([corpus], out / "correlation", counting)
    assert store.n_words
    return out / "correlation"


def _probabilities(logits: list[list[float]]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the probability of the second class."""
    scores = np.asarray(logits)
    return np.asarray(1 / (1 + np.exp(scores[:, 0] - scores[:, 1])))
