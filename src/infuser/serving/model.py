"""What can be served, and models by name."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

from infuser.experiments.run_folder import find_model
from infuser.runtime.card import CARD as EXPORT_CARD
from infuser.runtime.card import is_export
from infuser.sources.storage import CARD, read_saved_sources
from infuser.types import Source

PREDICT, ANNOTATE, EXPLAIN, LINK = TASKS = ("predict", "annotate", "explain", "link")
ANSWERS = {PREDICT: "predictions", ANNOTATE: "annotations", EXPLAIN: "explanations", LINK: "links"}
"""How the answers of each task are called."""

NO_CHOICES = (
    "This model chooses between texts (multiple choice), and the server has no form for such questions. Ask it in "
    "Python: infused.export(DIR), then infuser.runtime.load(DIR).predict(texts, pairs) with lists as texts or pairs."
)
"""Why a model of multiple choice is not served."""


@dataclass(frozen=True, slots=True)
class Question:
    """One text, or a pair, that a client asks about."""

    text: str
    pair: str | None = None

    @property
    def size(self) -> int:
        """How many characters are read."""
        return len(self.text) + len(self.pair or "")


class ServedModel(Protocol):
    """A model behind a server; each of its verbs returns plain JSON values, one object per question, in order.

    One thread at a time calls `predict`, `explain` and `link`; `with_sources` and `annotate` of what it returns may be
    called beside them, so that new knowledge is opened while the model answers.
    """

    @property
    def sources(self) -> tuple[Source, ...]: ...
    @property
    def tasks(self) -> Collection[str]:
        """Which of `TASKS` this model can do."""
        ...

    def about(self) -> dict[str, Any]:
        """Return what people want to know first: the kind of model, its method and labels."""
        ...

    def predict(self, questions: Sequence[Question]) -> list[dict[str, Any]]: ...
    def annotate(self, questions: Sequence[Question]) -> list[dict[str, Any]]: ...
    def explain(self, questions: Sequence[Question], off: Collection[str] = ()) -> list[dict[str, Any]]: ...
    def link(self, questions: Sequence[Question]) -> list[dict[str, Any]]: ...
    def with_sources(self, sources: Sequence[Source]) -> Self: ...


def saved_sources(name: str, *, rebuilt: bool = False) -> list[Source]:
    """Return the sources saved with a model, without loading the model; none for a plain checkpoint.

    rebuilt: open their folders as they are now, also those that were built again since the model was saved.
    """
    folder = Path(find_model(name))
    for card in (EXPORT_CARD, CARD):
        if (folder / card).is_file():
            return read_saved_sources(folder, card, rebuilt=rebuilt)
    return []


def open_model(name: str, sources: Sequence[Source], *, threads: int | None = None) -> ServedModel:
    """Return a model by name, ready to answer with these sources; of an exported one, with so many threads."""
    folder = find_model(name)
    if is_export(folder):
        from infuser.runtime import load
        from infuser.serving.exported import ServedExport

        return ServedExport(load(folder, sources=sources, threads=threads))
    from infuser.serving.infused import open_infused_model  # not above: it loads torch

    return open_infused_model(folder, sources)
