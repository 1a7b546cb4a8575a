"""What the components of spaCy pipelines have in common: a model that is kept by its folder, and reading in batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infuser.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from infuser.infused import Infused

try:
    import spacy  # noqa: F401
except ImportError as error:
    raise MissingExtraError(
        f"A spaCy component of infuser needs spacy, which cannot be imported ({error}): pip install 'infuser[spacy]'."
    ) from error


class ModelComponent:
    """A component that writes into documents what an infused model says about their texts.

    A pipeline that is saved keeps the path of the model, not the model.
    """

    def __init__(self, model: str | Path | Infused, *, checkpoint: str | None = None) -> None:
        self.model, self.checkpoint = model, checkpoint
        self._loaded: Infused | None = None

    @property
    def infused(self) -> Infused:
        """The model, read from its folder when it is first needed."""
        if self._loaded is None:
            from infuser.infused import Infused, load

            given = self.model
            self._loaded = given if isinstance(given, Infused) else load(given, base=self.checkpoint)
        return self._loaded

    def read(self, docs: list[Any], batch_size: int) -> None:
        """Write into each document what the model says about it."""
        raise NotImplementedError

    def __call__(self, doc: Any) -> Any:
        """Return a document with what the model says about it."""
        self.read([doc], 1)
        return doc

    def pipe(self, stream: Iterable[Any], *, batch_size: int = 32) -> Iterator[Any]:
        """Yield documents with what the model says about them; so many are read by the encoder at once."""
        docs_left = iter(stream)
        while docs := list(islice(docs_left, batch_size)):
            self.read(docs, batch_size)
            yield from docs

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_loaded": None}  # another process reads the folder itself


def check_named(model: str, component: str, what: str) -> None:
    """Raise if the config of a component names no model."""
    if not model:
        raise InputError(
            f'Say which {what} is meant: nlp.add_pipe("{component}", config={{"model": "runs/{what}/model"}}).'
        )
