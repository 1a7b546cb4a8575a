"""The rule by which a stretch of text is a mention; docs/guides/candidates.md describes it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from infuser.errors import InputError, SourceError
from infuser.knowledge.names.name_rule import STOP_WORDS, NameRule, spelling_of


def read_stop_words(given: str | None) -> tuple[str, ...]:
    """Return the words of a file, of the list "english", or none."""
    if given is None:
        return ()
    if given == "english":
        return STOP_WORDS
    try:
        return tuple(Path(given).read_text(encoding="utf-8-sig").split())
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"Stop words cannot be read from {given!r}: {error}. Give a file, or english.") from error


@dataclass(frozen=True, kw_only=True)
class MentionRule(NameRule):
    """Which stretches of a text are mentions, and which of their candidates are kept."""

    max_words: int = 5
    """A mention has at most so many words, here what stands between white space: "U.S." is one."""
    n_candidates: int = 30
    """How many candidates a mention has at most: the most probable ones; their priors are made to sum to 1."""
    fold_case: bool = True
    """Whether "BERN" is a mention of "Bern"."""
    fold_accents: bool = True
    """Whether "Zurich" is a mention of "Zürich"."""
    spelling: float = 10.0
    """All spellings together count like so many further sightings of the very spelling of the text; 0 leaves the other
    spellings out where this one is known."""
    overlaps: Literal["keep", "longest"] = "keep"
    """Keep all mentions, also one inside another, or only the leftmost longest ones."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_words < 1 or self.n_candidates < 1 or not 0 <= self.spelling < float("inf"):
            raise SourceError(
                f"max_words={self.max_words}, n_candidates={self.n_candidates}, spelling={self.spelling} cannot be "
                "used: max_words and n_candidates must be 1 or more, spelling 0 or more."
            )
        if self.overlaps not in ("keep", "longest"):
            raise SourceError(f"overlaps is {self.overlaps!r}; it can be 'keep' or 'longest'.")

    def is_short_enough(self, written: str) -> bool:
        """Return whether this many words may be one mention."""
        return len(written.split()) <= self.max_words

    def form(self, written: str) -> str:
        """Return what two spellings have in common that are the same under this rule."""
        return spelling_of(written, fold_case=self.fold_case, fold_accents=self.fold_accents)
