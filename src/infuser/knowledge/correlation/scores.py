"""How strongly two words go together, from how often they were seen.

    joint   how often both were seen together: n in the units sentence, document and pair. In windows it is
            n / (2 (window - 1)), and n / (window - 1) for a word with itself: the mean of NLTK's two directed bigram
            counts, each divided by window - 1 as NLTK does
    E       left(x) right(y) / N, how often to expect it if they had nothing to do with each other; N units (words)

    PMI     log2(joint N) - log2(left(x) right(y)), in bits
    PPMI    max(PMI, 0)
    NPMI    PMI / -log2(joint / N), between -1 and 1; 0 where joint = N: a word that is everywhere says nothing

Two settings mend what PMI is known for, high scores of what is rare. `smoothing` k gives log2((joint + k) / (E + k)):
what was seen rarely shrinks towards 0 (k = 1/2 is the information component of Norén et al. 2013). `context_power` a
makes rare words look more frequent in E: each count becomes the geometric mean of itself and of n^a sum(n) / sum(n^a),
sums over the vocabulary. That is the context distribution smoothing of Levy, Goldberg & Dagan 2015 (a = 0.75), for
both words alike so that the score stays symmetric.

In maps a tie weighs its NPMI; or its PMI or PPMI divided by the largest of the table, as in the KAM paper. So weights
lie in (0, 1]; a score that is not positive is no tie.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from infuser.errors import InputError
from infuser.knowledge.counting.settings import Counting

Numbers = NDArray[Any]
SCORES = ("npmi", "pmi", "ppmi")
_ROUNDING = 1e-12  # two logarithms of the same number may differ by as much


@dataclass(frozen=True, slots=True)
class Scoring:
    """Which score is computed from the counts; every field has a default that works."""

    score: Literal["npmi", "pmi", "ppmi"] = "npmi"
    """Normalised, plain or positive pointwise mutual information."""
    smoothing: float = 0.0
    """Added to how often two words were seen together and to how often that was to be expected."""
    context_power: float = 1.0
    """Above 0 and up to 1: below 1, rare words count as if they were more frequent."""
    max_ties: int = 100
    """A word holds its strongest ties, at most so many; two words are tied if either holds the other. 0: all."""

    def __post_init__(self) -> None:
        if self.score not in SCORES:
            raise InputError(f"score is {self.score!r}; it can be {', '.join(SCORES)}.")
        if not (0 <= self.smoothing < float("inf") and 0 < self.context_power <= 1):
            raise InputError(
                f"smoothing={self.smoothing}, context_power={self.context_power} cannot be used: smoothing must be a "
                "number of 0 or more, context_power above 0 and at most 1."
            )
        if self.max_ties < 0:
            raise InputError(f"max_ties={self.max_ties} cannot be used: it must be 0 (all ties) or more.")

    def to_json(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Return the settings that `to_json` returned."""
        return cls(**values)

    def weigh(self, scores: Numbers, largest: float) -> Numbers:
        """Return the weights of ties with these scores, 0 where there is none; `largest` is that of the whole table."""
        scale = 1.0 if self.score == "npmi" else largest
        return np.where(scores > _ROUNDING, scores / (scale or 1.0), 0.0)


class Scorer:
    """Scores pairs of words of one counted corpus."""

    def __init__(self, scoring: Scoring, counting: Counting, left: Numbers, right: Numbers, n_units: int) -> None:
        self._scoring, self._counting = scoring, counting
        self._left, self._right = (_smoothed(side, scoring.context_power) for side in (left, right))
        self._n_units = float(n_units)

    def __call__(self, first: Numbers, second: Numbers, together: Numbers) -> NDArray[np.float64]:
        """Return the scores of pairs: numbers of a left and a right word, and how often they were seen together."""
        joint = together.astype(np.float64)
        if self._counting.unit == "window":
            joint /= (self._counting.window - 1) * np.where(first == second, 1, 2)
        alone = self._left[first] * self._right[second]
        k = self._scoring.smoothing
        if k:
            scores = np.log2((joint + k) / (alone / self._n_units + k))
        else:
            scores = np.log2(joint * self._n_units) - np.log2(alone)  # as NLTK writes it
        if self._scoring.score == "ppmi":
            scores = np.maximum(scores, 0.0)
        elif self._scoring.score == "npmi":
            rarity = -np.log2(joint / self._n_units)
            scores = np.divide(scores, rarity, out=np.zeros_like(scores), where=rarity > _ROUNDING)
            scores = np.clip(scores, -1.0, 1.0)
        return scores


def _smoothed(counts: Numbers, power: float) -> NDArray[np.float64]:
    counts = np.asarray(counts, np.float64)
    if power == 1 or not counts.any():
        return counts
    raised = counts**power
    smoothed: NDArray[np.float64] = np.sqrt(counts * raised * (counts.sum() / raised.sum()))
    return smoothed
