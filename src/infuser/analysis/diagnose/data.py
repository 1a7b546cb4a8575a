"""What the models of a diagnosis are tested with: annotated examples, how frequent entities are, the metric."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from infuser.analysis.diagnose.runs import Arms
from infuser.errors import InputError
from infuser.experiments.data import PART_SEEDS, annotate_part
from infuser.infused import load
from infuser.sources.entity_statistics import count_entities, read_counts
from infuser.sources.selective import Selective, bare
from infuser.stats.metrics import Metric, get_metric
from infuser.tables.examples import number_labels, read_all_examples
from infuser.types import Annotations, Source

Coverage = Callable[[str, list[Source], Sequence[tuple[Annotations, ...]]], None]
"""Called with the name of a part ("test"), the sources, and what they found in each of its texts."""


@dataclass(frozen=True)
class DiagnosisData:
    """What every model is asked, and how its answers are scored."""

    test: list[dict[str, Any]]
    """Test examples with what the sources found in them."""
    train: list[dict[str, Any]]
    """The training examples of the first run, likewise."""
    labels: list[str]
    metric: Metric
    entities: Sequence[Sequence[Annotations]]
    """What the sources found in the test examples before any selection; entities that were left out count, too."""
    frequencies: Mapping[str, int]
    """In how many texts each entity occurs."""
    shuffling: int
    """Seed with which the placebo's knowledge is shuffled."""

    @property
    def truth(self) -> NDArray[np.int64]:
        """The number of the right label of each test example."""
        return np.array([example["label"] for example in self.test])

    def score(self, answers: NDArray[np.float64]) -> float:
        """Return the metric of one model's probabilities (examples, classes)."""
        return self.metric(logits_of(answers), self.truth)


def logits_of(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the logarithms of probabilities; 0 becomes a large negative number."""
    return np.log(np.maximum(probabilities, 1e-300))


def read_data(
    arms: Arms,
    path: Path | None,
    frequencies: Path | None,
    *,
    cache: Path | None = None,
    coverage: Coverage | None = None,
) -> DiagnosisData:
    """Read test examples from a table, or take the dev examples (None), and annotate them with the first run's sources.

    Entities are counted in the training texts, or read from a folder of `infuser annotate`.
    """
    run = arms.first.again().data
    if path is None and not arms.same_dev():
        raise InputError(
            "These runs have no dev file, and each held out another tenth of its training examples (as infuser did "
            "before it had a data seed), so there are no test examples that none of them was trained on. Give some "
            "with --data FILE."
        )
    test = run.dev if path is None else number_labels(read_all_examples(path, arms.first.columns), run.labels)
    metric = get_metric(arms.first.made_with["metric"])
    metric.check_labels([example["label"] for example in test])

    def annotated(sources: Sequence[Source]) -> list[list[dict[str, Any]]]:
        return [annotate_part(part, sources, cache, progress=None) for part in (test, run.train)]

    sources = list(load(arms.first.run.model).sources)
    known, train = annotated(sources)
    if coverage is not None:
        coverage("test", sources, [example["annotations"] for example in known])
    everything, counted_in = known, train
    if any(isinstance(source, Selective) for source in sources):
        everything, counted_in = annotated([bare(source) for source in sources])
    counts: Mapping[str, int]
    if frequencies is None:
        counts = count_entities(example["annotations"] for example in counted_in)
    else:
        counts = read_counts(frequencies)
    # the placebo's weights were chosen on dev examples that were shuffled like this
    shuffling = PART_SEEDS["dev" if path is None else "test"]
    entities = [example["annotations"] for example in everything]
    return DiagnosisData(known, train, run.labels, metric, entities, counts, shuffling)
