"""What the commands around relations share: their data, fitted models and the sources of spans."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from infuser.cli.console import loading, print_skipped, warn
from infuser.cli.options import argument, option
from infuser.words import counted

if TYPE_CHECKING:
    from infuser.relations.candidates import CandidateRule
    from infuser.relations.examples import RelationText
    from infuser.relations.model import AttentionRelations

DATA = "Texts whose relations are known: JSON lines, or a file of T-REx, DocRED, FewRel, SemEval-2010-8."
FittedModel = Annotated[Path, argument("A folder that `infuser relations fit` wrote.", metavar="MODEL")]
EncoderNow = Annotated[
    str | None, option("Where the encoder that it was fitted on lies now.", "--encoder", default="as saved")
]


@dataclass(frozen=True, slots=True)
class RelationDataOptions:
    """How texts with known relations are written."""

    format: Annotated[
        Literal["auto", "jsonl", "trex", "docred", "fewrel", "semeval"],
        option("How relations are written: ours, jsonl, or that of a data set."),
    ] = "auto"
    labels: Annotated[Path | None, option("Names of relations: id<TAB>name, or .json.", metavar="FILE")] = None
    sentences: Annotated[
        bool, option("Cut DocRED's documents into sentences; facts that lie in none are left out.", "--sentences")
    ] = False

    def read(self, paths: Sequence[Path]) -> list[RelationText]:
        """Return the texts of all files, at least one of which states a relation; print what was left out."""
        from infuser.relations.readers import read_relation_files
        from infuser.tables.skipped import Skipped

        skipped, left_out = Skipped(), Counter[str]()
        texts = read_relation_files(
            paths, self.format, skipped=skipped, labels=self.labels, split_sentences=self.sentences, left_out=left_out
        )
        print_skipped(skipped)
        if left_out:
            warn(f"{counted(left_out.total(), 'fact')} left out: no sentence mentions both entities.")
        return texts


_limit = partial(option, min=1, panel="Which triples of a text are candidates (documents need more than sentences)")


@dataclass(frozen=True, slots=True)
class CandidateOptions:
    """Which triples of a text are candidates."""

    max_spans: Annotated[int, _limit("Spans that are paired, the first ones of a window.")] = 400
    max_pairs: Annotated[int, _limit("Ordered pairs of spans, the nearest ones.")] = 1000
    max_triggers: Annotated[int, _limit("Triggers tried for each pair.")] = 3
    max_distance: Annotated[int, _limit("Words between the two spans of a pair.")] = 60

    def rule(self) -> CandidateRule:
        """Return the same for the library."""
        from infuser.relations.candidates import CandidateRule

        return CandidateRule(self.max_spans, self.max_pairs, self.max_triggers, self.max_distance)


@dataclass(frozen=True, slots=True)
class FittedOptions:
    """Where a fitted model's encoder lies, and other thresholds."""

    gate: Annotated[
        float | None,
        option("Return triples that are related with more than this.", min=0, max=1, default="the model's"),
    ] = None
    best: Annotated[
        float | None, option("And whose best relation has more than this.", min=0, max=1, default="the model's")
    ] = None
    encoder: EncoderNow = None

    def open(self, folder: Path) -> AttentionRelations:
        """Return a fitted model with its encoder on the fastest device."""
        with loading("the model"):
            from infuser.hosts.loading import to_fastest_device
            from infuser.relations.model import AttentionRelations

            model = AttentionRelations.load(folder, encoder=self.encoder)
            to_fastest_device(model.opened().model)
        model.set_thresholds(self.gate, self.best)
        return model
