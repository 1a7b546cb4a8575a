"""The inputs of an explanation: one text as a model reads it, with its knowledge or without what a method writes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from torch import Tensor

from infuser.analysis.explained import Explained
from infuser.hosts.loading import longest_input
from infuser.infused import Infused
from infuser.methods.together import methods_of, name_of
from infuser.signals import Collator
from infuser.signals.tags import TokenWord
from infuser.types import Annotations, WritesText


def writer_of(infused: Explained) -> str | None:
    """Return the name of the method that writes knowledge behind the text; None if there is none."""
    methods = methods_of(infused.method) if isinstance(infused, Infused) else ()
    return next((name_of(one) for one in methods if isinstance(one, WritesText)), None)


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
) -> tuple[dict[str, Tensor], list[list[TokenWord]]]:
    """Return a batch that holds one text again and again, each time with other annotations; and the words of each row.

    off: methods that are switched off; one that writes knowledge then writes nothing.
    bare: write nothing, and hold what was found as tensors whatever the method.
    """
    options = {**_silence(infused, off, bare=bare), **({"tensors": True} if bare else {})}
    examples = [{"text": text, "pair": pair, "annotations": tuple(row)} for row in rows]
    batch, words = collator_of(infused, **options).with_words(examples)
    return {name: tensor.to(infused.model.device) for name, tensor in batch.items()}, words


def written_behind(infused: Explained, found: Sequence[Annotations], *, off: Collection[str] = ()) -> str:
    """Return what a method writes behind a text in which this was found; "" if none writes anything."""
    (text,) = collator_of(infused, **_silence(infused, off)).written_texts([found])
    return text


def _silence(infused: Explained, off: Collection[str], *, bare: bool = False) -> dict[str, Any]:
    return {"writer": None} if bare or writer_of(infused) in off else {}


def n_shared(one: Tensor, other: Tensor) -> int:
    """Return how many tokens two inputs (seq,) share from the first on."""
    n = min(len(one), len(other))
    differs = (one[:n] != other[:n]).nonzero()
    return int(differs[0]) if len(differs) else n
