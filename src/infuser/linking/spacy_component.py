"""A linker inside a spaCy pipeline: nlp.add_pipe("infuser_linker", config={"model": "runs/linker/model"}).

doc.spans["infuser"]     the linked mentions, as spans with `kb_id_`; their label is the knowledge base's name
doc.ents                 as they were, with the `kb_id_` of a linked mention of the same words
doc._.infuser_mentions   every mention, linked or not, with all candidates and scores

spaCy finds the component by itself where infuser is installed. A pipeline that is saved keeps the path of the model,
not the model.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infuser.linking.mentions import Mention, ScoredCandidate
from infuser.linking.spacy_base import ModelComponent, check_named

from spacy.language import Language  # isort: skip  (behind spacy_base, whose error says how to install it)
from spacy.tokens import Doc, Span  # isort: skip

if TYPE_CHECKING:
    from infuser.infused import Infused

NAME = "infuser_linker"
GROUP = "infuser"
"""Where linked mentions stand in `doc.spans`."""
_MENTIONS = "infuser_mentions"


class InfuserLinker(ModelComponent):
    """Links the mentions of documents; see the top of this file."""

    def __init__(
        self,
        model: str | Path | Infused,
        *,
        base: str | None = None,
        threshold: float | None = None,
        checkpoint: str | None = None,
    ) -> None:
        super().__init__(model, checkpoint=checkpoint)
        self.base, self.threshold = base, threshold
        from infuser.linking.inference import check_linker, check_names

        names = [one.name for one in check_linker(self.infused).values()]
        check_names([] if base is None else [base], names)
        if not Doc.has_extension(_MENTIONS):
            Doc.set_extension(_MENTIONS, getter=_mentions_of)

    def read(self, docs: list[Any], batch_size: int) -> None:
        """Link the mentions of documents."""
        from infuser.linking.inference import iter_mentions

        texts = [doc.text for doc in docs]
        linked = iter_mentions(self.infused, texts, batch_size=batch_size, threshold=self.threshold)
        for doc, mentions in zip(docs, linked, strict=True):
            _write(doc, [one for one in mentions if self.base in (None, one.base)])


def make_linker(
    nlp: Any,
    name: str,
    model: str,
    base: str | None = None,
    threshold: float | None = None,
    checkpoint: str | None = None,
) -> InfuserLinker:
    """Make the component from a pipeline's config.

    `model` is a folder that `Infused.save` wrote (RUN/model of `infuser linker train`). `base` keeps one of several
    knowledge bases, None all of them. `threshold` takes the place of the model's own. `checkpoint` says where the base
    checkpoint lies, for a model that was saved without it.
    """
    check_named(model, NAME, "linker")
    return InfuserLinker(model, base=base, threshold=threshold, checkpoint=checkpoint)


Language.factory(
    NAME,
    default_config={"model": "", "base": None, "threshold": None, "checkpoint": None},
    assigns=["doc.spans", "doc.ents", f"doc._.{_MENTIONS}"],
    func=make_linker,
)


def _write(doc: Any, mentions: list[Mention]) -> None:
    """Put what was linked where spaCy's users look for it."""
    doc.user_data[_MENTIONS] = [asdict(mention) for mention in mentions]  # plain values: a document can be saved
    linked = [mention for mention in mentions if mention.id is not None]
    # a mention that ends inside a token of spaCy's takes all of it
    spans = [doc.char_span(one.start, one.end, label=one.base, kb_id=one.id, alignment_mode="expand") for one in linked]
    doc.spans[GROUP] = spans
    ids = {(span.start, span.end): span.kb_id_ for span in reversed(spans)}  # of two bases the first one's counts
    if ids:
        with_ids = ((ent, ids.get((ent.start, ent.end), ent.kb_id_)) for ent in doc.ents)
        doc.ents = [Span(doc, ent.start, ent.end, ent.label, kb_id=id, span_id=ent.id) for ent, id in with_ids]


def _mentions_of(doc: Any) -> list[Mention]:
    """Return what was found in a document, as `find_mentions` does."""
    return [
        Mention(**{**one, "candidates": tuple(ScoredCandidate(**each) for each in one["candidates"])})
        for one in doc.user_data.get(_MENTIONS, ())
    ]
