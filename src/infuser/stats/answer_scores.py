"""Exact match and F1 of short answers, as SQuAD has them: over words, after case, articles and signs are taken away.

An answer is held against each accepted one, and the best counts. Where nothing is left of one of the two, both scores
are 1 if nothing is left of the other, and else 0 (the rule of SQuAD 2).
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_WITHOUT_SIGNS = str.maketrans("", "", string.punctuation)


def normalised(answer: str) -> str:
    """Return an answer in lower case, without ASCII punctuation, articles and white space that is not between words."""
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_WITHOUT_SIGNS)).split())


def exact_match(answer: str, accepted: Sequence[str]) -> float:
    """Return 1 if an answer is one of the accepted ones, else 0."""
    return float(any(normalised(answer) == normalised(one) for one in accepted))


def word_f1(answer: str, accepted: Sequence[str]) -> float:
    """Return the F1 of an answer's words, counted as often as they occur, against the accepted answer it is nearest."""
    given = normalised(answer).split()
    return max((_f1(given, normalised(one).split()) for one in accepted), default=0.0)


def _f1(given: list[str], right: list[str]) -> float:
    if not given or not right:
        return float(given == right)
    # 2 P R / (P + R) of P = shared / given and R = shared / right
    return 2 * (Counter(given) & Counter(right)).total() / (len(given) + len(right))
