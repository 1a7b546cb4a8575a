"""The rule by which a name that is found in a text is a mention, shared by all sources that look names up."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from infuser.errors import SourceError
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
_LONGEST_ACRONYM = 5


@dataclass(frozen=True, kw_only=True)
class NameRule:
    """Which of the names that stand in a text are mentions."""

    stop_words: Sequence[str] = field(default=STOP_WORDS, repr=False)
    """Names of only these words, of one letter, or of digits and signs are no mentions; "IT" and "The Who" are, where
    list and text both write them so. "mg" does not match "MG" in a text with capitals. An empty list allows all."""
    ignored: Sequence[str] = field(default=(), repr=False)
    """Further names that are no mentions, such as those that `fit` found to mislead; compared as names are."""
    abbreviations: bool = True
    """Whether an abbreviation that a text defines, "myocardial infarction (MI)", is a mention like its long form."""

    def __post_init__(self) -> None:
        for name, example in (("stop_words", "['the', 'of']"), ("ignored", "['mass']")):
            given = getattr(self, name)
            if isinstance(given, str) or not all(isinstance(word, str) for word in given):
                raise SourceError(f"{name} takes a list of words, such as {example}.")
            object.__setattr__(self, name, tuple(given))

    def says_something(self, written: str, *, known_so: bool) -> bool:
        """Return whether a name says more than stop words, a letter, digits or signs do; `known_so`: it is listed so.

        "US" and "The Who" are stop words too: a listed spelling with a capital after its first letter is meant.
        """
        if not self.stop_words:
            return True
        words = [fold(written[start:end]) for start, end in word_borders(written)]
        if not words:
            return any(unicodedata.category(char) == "So" for char in written)  # an emoji may be a name
        if not any(char.isalpha() for word in words for char in word) or (len(words) == 1 and _is_letter(words[0])):
            return False
        if any(word not in self._stop_words for word in words):
            return True
        return known_so and any(char.isupper() for char in written[1:])

    def mistakes_capitals(self, written: str, spellings: Sequence[str]) -> bool:
        """Return whether a short name is listed in capitals only and written without them: "mg" for "MG"."""
        if not self.stop_words or len(written) > _LONGEST_ACRONYM or written.upper() == written:
            return False
        return bool(spellings) and all(name.upper() == name for name in spellings)

    @cached_property
    def _stop_words(self) -> frozenset[str]:
        return frozenset(fold(word) for word in self.stop_words)


def spelling_of(written: str, *, fold_case: bool = False, fold_accents: bool = False) -> str:
    """Return a name with its gaps as single spaces and its words in canonical Unicode, folded on request."""
    pieces = find_pieces(written.strip())
    return "".join(" " if piece.isspace() else fold(piece, case=fold_case, accents=fold_accents) for piece in pieces)


def _is_letter(word: str) -> bool:
    """Return whether a word is one letter of an alphabet with capitals; a Han character is a word."""
    return len(word) == 1 and word.lower() != word.upper()
