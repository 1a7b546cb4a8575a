"""What is written is read back equal: any text, any annotations."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infuser.errors import SourceError
from infuser.sources.annotating import Annotated, annotate
from infuser.sources.annotating.columns import SourceColumn, encode
from infuser.sources.storage import annotate_checked
from infuser.types import Annotations, Candidate, Link, Source, Span, Term, join_pair

PLACES = st.integers(0, 2**31 - 1)
SHARES = st.floats(0, 1)
WORDS = st.text(max_size=8)


def some(*values: st.SearchStrategy) -> st.SearchStrategy:
    return st.lists(st.tuples(*values), max_size=4)


@st.composite
def found(draw: st.DrawFn, text: str) -> Annotations:
    spans = tuple(Span(*values) for values in draw(some(PLACES, PLACES, WORDS, WORDS)))
    links = tuple(Link(*values) for values in draw(some(PLACES, PLACES, SHARES, WORDS)))
    terms = tuple(
        Term(word, tuple(ties), relation) for word, ties, relation in draw(some(WORDS, some(PLACES, SHARES), WORDS))
    )
    choices = draw(st.lists(some(WORDS, SHARES), max_size=4))
    return Annotations(text, spans, links, terms, tuple(tuple(Candidate(*one) for one in choice) for choice in choices))


def joined(row: tuple[str, str | None]) -> str:
    return join_pair(*row)


ROWS = st.lists(st.tuples(st.text(), st.none() | st.text()), min_size=1, max_size=5, unique_by=joined)
Known = tuple[str, str | None, tuple[Annotations, Annotations]]


@st.composite
def known_rows(draw: st.DrawFn) -> list[Known]:
    return [(*row, (draw(found(joined(row))), draw(found(joined(row))))) for row in draw(ROWS)]


@dataclass(frozen=True)
class Told:
    """A source that says what it is told to."""

    answers: dict[str, Annotations]

    def annotate(self, texts: Sequence[str]) -> list[Annotations]:
        return [self.answers[text] for text in texts]

    @classmethod
    def tiny(cls) -> Self:
        return cls({})


@given(known_rows())
@settings(deadline=None, max_examples=60)
def test_what_is_written_is_read_back_equal(
    rows: list[Known],
) -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        sources = [Told({join_pair(text, pair): both[place] for text, pair, both in rows}) for place in (0, 1)]
        written = annotate([{"text": text, "pair": pair} for text, pair, _ in rows], sources, folder / "out")
        read = Annotated(folder / "out")
        assert len(read) == len(written) == len(rows)
        assert [(one["text"], one["pair"], one["annotations"]) for one in read] == rows
    finally:
        shutil.rmtree(folder)


@given(st.lists(st.text().flatmap(found), max_size=8))
@settings(deadline=None, max_examples=60)
def test_a_column_gives_back_its_rows_and_the_same_bytes(answers: list[Annotations]) -> None:
    column = SourceColumn(encode(answers))
    assert [column.read(row, one.text) for row, one in enumerate(answers)] == answers
    assert encode(answers).equals(encode(list(answers)))


@pytest.mark.parametrize(
    "broken",
    [
        Annotations("a", (Span(0, 2**31),)),
        Annotations("a", (Span(0, 1, label="\ud83d"),)),
        Annotations("a", (Span(0, "1"),)),  # type: ignore[arg-type]
        Annotations("a", (Span(0, 1),), (Link(0, 0, "much"),)),  # type: ignore[arg-type]
        Annotations("a", (Span(0, 1, id=None),)),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_written_down_is_an_error_of_the_source(broken: Annotations) -> None:
    with pytest.raises(SourceError, match="cannot be written down"):
        encode([broken])


class _Forgetful:
    def annotate(self, texts: Sequence[str]) -> list[Annotations]:
        return [Annotations(text) for text in texts[1:]]

    @classmethod
    def tiny(cls) -> Self:
        return cls()


class _Confused(_Forgetful):
    def annotate(self, texts: Sequence[str]) -> list[Annotations]:
        return [Annotations(text) for text in reversed(texts)]


@pytest.mark.parametrize(
    ("source", "said"), [(_Forgetful(), "1 answers for 2 texts"), (_Confused(), "when asked about")]
)
def test_a_source_that_breaks_its_contract_is_named(source: Source, said: str) -> None:
    with pytest.raises(SourceError, match=said):
        annotate_checked(source, ["one", "two"])


def test_a_column_written_before_terms_had_relations_is_read_without_them() -> None:
    term = Term("drug", ((0, 1.0),), "type")
    column = encode([Annotations("glipizide", (Span(0, 9),), terms=(term,))])
    listed = column.field("terms")
    fields = {name: listed.values.field(name) for name in ("text", "ties")}
    older = pa.ListArray.from_arrays(listed.offsets, pa.StructArray.from_arrays([*fields.values()], [*fields]))
    names = [field.name for field in column.type]
    columns = [older if name == "terms" else column.field(name) for name in names]
    [read] = SourceColumn(pa.StructArray.from_arrays(columns, names)).read(0, "glipizide").terms
    assert read == Term("drug", ((0, 1.0),), "")
