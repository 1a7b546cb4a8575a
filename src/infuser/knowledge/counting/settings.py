"""What is counted: which words, and which two of them count as seen together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

from infuser.errors import InputError
from infuser.words import find_words

Unit = Literal["sentence", "document", "window", "pair"]
UNITS = ("sentence", "document", "window", "pair")


@dataclass(frozen=True, slots=True)
class Counting:
    """What is counted in a corpus; every field has a default that works."""

    unit: Unit = "sentence"
    """Two words are seen together in the same sentence, in the same document (a line or a row), within a window of
    words, or as a "pair": one on the left and one on the right side of a row with two texts (a query and an ad)."""
    window: int = 5
    """For unit "window": as many words as one sees at once, so two words are at most window - 1 places apart."""
    min_count: int = 5
    """A word seen in fewer units (windows: fewer times) is left out: what is rare scores high by accident."""
    min_pairs: int = 2
    """Two words seen together less often than this are left out."""
    max_words: int = 200_000
    """At most so many words are kept, the most frequent."""
    stop_words: Sequence[str] = ()
    """Words that are left out whatever their number."""

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise InputError(f"unit is {self.unit!r}; it can be {', '.join(UNITS)}.")
        if self.window < 2 or self.min_count < 1 or self.min_pairs < 1 or not 1 <= self.max_words < 1 << 31:
            raise InputError(
                f"window={self.window}, min_count={self.min_count}, min_pairs={self.min_pairs}, "
                f"max_words={self.max_words} cannot be used: window must be 2 or more, the others 1 or more."
            )
        if isinstance(self.stop_words, str):
            raise InputError(f"stop_words takes a list of words, not one string ({self.stop_words[:40]!r}).")
        folded = {word.folded for given in self.stop_words for word in find_words(given)}
        object.__setattr__(self, "stop_words", tuple(sorted(folded)))

    @property
    def n_sides(self) -> int:
        """How many texts a row of the corpus has."""
        return 2 if self.unit == "pair" else 1

    def to_json(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        return {**asdict(self), "stop_words": list(self.stop_words)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Return the settings that `to_json` returned."""
        return cls(**values)
