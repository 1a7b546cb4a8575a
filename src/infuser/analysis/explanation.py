"""What knowledge did to one text: its maps, and one layer's attention without and with them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from infuser.errors import InputError
from infuser.files import from_plain, nan_to_null
from infuser.linking.mentions import Mention
from infuser.types import Annotations

Matrix: TypeAlias = NDArray[np.float64]
Entity: TypeAlias = tuple[int, int, str, float]
"""An entity that a model finds in a text: start, end, type, probability."""

ROUNDING = 1e-6
"""A change of attention that is no larger is none."""
_MOST_NAMED = 6


@dataclass(frozen=True, eq=False)
class Explanation:
    """One text or pair, seen by the chosen layer and head without and with knowledge (n tokens, K term tokens)."""

    words: list[str]
    """Labels of the n tokens, the same on both axes."""
    plain: Matrix
    """Attention without knowledge, (n, n); row reads column."""
    infused: Matrix
    """Attention with knowledge, (n, n)."""
    maps: Mapping[str, Matrix] = field(default_factory=dict)
    """One map per source name, (n, n + K)."""
    terms: list[str] = field(default_factory=list)
    """Labels of the K tokens of auxiliary terms, the last columns of every map."""
    layer: int = 0
    """Which layer the attention is of, counted from 0."""
    head: int | None = None
    """Which head, counted from 0; None is the mean over heads."""
    text: str = ""
    """The text as the user wrote it."""
    pair: str | None = None
    """The other side of a sentence pair."""
    answer_plain: Mapping[str, float] | None = None
    """Probability of each label without knowledge."""
    answer_infused: Mapping[str, float] | None = None
    """Probability of each label with knowledge."""
    answers_without: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Probability of each label with all knowledge but that of one source, by the source's name; and with all methods
    but one, by the method's name, of a model with several."""
    entities_plain: tuple[Entity, ...] | None = None
    """Entities that a tagger finds without knowledge: start, end, type, probability; None for other models."""
    entities_infused: tuple[Entity, ...] | None = None
    """Entities that it finds with knowledge."""
    entities_without: Mapping[str, tuple[Entity, ...]] = field(default_factory=dict)
    """Entities that it finds without one source or method, as in `answers_without`."""
    found: Mapping[str, Annotations] = field(default_factory=dict)
    """What each source found in the text, or in both sides of a pair joined (see `types.join_pair`)."""
    written: str = ""
    """Text that the method appended to the input."""
    off: tuple[str, ...] = ()
    """Sources that found something, perhaps, but were left out: they have no map and no part in the answer. And methods
    that were left out."""
    changes: Matrix | None = None
    """The share of its attention that each head of each layer moves elsewhere, mean over tokens (layers, heads)."""
    runaway: tuple[tuple[int, int, float], ...] = ()
    """Heads that move more than half of the attention of words without knowledge: layer, head, share; most first."""
    gates: Mapping[str, list[float | None]] = field(default_factory=dict)
    """How much of its types each token takes where `Types` adds them, by place ("bottom", "top"): 1 as at the start of
    training, 0 with a shut gate, 2 at most; None for tokens without types."""
    mentions: tuple[Mention, ...] = ()
    """What names may mean, and what a linker inside the encoder made of it."""
    triples: tuple[Mapping[str, Any], ...] | None = None
    """Relations read out of attention, each with the heads that decided, as `relations.extraction` writes them; None
    where no model of relations was asked."""
    title: str = "What knowledge changed"
    """Heading of the picture and the page."""

    def __post_init__(self) -> None:
        n, n_columns = len(self.words), len(self.words) + len(self.terms)
        if n == 0:
            raise InputError("Nothing to explain: the list of words is empty. Give one label per token.")
        object.__setattr__(self, "plain", _checked("attention without knowledge", self.plain, (n, n)))
        object.__setattr__(self, "infused", _checked("attention with knowledge", self.infused, (n, n)))
        maps = {name: _checked(f"map {name!r}", drawn, (n, n_columns)) for name, drawn in self.maps.items()}
        object.__setattr__(self, "maps", maps)
        if self.changes is not None:
            shape = np.shape(self.changes)
            object.__setattr__(self, "changes", _checked("change of each head", self.changes, shape))

    @property
    def difference(self) -> Matrix:
        """Attention with knowledge minus attention without, (n, n)."""
        return self.infused - self.plain

    @property
    def place(self) -> str:
        """Say which layer and head the attention is of."""
        head = "mean over heads" if self.head is None else f"head {self.head}"
        return f"layer {self.layer}, {head} (counted from 0)"

    def largest_changes(self, n_changes: int = 8) -> list[tuple[int, int]]:
        """Return the (row, column) pairs whose attention changed most, largest first; unchanged pairs stay out."""
        change = np.abs(self.difference)
        order = np.argsort(-change, axis=None, kind="stable")[:n_changes]
        cells = [(int(flat) // change.shape[1], int(flat) % change.shape[1]) for flat in order]
        return [(row, column) for row, column in cells if change[row, column] >= 5e-4]

    @property
    def strongest(self) -> tuple[int, int] | None:
        """The layer and head whose attention knowledge changes most; None if changes are not known."""
        if self.changes is None:
            return None
        layer, head = divmod(int(self.changes.argmax()), self.changes.shape[1])
        return layer, head

    @property
    def warning(self) -> str | None:
        """Say which heads run away and what that means; None if none does."""
        if not self.runaway:
            return None
        heads = [f"layer {layer} head {head} ({share:.0%})" for layer, head, share in self.runaway[:_MOST_NAMED]]
        more = len(self.runaway) - len(heads)
        heads += [f"{more} more"] if more else []
        return (
            f"Heads that move more than half of the attention of words without knowledge: {', '.join(heads)}. "
            "They no longer attend as they did after pretraining. If the scores are no better for it, train with "
            "smaller steps (new_learning_rate)."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values; numbers keep six decimals."""
        return {
            "title": self.title,
            "text": self.text,
            "pair": self.pair,
            "layer": self.layer,
            "head": self.head,
            "words": list(self.words),
            "terms": list(self.terms),
            "answer_plain": _plain_numbers(self.answer_plain),
            "answer_infused": _plain_numbers(self.answer_infused),
            "answers_without": {name: _plain_numbers(answer) for name, answer in self.answers_without.items()},
            "entities_plain": _plain_entities(self.entities_plain),
            "entities_infused": _plain_entities(self.entities_infused),
            "entities_without": {name: _plain_entities(found) for name, found in self.entities_without.items()},
            "found": {name: asdict(found) for name, found in self.found.items()},
            "written": self.written,
            "off": list(self.off),
            "changes": None if self.changes is None else self.changes.round(6).tolist(),
            "runaway": [[layer, head, round(share, 6)] for layer, head, share in self.runaway],
            "gates": {
                place: [None if share is None else round(share, 6) for share in shares]
                for place, shares in self.gates.items()
            },
            "mentions": nan_to_null([asdict(mention) for mention in self.mentions]),
            "triples": None if self.triples is None else [dict(triple) for triple in self.triples],
            "maps": {name: drawn.round(6).tolist() for name, drawn in self.maps.items()},
            "plain": self.plain.round(6).tolist(),
            "infused": self.infused.round(6).tolist(),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Explanation:
        """Return the explanation that `to_dict` described."""
        try:
            # a mention that nothing was chosen for has the score minus infinity, for which JSON has no word
            return from_plain(cls, values, null=-math.inf)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InputError(f"Not an explanation: {error}. Give what Explanation.to_dict returned.") from error


def _checked(what: str, values: Matrix, shape: tuple[int, int]) -> Matrix:
    """Return the values as float64, or say what is wrong with them."""
    matrix = np.asarray(values, dtype=np.float64)
    if matrix.shape != shape:
        raise InputError(
            f"The {what} has shape {matrix.shape}, but its words and terms ask for {shape}. "
            "Give one row per word; maps have one more column per auxiliary term."
        )
    if not np.isfinite(matrix).all():
        n_bad = int((~np.isfinite(matrix)).sum())
        raise InputError(f"The {what} holds {n_bad} values that are not finite. Trim padding rows before explaining.")
    return matrix


def _plain_entities(entities: Iterable[Entity] | None) -> list[list[Any]] | None:
    return None if entities is None else [[*one[:3], round(one[3], 6)] for one in entities]


def _plain_numbers(answer: Mapping[str, float] | None) -> dict[str, float] | None:
    return None if answer is None else {str(label): round(float(value), 6) for label, value in answer.items()}
