"""The inputs of an explanation: one text as a model reads it, with its knowledge or without what a method writes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from infuser.analysis.explained import Explained
from infuser.hosts.loading import longest_input
from infuser.infused import Infused
from infuser.methods.together import methods_of, name_of
from infuser.signals import Collator
from infuser.signals.tags import TokenWord
from infuser.types import Annotations, WritesText


@dataclass(frozen=True, slots=True)
class TextBatch:
    """One text again and again, each time with other annotations."""

    tensors: dict[str, Tensor]
    words: list[list[TokenWord]]
    """The words of each row."""
    written: list[str]
    """What a method wrote behind each row; "" where nothing was written."""
    options: dict[str, Any]
    """Options of the call that switch methods off."""

    @property
    def ids(self) -> Tensor:
        """The token ids of the first row, (seq,)."""
        return self.tensors["input_ids"][0]


def collator_of(infused: Explained, **options: Any) -> Collator:
    """Return the collator of a model, for texts as long as it can read."""
    longest = longest_input(infused.model, infused.tokenizer)
    if isinstance(infused, Infused):
        return infused.collator(max_length=longest, **options)
    return Collator(infused.tokenizer, infused.sources, max_length=longest)


def batch_of(
    infused: Explained,
    text: str,
    pair: str | None,
    rows: Sequence[Sequence[Annotations]],
    *,
    off: Collection[str] = (),
    bare: bool = False,
) -> TextBatch:
    """Return a batch that holds one text again and again, each time with other annotations.

    off: methods that are switched off: one that writes knowledge writes nothing, others are left out of the call.
    bare: write nothing, and hold what was found as tensors whatever the method.
    """
    methods = methods_of(infused.method) if isinstance(infused, Infused) else ()
    writers = {name_of(one) for one in methods if isinstance(one, WritesText)}
    in_call = [name for name in off if name not in writers]
    silence = {"writer": None} if bare or writers.intersection(off) else {}
    collator = collator_of(infused, **silence, **({"tensors": True} if bare else {}))
    batch, words = collator.with_words([{"text": text, "pair": pair, "annotations": tuple(row)} for row in rows])
    return TextBatch(
        {name: tensor.to(infused.model.device) for name, tensor in batch.items()},
        words,
        collator.written_texts(rows),
        {"knowledge_off": in_call} if in_call else {},
    )


def n_shared(one: Tensor, other: Tensor) -> int:
    """Return how many tokens two inputs (seq,) share from the first on."""
    n = min(len(one), len(other))
    differs = (one[:n] != other[:n]).nonzero()
    return int(differs[0]) if len(differs) else n
