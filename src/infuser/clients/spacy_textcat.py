"""A classifier inside a spaCy pipeline: nlp.add_pipe("infuser_textcat", config={"model": "runs/mine/model"}).

doc.cats    the probability of each label; of a model that answers with a number, {"score": number}

spaCy finds the component by itself where infuser is installed. A pipeline that is saved keeps the path of the model,
not the model.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from infuser.analysis.predict import classifies, predict
from infuser.errors import InputError
from infuser.linking.spacy_base import ModelComponent, check_named

from spacy.language import Language  # isort: skip  (behind spacy_base, whose error says how to install it)

if TYPE_CHECKING:
    from infuser.infused import Infused

NAME = "infuser_textcat"


class InfuserTextcat(ModelComponent):
    """Gives documents probabilities of labels; see the top of this file."""

    def __init__(self, model: str | Path | Infused, *, checkpoint: str | None = None) -> None:
        super().__init__(model, checkpoint=checkpoint)
        kind = type(self.infused.model)
        if not classifies(self.infused.model):
            raise InputError(f"{kind.__name__} gives no labels to texts. Train a model that does: infuser train.")

    def read(self, docs: list[Any], batch_size: int) -> None:
        """Write the probability of each label into documents."""
        infused, examples = self.infused, [{"text": doc.text} for doc in docs]
        was_training = infused.model.training
        infused.model.train(False)
        try:
            for doc, answer in zip(
                docs, predict(infused.model, infused.collator(), examples, batch_size=batch_size), strict=True
            ):
                doc.cats.update(answer.get("probabilities") or {"score": answer["score"]})
        finally:
            infused.model.train(was_training)


def make_textcat(nlp: Any, name: str, model: str, checkpoint: str | None = None) -> InfuserTextcat:
    """Make the component from a pipeline's config.

    `model` is a folder that `Infused.save` wrote (RUN/model of `infuser train`). `checkpoint` says where the base
    checkpoint lies, for a model that was saved without it.
    """
    check_named(model, NAME, "classifier")
    return InfuserTextcat(model, checkpoint=checkpoint)


Language.factory(
    NAME,
    default_config={"model": "", "checkpoint": None},
    assigns=["doc.cats"],
    func=make_textcat,
)
