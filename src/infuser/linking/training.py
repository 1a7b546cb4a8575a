"""The stages in which a linker learns: alone (1), together with the encoder (2); then the task itself (3).

    1  linkers only, everything else frozen, rate 1e-3       train_linker
    2  masked words, next sentence and linking together, entity vectors frozen, 1e-4 new weights, 2e-5 host    pretrain
    3  the task                                               infuser.train

Each can be stopped and called again: with `out` it resumes from its last checkpoint.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel

from infuser.errors import InputError
from infuser.hosts import plain_state
from infuser.infused import Infused
from infuser.linking.inference import check_linker, check_names
from infuser.linking.masking import Masking, MaskingCollator
from infuser.linking.objective import FrozenStates, LinkerAlone, LinkingObjective, LinkLoss
from infuser.methods.kar import Kar, invert
from infuser.saving import digest
from infuser.signals.candidates import bases_among
from infuser.training import TrainResult, TrainSettings, train
from infuser.training.steps import Example, StepReport

LINKER = TrainSettings(epochs=3, batch_size=32, learning_rate=1e-3, new_learning_rate=1e-3, warmup=0.1)
"""Stage 1."""
JOINT = TrainSettings(epochs=1, batch_size=32, learning_rate=2e-5, new_learning_rate=1e-4, warmup=0.1)
"""Stage 2."""
Progress = bool | Callable[[StepReport], None]


def train_linker(
    infused: Infused,
    examples: Sequence[Example],
    *,
    names: Sequence[str] | None = None,
    loss: LinkLoss = "margin",
    settings: TrainSettings = LINKER,
    out: Path | None = None,
    progress: Progress = True,
) -> dict[str, TrainResult]:
    """Teach the linkers of an infused model what mentions mean, and nothing else: stage 1.

    Examples come from `link_examples` (labelled texts) or `UnambiguousTexts` (any texts). `names` are the knowledge
    bases whose linkers learn; None is all. They learn one after the other, from the lowest block to the highest.
    """
    names = _names(infused, names)
    _check_gold(examples, names, loss)
    kars: Any = infused.model.base_model.knowledge
    results = {}
    for name in sorted(names, key=lambda name: kars[name].layer):
        place = None if out is None else out / name
        states = FrozenStates(infused, name, examples, folder=place, progress=bool(progress))
        objective = LinkerAlone(infused, name, loss=loss)
        made_with = _made_with(infused, examples, [name], loss)
        try:
            results[name] = train(
                objective,
                states.examples,
                states.collate,
                settings=settings,
                out=place,
                progress=progress,
                made_with=made_with,
            )
        finally:
            infused.model.train(False)
        if isinstance(infused.method, Kar) and infused.method.start != "zero":
            invert(kars[name].project, kars[name].back)  # the projection has moved since it was inverted
    return results


def pretrain(
    infused: Infused,
    examples: Sequence[Example],
    *,
    names: Sequence[str] | None = None,
    loss: LinkLoss = "margin",
    masking: Masking | None = None,
    settings: TrainSettings = JOINT,
    out: Path | None = None,
    progress: Progress = True,
) -> TrainResult:
    """Train the whole model on masked words, next sentences (if its head reads them) and linking: stage 2.

    Examples come from `sentence_pairs`, or are any texts with a `seed`; those with `gold` teach linking too. The model
    needs a head for masked words: infuse(..., task="masked-lm") or, for next sentences, task="pretraining".
    """
    names = _names(infused, names)
    check_masked_head(infused.model)
    next_sentence = reads_next_sentence(infused.model) and any("next_sentence" in example for example in examples)
    collate: Any = MaskingCollator(infused.collator(), masking, next_sentence=next_sentence)
    objective = LinkingObjective(infused.model, names, loss=loss)
    made_with = {**_made_with(infused, examples, names, loss), "masking": asdict(masking or Masking())}
    return train(objective, examples, collate, settings=settings, out=out, progress=progress, made_with=made_with)


def check_masked_head(model: PreTrainedModel) -> None:
    """Refuse a model that cannot guess masked words."""
    if model.get_output_embeddings() is None:  # type: ignore[no-untyped-call]
        raise InputError(
            f"{type(model).__name__} has no head for masked words. Infuse the checkpoint with task='masked-lm' or "
            "task='pretraining' (infuser linker train --task ...)."
        )


def reads_next_sentence(model: PreTrainedModel) -> bool:
    """Return whether a model's head predicts whether a sentence follows another."""
    return "next_sentence_label" in inspect.signature(model.forward).parameters


def _made_with(infused: Infused, examples: Sequence[Example], names: Sequence[str], loss: str) -> dict[str, Any]:
    """Return what decides the result beside settings and texts: loss, labels, candidates, vectors and the host."""
    labels = hashlib.sha256()
    for example in examples:
        labels.update(repr((example.get("gold"), example.get("seed"))).encode())
        for found in example.get("annotations") or ():
            labels.update(repr(found.candidates).encode())
    vectors = {base.name: base.store.fingerprint() for base in bases_among(infused.sources).values()}
    host = digest(plain_state(infused.model))
    return {"loss": loss, "names": list(names), "labels": labels.hexdigest(), "vectors": vectors, "host": host}


def _names(infused: Infused, names: Sequence[str] | None) -> list[str]:
    known = [base.name for base in check_linker(infused).values()]
    check_names(names or (), known)
    return list(names) if names is not None else known


def _check_gold(examples: Sequence[Example], names: Sequence[str], loss: str) -> None:
    """Refuse examples from which no linker can learn anything; of a mention that means nothing, softmax learns none."""
    known = sum(
        1
        for example in examples
        for name in names
        for meant in (example.get("gold") or {}).get(name, ())
        if meant or (meant is not None and loss != "softmax")
    )
    if not known:
        raise InputError(
            f"None of {len(examples):,} examples says what a mention that {', '.join(names)} finds in it means: "
            "the knowledge base finds no candidates in these texts, or there are no labels. Look at "
            "KnowledgeBase.annotate(texts) and at the ids of the labels."
        )
