"""What sources find, as JSON values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from infuser.serving.model import Question
from infuser.sources.naming import source_names
from infuser.sources.storage import annotate_checked
from infuser.types import Annotations, Source, join_pair


def find(sources: Sequence[Source], questions: Sequence[Question]) -> list[tuple[Annotations, ...]]:
    """Return what each source finds in each text or pair."""
    joined = [join_pair(one.text, one.pair) for one in questions]
    return list(zip(*(annotate_checked(source, joined) for source in sources), strict=True))


def described(sources: Sequence[Source], found: Sequence[Annotations]) -> dict[str, Any]:
    """Return what was found in one text, by source; spans with the words that they stand for."""
    return {name: _plain(of_text) for name, of_text in zip(source_names(sources), found, strict=True)}


def described_by_name(found: Mapping[str, Annotations]) -> dict[str, Any]:
    """Return the same of annotations that have their source's name."""
    return {name: _plain(of_text) for name, of_text in found.items()}


def _plain(found: Annotations) -> dict[str, Any]:
    return {
        "spans": [asdict(span) | {"text": found.text[span.start : span.end]} for span in found.spans],
        "links": [asdict(link) for link in found.links],
        "terms": [asdict(term) for term in found.terms],
        "candidates": [[asdict(one) for one in of_span] for of_span in found.candidates],
    }
