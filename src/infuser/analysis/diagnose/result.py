"""What a diagnosis found out, as plain numbers: where knowledge helps, where it hurts, and what it changed inside."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from infuser.analysis.explanation import Explanation
from infuser.errors import InputError
from infuser.experiments.arm import PLACEBO
from infuser.files import from_plain, parse_json
from infuser.stats.comparison import ArmStatistics, Difference, Verdict, signed_range
from infuser.stats.intervals import Interval


@dataclass(frozen=True)
class Bucket:
    """The test examples whose rarest entity is about equally frequent."""

    name: str
    """For people: "in 10 to 99 texts", "no entity"."""
    n_examples: int
    values: dict[str, float | None]
    """Arm to its mean score over seeds; None where the metric is undefined, such as AUC of one class."""
    differences: dict[str, Interval | None]
    """Arm to the 95 % bootstrap interval of its difference to the baseline."""


@dataclass(frozen=True)
class Channel:
    """What one source does for the trained model: all sources against all but this one, while answering."""

    name: str
    difference: Difference
    """Score with every source minus score without this one."""


@dataclass(frozen=True)
class Flip:
    """A test example that the baseline and the infused model answer differently in most seeds."""

    text: str
    pair: str | None
    label: str
    """The right one."""
    mended: bool
    """From wrong to right; otherwise from right to wrong."""
    n_seeds: int
    """In how many seeds."""
    before: float
    """Mean probability of the right label without knowledge."""
    after: float
    """The same with it."""


@dataclass(frozen=True)
class Diagnosis:
    """What `infuser diagnose` found out."""

    title: str
    comparison: ArmStatistics | None
    """Baseline first, then the infused arm, the same knowledge as text if there is such an arm, and the placebo; None
    unless baseline, infused arm and placebo are there."""
    metric: str = "score"
    """What all scores are; higher is better."""
    buckets: Sequence[Bucket] = ()
    corruption: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    """Arm to (share of entities taken for others while answering, mean score over seeds)."""
    angles: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    """Layer ("layer 0") to (singular rank as a share of all, cosine of the corresponding angle)."""
    spectra: dict[str, list[float]] = field(default_factory=dict)
    """Training-set size ("infused, 1,000 examples") to the singular values of the test features, largest first."""
    channels: Sequence[Channel] = ()
    flips: Sequence[Flip] = ()
    explanations: Sequence[Explanation] = ()
    """Maps and attention of the clearest flips."""
    notes: Sequence[str] = ()
    """What could not be found out, and what would be needed for it."""
    facts: dict[str, str] = field(default_factory=dict)
    """How it was found out."""
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def verdict(self) -> Verdict | None:
        """What knowledge does; it helps only if it beats both the baseline and the placebo. None: not compared."""
        if self.comparison is None:
            return None
        to_plain, to_placebo = self._differences()
        if to_plain.verdict == "helps" and to_placebo is not None and to_placebo.verdict != "helps":
            return "no evidence"
        return to_plain.verdict

    @property
    def sentence(self) -> str:
        """The one sentence at the top: helps, hurts or no evidence, with the interval."""
        if self.comparison is None:
            return (
                "No verdict: telling whether knowledge helps takes the same training without knowledge and with a "
                "placebo, and at least one of them is missing."
            )
        to_plain, to_placebo = self._differences()
        if self.verdict == to_plain.verdict or to_placebo is None:
            return self.comparison.verdict
        return (
            f"No evidence that it is the knowledge that helps: {to_plain.arm} is {to_plain.mean:.3f} better than "
            f"{to_plain.against} (95 % interval {signed_range(to_plain.over_seeds)} over {len(to_plain.per_seed)} "
            f"seeds), but against the placebo it is {to_placebo.mean:+.3f} ({signed_range(to_placebo.over_seeds)} over "
            f"seeds, {signed_range(to_placebo.over_examples)} over test examples)."
        )

    def clearest(self, *, mended: bool) -> list[Flip]:
        """Return the examples that knowledge mended, or those that it spoilt; the largest change first."""
        chosen = [flip for flip in self.flips if flip.mended is mended]
        return sorted(chosen, key=lambda flip: -abs(flip.after - flip.before))

    def _differences(self) -> tuple[Difference, Difference | None]:
        """Return the infused arm against the baseline and, if it was asked for, against the placebo."""
        assert self.comparison is not None
        first, *others = self.comparison.differences
        return first, next((one for one in others if (one.arm, one.against) == (first.arm, PLACEBO)), None)

    def to_json(self) -> str:
        """Return everything as JSON text, the sentence first."""
        content = {
            "sentence": self.sentence,
            "verdict": self.verdict,
            **asdict(replace(self, explanations=())),
            "explanations": [one.to_dict() for one in self.explanations],
        }
        return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Diagnosis:
        """Return the diagnosis that `to_json` wrote."""
        try:
            read = parse_json(text)
            values: dict[str, Any] = {one.name: read[one.name] for one in fields(cls)}
            explanations = [Explanation.from_dict(one) for one in values.pop("explanations")]
            return replace(from_plain(cls, values), explanations=explanations)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InputError(f"Not a diagnosis: {error!r}. Give the text that Diagnosis.to_json returned.") from error
