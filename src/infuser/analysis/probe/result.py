"""What a probe found out, as plain numbers: which relations can be read from an encoder, and where in it."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from infuser.errors import InputError
from infuser.files import from_plain, nan_to_null, parse_json
from infuser.words import counted

Features = Literal["attention", "embeddings"]
Curve = list[tuple[int, float, float]]
"""(layer, binary accuracy of the gate, macro-F1 of the relations) from this layer alone."""
Importance = list[list[list[float]]]
"""(layers, heads, directions): the mean absolute weight of a standardised feature."""
ProbeVerdict = Literal["knows", "no evidence", "unchecked"]
Change = Literal["more", "less", "no evidence"]


@dataclass(frozen=True)
class ProbeScores:
    """How well both classifiers do on the test triples."""

    binary: float
    """Accuracy of the gate: is it a relation?"""
    accuracy: float
    """Of the relation classifier: which relation? Precision, recall and F1 are its means over relations."""
    precision: float
    recall: float
    f1: float


@dataclass(frozen=True)
class RelationScore:
    """How well one relation is distinguished from all others."""

    relation: str
    """Its id, such as "P36"."""
    label: str
    """Its name, for people."""
    precision: float
    recall: float
    f1: float
    n: int
    """Test triples of this relation."""


@dataclass(frozen=True)
class EncoderReading:
    """What can be read from one encoder."""

    name: str
    features: Features
    scores: ProbeScores
    control: ProbeScores | None = None
    """The same encoder with random weights."""
    shuffled: ProbeScores | None = None
    """The same features with shuffled labels: what classifiers of this size reach without anything to learn."""
    layers: dict[str, Curve] = field(default_factory=dict)
    """"attention" and "embeddings", as far as they were read."""
    importance_gate: Importance = field(default_factory=list)
    importance_relations: Importance = field(default_factory=list)
    directions: tuple[str, ...] = ()
    """Names of the last axis of both importances."""
    relations: tuple[RelationScore, ...] = ()
    confusions: tuple[tuple[str, str, int], ...] = ()
    """(true relation, predicted one, how often); the most frequent first."""
    linkage: tuple[tuple[float, float, float, float], ...] = ()
    """Rows of scipy.cluster.hierarchy.linkage over `linked`: cosine distance between the relations' weights."""
    linked: tuple[str, ...] = ()
    """Relation ids, in the order in which `linkage` counts them."""
    clusters: tuple[tuple[str, ...], ...] = ()
    """Relation ids that belong together in the linkage, one tuple per group."""

    @property
    def n_triples(self) -> int:
        """How many test triples the relation classifier answered."""
        return sum(one.n for one in self.relations)

    @property
    def chance(self) -> ProbeScores:
        """What a coin, and drawing one of the relations, would reach on average."""
        n_relations, n_triples = max(len(self.relations), 1), max(self.n_triples, 1)
        even = 1 / n_relations
        shares = [one.n / n_triples for one in self.relations]
        f1 = sum(2 * share * even / (share + even) for share in shares) / n_relations
        return ProbeScores(binary=0.5, accuracy=even, precision=even, recall=even, f1=f1)

    @property
    def controls(self) -> dict[str, ProbeScores]:
        """The controls that were run, by what they are called."""
        known = {"random weights": self.control, "shuffled labels": self.shuffled}
        return {name: scores for name, scores in known.items() if scores is not None}

    @property
    def verdict(self) -> ProbeVerdict:
        """Whether relations are read better than from every control that was run, beyond what chance would explain."""
        if not self.controls:
            return "unchecked"
        own, best = self.decisive(self.scores), max(map(self.decisive, self.controls.values()))
        return "knows" if own - best > margin(self, own, best) else "no evidence"

    def decisive(self, scores: ProbeScores) -> float:
        """Return the accuracy that verdicts rest on: naming the relation; with one relation only, the gate's."""
        return scores.accuracy if len(self.relations) > 1 else scores.binary

    def label(self, relation: str) -> str:
        """Return the name of a relation; its id where there is none."""
        return next((one.label for one in self.relations if one.relation == relation and one.label), relation)


