"""The demo: does a knowledge graph help an encoder with rare words? The main job on an embedded task."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from transformers import AutoTokenizer

from infuser import assets
from infuser.analysis.explain import explain
from infuser.analysis.explanation import Explanation
from infuser.comparing import Comparison, compare
from infuser.experiments.arm import Arm
from infuser.experiments.cell import Cell
from infuser.experiments.data import Data
from infuser.files import write_whole
from infuser.knowledge.correlation.store import CorrelationStore
from infuser.knowledge.counting import Counting
from infuser.knowledge.counting.build import build_correlation
from infuser.knowledge.names.name_rule import STOP_WORDS
from infuser.knowledge.readers.wordnet import read_synsets
from infuser.methods import Kam
from infuser.sources import Correlation, Graph
from infuser.tasks import query_ads
from infuser.training import StepReport, TrainSettings
from infuser.types import Source

LABELS = ("not relevant", "relevant")


@dataclass(frozen=True)
class Demo:
    """The embedded task, its knowledge, and how it is trained."""

    encoder: Path
    task: query_ads.QueryAds
    source: Source
    settings: TrainSettings
    out: Path

    @classmethod
    def prepare(
        cls, out: Path, *, n_pairs: int, epochs: int, correlation: str | None, fetching: assets.Progress | None = None
    ) -> Demo:
        """Fetch the encoder and WordNet and build the task from them."""
        encoder, wordnet = (assets.fetch(name, progress=fetching) for name in ("minilm", "wordnet"))
        tokenizer = AutoTokenizer.from_pretrained(encoder)
        task = query_ads.build_query_ads(
            wordnet, n_train=n_pairs, n_dev=160, n_test=600, max_topics=16, tokenizer_pieces=tokenizer.tokenize
        )
        source: Source
        if correlation is None:
            source = Graph(task.graph.triples, task.graph.aliases)
        else:
            source = Correlation.load(count_glosses(wordnet, out) if correlation == "glosses" else correlation)
        settings = TrainSettings(epochs=epochs, batch_size=16, learning_rate=7e-5)
        return cls(encoder, task, source, settings, out)

    def compare(
        self,
        seeds: int,
        *,
        workers: int | None = None,
        progress: Callable[[Cell, StepReport | None], None] | None = None,
    ) -> Comparison:
        """Train the plain encoder, the infused one and the placebo with several seeds, in up to four processes."""
        n_cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return compare(
            self.encoder,
            Arm(Kam(), [self.source]),
            Data.from_examples(self.task.train, self.task.dev, self.task.test, labels=LABELS),
            seeds=seeds,
            settings=self.settings,
            out=self.out,
            workers=workers or min(n_cores, 4),
            groups=[example["term"] for example in self.task.test],
            progress=progress or (lambda cell, report: None),
        )

    def explain(self, comparison: Comparison) -> list[Explanation]:
        """Explain the three test pairs that knowledge mended most, and the one that it spoilt most."""
        right = np.array([example["label"] for example in self.task.test]) == 1
        plain, kam = (_probabilities(comparison.results[name][0]["predictions"]) for name in ("plain", "kam"))
        towards = np.where(right, kam - plain, plain - kam)
        order = np.argsort(-towards)
        infused = comparison.load("kam")
        explanations = []
        for place in [*order[:3].tolist(), int(order[-1])]:
            text, pair = self.task.test[place]["text"], self.task.test[place]["pair"]
            done = "mended" if towards[place] > 0 else "spoilt"
            title = f"{text} / {pair}: {LABELS[int(right[place])]}, {done} by knowledge"
            explanations.append(replace(explain(infused, text, pair, layer="strongest"), title=title))
        return explanations

    def report(self, comparison: Comparison, explanations: list[Explanation], next_steps: list[str]) -> Path:
        """Write the page of the demo."""
        return comparison.to_html(
            self.out / "report.html",
            title="Infuser demo: query-to-ad relevance with rare words",
            explanations=explanations,
            facts=self._facts(),
            next_steps=next_steps,
            settings={"seeds": len(comparison.results["plain"]), "method": Kam(), "training": self.settings},
        )

    def _facts(self) -> dict[str, str]:
        """Return what the report says about the task, and about the graph only if it is used."""
        if not isinstance(self.source, Correlation):
            return self.task.facts
        about_graph = ("graph", "link")
        kept = {
            name: fact
            for name, fact in self.task.facts.items()
            if not any(word in f"{name} {fact}" for word in about_graph)
        }
        return {**kept, "term correlation": str(self.source.scores)}


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
