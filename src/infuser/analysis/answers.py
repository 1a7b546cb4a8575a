"""What a classifier of whole texts answers, in words that people know."""

from __future__ import annotations

from torch import Tensor
from transformers import PreTrainedModel


def classifies(model: PreTrainedModel) -> bool:
    """Tell whether a model gives whole texts labels."""
    return type(model).__name__.endswith("ForSequenceClassification")


def label_names(model: PreTrainedModel) -> list[str]:
    """Return the names of a classifier's labels, or the one name "score" if it answers with a number."""
    if model.config.num_labels == 1:
        return ["score"]
    return [str(name) for _, name in sorted((model.config.id2label or {}).items())]


def probabilities(model: PreTrainedModel, logits: Tensor) -> Tensor:
    """Return what logits (texts, labels) mean: probabilities, or the number itself for a model with one label."""
    if model.config.num_labels == 1:
        return logits.float()
    if model.config.problem_type == "multi_label_classification":
        return logits.float().sigmoid()
    return logits.float().softmax(dim=-1)


def answer(model: PreTrainedModel, logits: Tensor) -> dict[str, float]:
    """Return the probability of each label for the first text of a batch."""
    return dict(zip(label_names(model), probabilities(model, logits)[0].tolist(), strict=True))