@dataclass(frozen=True)
class ProbeReport:
    """What `infuser probe` found out."""

    readings: tuple[EncoderReading, ...]
    """One or two; the first is the one compared with."""
    labels: dict[str, str] = field(default_factory=dict)
    """Relation id to its name."""
    notes: tuple[str, ...] = ()
    """What to keep in mind."""
    facts: dict[str, str] = field(default_factory=dict)
    """How it was found out: data, sizes, seed, settings."""
    versions: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.readings) not in (1, 2):
            raise InputError(
                f"A probe report tells of one encoder or compares two, and {len(self.readings)} were given. Write a "
                "report for each pair."
            )

    @property
    def names(self) -> tuple[str, ...]:
        """What the encoders are called, made distinct: two readings of one encoder differ in their features."""
        names = [reading.name for reading in self.readings]
        if len(set(names)) < len(names):
            names = [f"{reading.name}, {reading.features}" for reading in self.readings]
        if len(set(names)) < len(names):
            names = [f"{name} ({number})" for number, name in enumerate(names, start=1)]
        return tuple(names)

    @property
    def change(self) -> Change | None:
        """Whether the second encoder names more relations rightly than the first; None with one encoder."""
        if len(self.readings) < 2:
            return None
        before, after = (reading.decisive(reading.scores) for reading in self.readings)
        if not abs(after - before) > margin(self.readings[1], before, after):
            return "no evidence"
        return "more" if after > before else "less"

    @property
    def gains(self) -> dict[str, float]:
        """F1 of the second encoder minus that of the first by relation id, the largest gain first; {} with one."""
        if len(self.readings) < 2:
            return {}
        first, second = ({one.relation: one.f1 for one in reading.relations} for reading in self.readings)
        both = {relation: second[relation] - f1 for relation, f1 in first.items() if relation in second}
        known = {relation: gain for relation, gain in both.items() if math.isfinite(gain)}
        return dict(sorted(known.items(), key=lambda item: -item[1]))

    @property
    def sentence(self) -> str:
        """The verdict in plain words: what the encoder knows, or which of two knows more."""
        return self.sentences[0] if self.change is None else self._comparison(self.change)

    @property
    def sentences(self) -> tuple[str, ...]:
        """What each encoder knows, beside its controls."""
        return tuple(_knowledge(name, one) for name, one in zip(self.names, self.readings, strict=True))

    def label(self, relation: str) -> str:
        """Return the name of a relation; its id where there is none."""
        named = (reading.label(relation) for reading in self.readings)
        return self.labels.get(relation) or next((name for name in named if name != relation), relation)

    def _comparison(self, change: Change) -> str:
        one, other = self.names
        before, after = (reading.decisive(reading.scores) for reading in self.readings)
        reach = margin(self.readings[1], before, after)
        sure = f"± {100 * reach:.1f} by chance at 95 %" if math.isfinite(reach) else "too few test triples to tell"
        about = (
            f"it is right in {_percent(after)} of the cases against {_percent(before)} ({100 * (after - before):+.1f} "
            f"points, {sure})"
        )
        if change == "no evidence":
            sentence = f"No evidence that {other} knows more or less about these relations than {one}: {about}."
        else:
            sentence = f"{other} knows {change} about these relations than {one}: {about}."
        up = [relation for relation, by in self.gains.items() if by > 0]
        down = [relation for relation, by in reversed(self.gains.items()) if by < 0]
        if not up and not down:
            return sentence
        most = [
            f"most {way}: {self.label(some[0])} {self.gains[some[0]]:+.2f}"
            for way, some in (("gained", up), ("lost", down))
            if some
        ]
        return (
            f"{sentence} It is better on {counted(len(up), 'relation')} and worse on {len(down)} ({'; '.join(most)})."
        )

    def to_json(self) -> str:
        """Return everything as JSON text, the sentence first; a number that is not finite becomes null."""
        content = {
            "sentence": self.sentence,
            "sentences": self.sentences,
            "verdicts": [reading.verdict for reading in self.readings],
            "change": self.change,
            **asdict(self),
        }
        return json.dumps(nan_to_null(content), indent=1, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> ProbeReport:
        """Return the report that `to_json` wrote."""
        try:
            values: dict[str, Any] = parse_json(text)
            for derived in ("sentence", "sentences", "verdicts", "change"):
                del values[derived]
            return from_plain(cls, values)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InputError(f"Not a probe report: {error!r}. Give the text that ProbeReport.to_json wrote.") from error


def margin(reading: EncoderReading, one: float, other: float) -> float:
    """Return by how much two accuracies on the test triples of a reading may differ by chance (Agresti-Caffo, 95 %).

    Both stand for the same triples, so this is a careful limit: it takes them for two independent samples.
    """
    n = reading.n_triples
    if n == 0:
        return math.inf
    shares = [(n * accuracy + 1) / (n + 2) for accuracy in (one, other)]
    spread = math.sqrt(sum(share * (1 - share) for share in shares) / (n + 2))
    return 1.96 * spread * (n + 2) / n


def _knowledge(name: str, reading: EncoderReading) -> str:
    """Say what one encoder knows, beside its controls."""
    several = len(reading.relations) > 1

    def both(scores: ProbeScores) -> str:
        return _percent(scores.binary) + (f" and {_percent(scores.accuracy)}" if several else "")

    beside = [f"{control} {both(of)}" for control, of in {**reading.controls, "chance": reading.chance}.items()]
    sentence = (
        f"From the {reading.features} of {name}, a linear classifier tells real triples from made-up ones in "
        f"{_percent(reading.scores.binary)} of the cases"
    )
    if several:
        relations = counted(len(reading.relations), "relation")
        sentence += f" and names the right one of {relations} in {_percent(reading.scores.accuracy)}"
        beside = [f"macro-F1 {_number(reading.scores.f1)}", *beside]
    controls = {control: reading.decisive(of) for control, of in reading.controls.items()}
    strongest = max(controls, key=controls.__getitem__, default="")
    above = 100 * (reading.decisive(reading.scores) - controls.get(strongest, 0.0))
    meaning: dict[ProbeVerdict, str] = {
        "knows": f"what lies above {strongest}, {above:.1f} points, is not explained by the controls.",
        "no evidence": "no evidence that the encoder knows these relations, for a control does as well.",
        "unchecked": "no control was run, so this does not tell whether the encoder or the classifier knows it.",
    }
    return f"{sentence} ({'; '.join(beside)}): {meaning[reading.verdict]}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %" if math.isfinite(share) else "unknown"


def _number(value: float) -> str:
    return f"{value:.3f}" if math.isfinite(value) else "unknown"
