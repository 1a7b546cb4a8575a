"""A tagger inside a spaCy pipeline: nlp.add_pipe("infuser_ner", config={"model": "runs/ner/model"}).

doc.ents                   the entities; one that ends inside a token of spaCy's takes all of it
span._.infuser_probability  of such an entity, None of any other span
doc._.infuser_entities     every entity as `infuser predict` writes it, in the characters that the model found

spaCy finds the component by itself where infuser is installed. A pipeline that is saved keeps the path of the model,
not the model.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from infuser.linking.spacy_base import ModelComponent, check_named
from infuser.tasks.ner import find_in_documents

from spacy.language import Language  # isort: skip  (behind spacy_base, whose error says how to install it)
from spacy.tokens import Doc, Span  # isort: skip
from spacy.util import filter_spans  # isort: skip

if TYPE_CHECKING:
    from infuser.infused import Infused

NAME = "infuser_ner"
_ENTITIES = "infuser_entities"
_PROBABILITY = "infuser_probability"


class InfuserNer(ModelComponent):
    """Finds the entities of documents; see the top of this file."""

    def __init__(
        self, model: str | Path | Infused, *, overwrite_ents: bool = True, checkpoint: str | None = None
    ) -> None:
        super().__init__(model, checkpoint=checkpoint)
        self.overwrite_ents = overwrite_ents
        from infuser.signals.tags import Tags

        Tags.of_model(self.infused.model.config)  # raises if it is no tagger
        if not Doc.has_extension(_ENTITIES):
            Doc.set_extension(_ENTITIES, getter=lambda doc: doc.user_data.get(_ENTITIES, []))
            Span.set_extension(_PROBABILITY, getter=_probability_of)

    def read(self, docs: list[Any], batch_size: int) -> None:
        """Find the entities of documents."""
        infused, examples = self.infused, [{"text": doc.text} for doc in docs]
        found = find_in_documents(infused.model, infused.collator(), examples, batch_size=batch_size)
        for doc, entities in zip(docs, found, strict=True):
            _write(doc, entities, self.overwrite_ents)


def make_ner(nlp: Any, name: str, model: str, overwrite_ents: bool = True, checkpoint: str | None = None) -> InfuserNer:
    """Make the component from a pipeline's config.

    `model` is a folder that `Infused.save` wrote (RUN/model of `infuser train --task ner`). Of entities that the
    document has already, those stay that share no token with a new one; without `overwrite_ents` all stay, and new ones
    are set beside them. `checkpoint` says where the base checkpoint lies, for a model that was saved without it.
    """
    check_named(model, NAME, "ner")
    return InfuserNer(model, overwrite_ents=overwrite_ents, checkpoint=checkpoint)


Language.factory(
    NAME,
    default_config={"model": "", "overwrite_ents": True, "checkpoint": None},
    assigns=["doc.ents", f"doc._.{_ENTITIES}", f"span._.{_PROBABILITY}"],
    func=make_ner,
)


def _write(doc: Any, entities: list[Any], overwrite: bool) -> None:
    """Put the entities where spaCy's users look for them."""
    doc.user_data[_ENTITIES] = [
        {"start": start, "end": end, "label": label, "text": doc.text[start:end], "probability": probability}
        for start, end, label, probability in entities
    ]  # plain values: a document can be saved
    spans = [doc.char_span(start, end, label=label, alignment_mode="expand") for start, end, label, _ in entities]
    new, old = filter_spans(spans), list(doc.ents)  # two of them may have grown into the same token
    doc.ents = _beside(new, old) if overwrite else _beside(old, new)


def _beside(spans: list[Any], others: list[Any]) -> list[Any]:
    """Return spans, and those others that share no token with any of them."""
    taken = {place for span in spans for place in range(span.start, span.end)}
    return [*spans, *(span for span in others if taken.isdisjoint(range(span.start, span.end)))]


def _probability_of(span: Any) -> float | None:
    """Return the probability of the entity that a span was made of."""
    for one in span.doc.user_data.get(_ENTITIES, ()):
        if one["label"] == span.label_ and span.start_char <= one["start"] and one["end"] <= span.end_char:
            return float(one["probability"])
    return None
