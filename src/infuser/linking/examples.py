"""Texts whose links are known, and the examples that a linker learns from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from infuser.errors import InputError
from infuser.types import Annotations, Source, Span
from infuser.words import counted

if TYPE_CHECKING:
    from infuser.sources import KnowledgeBase

NOTHING = ""
"""Stands for a gold entity where a span means none of its candidates."""


@dataclass(frozen=True, slots=True)
class LinkedText:
    """A text and the entities that its mentions mean."""

    text: str
    spans: tuple[Span, ...] = ()
    """The gold mentions; `Span.id` is the entity."""
    labelled: tuple[int, int] | None = None
    """The characters in which every mention is given; None for the whole text."""
    name: str = ""
    """Of the document, for people."""

    @property
    def region(self) -> tuple[int, int]:
        """The characters in which every mention is given."""
        return self.labelled or (0, len(self.text))


def link_examples(texts: Sequence[LinkedText], bases: Mapping[str, Source]) -> list[dict[str, Any]]:
    """Return examples for the collator: texts, what each knowledge base found in them, and what is right there.

    `gold` of an example has for each knowledge base, by name, one entry per span that the base found: the entity that
    it means, NOTHING where it means none of its candidates, None where it is unknown.
    """
    found = {name: base.annotate([one.text for one in texts]) for name, base in bases.items()}
    meant = {span.id for one in texts for span in one.spans}
    speaks = {  # where a base has none of the texts' entities, what its spans mean is unknown
        name: not meant or any(candidate.id in meant for of in of_base for span in of.candidates for candidate in span)
        for name, of_base in found.items()
    }
    return [
        {
            "text": one.text,
            "annotations": tuple(of_base[i] for of_base in found.values()),
            "gold": {
                name: gold_of(one, of_base[i]) if speaks[name] else (None,) * len(of_base[i].spans)
                for name, of_base in found.items()
            },
        }
        for i, one in enumerate(texts)
    ]


def gold_of(linked: LinkedText, found: Annotations) -> tuple[str | None, ...]:
    """Return for each span that was found what it means, as `link_examples` explains."""
    # where a span has two right entities the first is the better one
    meant = {(span.start, span.end): span.id for span in reversed(linked.spans)}
    first, last = linked.region
    return tuple(
        meant.get((span.start, span.end), NOTHING) if first <= span.start and span.end <= last else None
        for span in found.spans
    )


def check_entities(texts: Sequence[LinkedText], base: KnowledgeBase, named: str) -> None:
    """Raise if the knowledge base has none of the entities in texts, `named` after their files: ids of another kind."""
    ids = list(dict.fromkeys(span.id for one in texts for span in one.spans))
    if not ids:
        raise InputError(f"None of the {counted(len(texts), 'text')} in {named} says which entity a mention means.")
    if not (base.store.rows(ids) >= 0).any():
        raise InputError(
            f"None of the {counted(len(ids), 'entity', 'entities')} in {named} is in the knowledge base {base.name!r}: "
            f"they are called such as {ids[0]!r}, its own such as {base.store.id_of(0)!r}. Name entities by the same "
            "ids in both."
        )


def check_offered(examples: Sequence[dict[str, Any]], texts: Sequence[LinkedText], base: KnowledgeBase) -> None:
    """Raise if no right entity is among the candidates of its mention: a linker would learn to link nothing."""
    found = [example["annotations"][0] for example in examples]
    check_found(sum(len(one.spans) for one in found), len(texts), base)
    is_offered = (
        any(candidate.id == meant for candidate in candidates)
        for example, one in zip(examples, found, strict=True)
        for meant, candidates in zip(example["gold"][base.name], one.candidates, strict=True)
    )
    if not any(is_offered):
        linked = next(one for one in texts if one.spans)
        span = linked.spans[0]
        raise InputError(
            f"The knowledge base {base.name!r} offers the right entity for none of the mentions in these texts; the "
            f"first is {linked.text[span.start : span.end]!r}, which means {span.id!r}. See what it offers: infuser "
            "candidates lookup DIR --text TEXT"
        )


def check_found(n_mentions: int, n_texts: int, base: KnowledgeBase) -> None:
    """Raise if a knowledge base finds no mention in texts."""
    if not n_mentions:
        raise InputError(
            f"The knowledge base {base.name!r} finds no mention in any of {counted(n_texts, 'text')}. Are names "
            "spelled as in them? See what it knows: infuser candidates lookup DIR NAME"
        )
