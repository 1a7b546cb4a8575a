"""The rule by which a stretch of text is a mention; docs/guides/candidates.md describes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

from infuser.errors import InputError, SourceError
from infuser.words import find_pieces, fold, word_borders

STOP_WORDS: tuple[str, ...] = tuple(  # a block of words reads better than a list of 150 strings
    """
    a an the this that these those some any each every both either neither no not such same other another
    i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his himself she her hers
    herself it its itself they them their theirs themselves one who whom whose which what
    and or but nor so yet if then else than as because while although though unless until when where why how
    of in on at by to from for with without about into onto over under between among through during before after
    above below against along across around behind beside beyond near off out up down upon within toward towards via per
    am is are was were be been being do does did doing done have has had having can could may might must shall should
    will would ought
    here there now again ever never also just only very too more most less least much many few own once all
    s t d m ll re ve don didn doesn isn aren wasn weren won wouldn couldn shouldn hasn haven hadn
    """.split()  # noqa: SIM905
)
"""English words that name nothing by themselves."""


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
class MentionRule:
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
    stop_words: Sequence[str] = field(default=STOP_WORDS, repr=False)
    """Stretches of only these words and of signs are no mentions."""

    def __post_init__(self) -> None:
        if self.max_words < 1 or self.n_candidates < 1 or not 0 <= self.spelling < float("inf"):
            raise SourceError(
                f"max_words={self.max_words}, n_candidates={self.n_candidates}, spelling={self.spelling} cannot be "
                "used: max_words and n_candidates must be 1 or more, spelling 0 or more."
            )
        if self.overlaps not in ("keep", "longest"):
            raise SourceError(f"overlaps is {self.overlaps!r}; it can be 'keep' or 'longest'.")
        if isinstance(self.stop_words, str) or not all(isinstance(word, str) for word in self.stop_words):
            raise SourceError("stop_words takes a list of words, such as ['the', 'of'].")
        object.__setattr__(self, "stop_words", tuple(self.stop_words))

    def is_short_enough(self, written: str) -> bool:
        """Return whether this many words may be one mention."""
        return len(written.split()) <= self.max_words

    def says_something(self, written: str, *, known_so: bool) -> bool:
        """Return whether more than stop words and signs is written here; `known_so`: the store has this spelling.

        "US" and "The Who" are stop words too: a known spelling with a capital after its first letter is meant.
        """
        words = [written[start:end] for start, end in word_borders(written)]
        if any(fold(word) not in self._stop_words for word in words):
            return True
        return known_so and bool(words) and any(char.isupper() for char in written[1:])

    def form(self, written: str) -> str:
        """Return what two spellings have in common that are the same under this rule."""
        return spelling_of(written, fold_case=self.fold_case, fold_accents=self.fold_accents)

    @cached_property
    def _stop_words(self) -> frozenset[str]:
        return frozenset(fold(word) for word in self.stop_words)


def spelling_of(written: str, *, fold_case: bool = False, fold_accents: bool = False) -> str:
    """Return a name with its gaps as single spaces and its words in canonical Unicode, folded on request."""
    pieces = find_pieces(written.strip())
    return "".join(" " if piece.isspace() else fold(piece, case=fold_case, accents=fold_accents) for piece in pieces)
