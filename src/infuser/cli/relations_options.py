"""What the commands around relations share: their data, fitted models and the sources of spans."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from infuser.cli.console import loading, skipping, warn
from infuser.cli.options import argument, option
from infuser.errors import InputError
from infuser.words import counted

if TYPE_CHECKING:
    from infuser.relations.candidates import CandidateRule
    from infuser.relations.examples import RelationText
    from infuser.relations.model import AttentionRelations

DATA = "Texts whose relations are known: JSON lines, or a file of T-REx, DocRED, FewRel, SemEval-2010-8."
FittedModel = Annotated[Path, argument("A folder that `infuser relations fit` wrote.", metavar="MODEL")]
EncoderNow = Annotated[str | None, option("Where its encoder lies now.", "--encoder", default="as saved")]


Encoder = Annotated[str, option("A folder (plain, or infused: read with its knowledge), a hub id or an asset.")]


@dataclass(frozen=True, slots=True)
class RelationFormatOptions:
    """How texts with known relations are written."""

    format: Annotated[
        Literal["auto", "jsonl", "trex", "docred", "fewrel", "semeval"],
        option("How relations are written: ours, jsonl, or that of a data set."),
    ] = "auto"
    labels: Annotated[Path | None, option("Names of relations: id<TAB>name, or .json.", metavar="FILE")] = None


@dataclass(frozen=True, slots=True)
class RelationDataOptions(RelationFormatOptions):
    """How texts with known relations are written, and whether documents are cut."""

    sentences: Annotated[
        bool, option("Cut DocRED's documents into sentences; facts that lie in none are left out.", "--sentences")
    ] = False

    def read(self, paths: Sequence[Path]) -> list[RelationText]:
        """Return the texts of all files, at least one of which states a relation; print what was left out."""
        from infuser.relations.readers import read_relation_files

        left_out = Counter[str]()
        how: dict[str, Any] = {"labels": self.labels, "split_sentences": self.sentences}
        with skipping() as skipped:
            texts = read_relation_files(paths, self.format, skipped=skipped, left_out=left_out, **how)
        if left_out:
            warn(f"{counted(left_out.total(), 'fact')} left out: no sentence mentions both entities.")
        return texts


_reading = partial(option, panel="What is read")


@dataclass(frozen=True, slots=True)
class ReadingOptions:
    """What classifiers of relations read, and how freely they fit."""

    relations: Annotated[str | None, option("Only these relations.", metavar="ID,ID,...", default="all")] = None
    features: Annotated[Literal["attention", "embeddings"], _reading("Attention of spans, or their states.")] = (
        "attention"
    )
    pooling: Annotated[Literal["sum", "mean"], _reading("How attention between words becomes one number.")] = "sum"
    pairs: Annotated[bool, _reading("Read head and tail alone, not the words of the relation.", "--pairs")] = False
    strength: Annotated[float, _reading("How freely classifiers may fit (scikit-learn's C).")] = 1.0

    def settings(self) -> dict[str, Any]:
        """Return the same for the library; raise InputError if a number has no meaning."""
        if self.strength <= 0:
            raise InputError(f"--strength {self.strength:g}: give a number above 0.")
        wanted = None if self.relations is None else [id.strip() for id in self.relations.split(",") if id.strip()]
        trigger = False if self.pairs else None
        how = {"kind": self.features, "pooling": self.pooling, "strength": self.strength}
        return {**how, "relations": wanted, "trigger": trigger}


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

        return CandidateRule(*astuple(self))


@dataclass(frozen=True, slots=True)
class FittedOptions:
    """Where a fitted model's encoder lies, and other thresholds."""

    gate: Annotated[
        float | None,
        option("Return triples that are related with more than this.", min=0, max=1, default="the model's"),
    ] = None
    best: Annotated[float | None, option("And a best relation above this.", min=0, max=1, default="the model's")] = None
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
