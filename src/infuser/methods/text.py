"""Text: the same knowledge written behind the text, the plain rival of every method inside the encoder.

    buy glipizide [SEP] glipizide: drug; treats diabetes

For every mention, in the order of the text: what it is (its type), then the terms that its source offers, with their
relations. No new weights; the price is a longer input.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from transformers import PreTrainedModel

from infuser.errors import InputError
from infuser.hosts import BatchKnowledge, add_reader, remove_reader
from infuser.hosts.calls import GraphInputs
from infuser.registry import METHODS
from infuser.signals.writing import write_lines
from infuser.types import Annotations, Source, Vocabulary


class WrittenReader:
    """Adds nothing to a call: the knowledge is part of the input tokens."""

    always_on = (
        "The method 'text' cannot be switched off in a call: what it wrote is part of the tokens. Make the batch "
        "without it: infused.collator(writer=None)."
    )

    def __call__(self, base: PreTrainedModel, batch: BatchKnowledge) -> None:
        """Return no part of a call."""

    def graph_inputs(self, base: PreTrainedModel) -> GraphInputs:
        """Return no tensors."""
        return {}


@METHODS.register("text")
@dataclass(frozen=True, slots=True)
class Text:
    """Settings of the method; every field has a default that works."""

    share: float = 0.25
    """How much of the longest input knowledge may take; what exceeds it is left out, later mentions first."""

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise InputError(f"Text(share={self.share!r}) must lie between 0 and 1.")

    def attach(self, host: PreTrainedModel, *, sources: Sequence[Source], vocabulary: Vocabulary) -> None:
        """Register a reader that rejects `knowledge_off='text'`; the collator does the writing."""
        add_reader(host, "text", WrittenReader())

    def detach(self, host: PreTrainedModel) -> None:
        """Take the reader out again."""
        remove_reader(host, "text")

    def write(self, annotations: Sequence[Annotations]) -> list[str]:
        """Return what is known about each mention of a text, one line per mention that something is known about."""
        return write_lines(annotations)
