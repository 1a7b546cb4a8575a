"""Trainings of linkers in run folders: of the linker alone, or together with its encoder. A stopped one resumes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from infuser.experiments.arm import source_digests
from infuser.experiments.run_folder import RunFolder
from infuser.infused import Infused
from infuser.linking.evaluation import evaluate_linker
from infuser.linking.examples import LinkedText, check_offered, link_examples
from infuser.linking.inference import bases_of
from infuser.linking.masking import joint_examples
from infuser.linking.objective import LinkLoss
from infuser.linking.scores import LinkScores
from infuser.linking.self_supervision import UnambiguousTexts
from infuser.linking.texts import digest_texts
from infuser.linking.training import (
    JOINT,
    LINKER,
    Progress,
    check_masked_head,
    pretrain,
    reads_next_sentence,
    train_linker,
)
from infuser.linking.windows import window_linked
from infuser.saving import digest
from infuser.sources import KnowledgeBase
from infuser.training import TrainResult, TrainSettings
from infuser.words import counted

Report = Callable[[str], None]


def run_linker(
    run: RunFolder,
    infused: Infused,
    base: KnowledgeBase,
    *,
    linked: Sequence[LinkedText] = (),
    unlabelled: Sequence[str] = (),
    dev: Sequence[LinkedText] = (),
    loss: LinkLoss = "margin",
    settings: TrainSettings = LINKER,
    max_words: int = 200,
    made_with: Mapping[str, Any] | None = None,
    restart: bool = False,
    report: Report = print,
    progress: Progress = True,
) -> dict[str, LinkScores]:
    """Teach a model's linker, first from texts without labels, then from linked ones; save it, and return its scores.

    `made_with` says what the model was made from. `report` gets a line about each stage.
    """
    stages: dict[str, tuple[list[dict[str, Any]], TrainSettings]] = {}
    if unlabelled:
        read = UnambiguousTexts(unlabelled, {base.name: base}, progress=True)
        examples = [  # each epoch hides names among others in its own way
            example
            for epoch in range(settings.epochs)
            for example in read.examples(seed=settings.seed, epoch=epoch, mask_token=infused.tokenizer.mask_token)
        ]
        stages["self-supervised"] = examples, _one_epoch(settings, len(read))
    if linked:
        examples = link_examples(
            [window for one in linked for window in window_linked(one, max_words)], {base.name: base}
        )
        check_offered(examples, linked, base)
        stages["links"] = examples, settings
    about = {"base": f"{base.name} ({source_digests([base])[0]})", **(made_with or {})}
    texts = {"links": digest_texts(linked), "corpus": digest_texts(unlabelled)}
    with run.begun(_described(settings, loss=loss, max_words=max_words, **about, **texts), restart=restart):
        results = {}
        for name, (examples, how) in stages.items():
            report(f"{name}: {counted(len(examples), 'example')}")
            place = run.checkpoints / name
            [results[name]] = train_linker(
                infused, examples, loss=loss, settings=how, out=place, progress=progress
            ).values()
            report(_result_line(name, results[name]))
        infused.save(run.model)
        scores = evaluate_linker(infused, base, dev, batch_size=settings.batch_size) if dev else {}
        on_dev = {name: one.to_json() for name, one in scores.items()}
        of_stages = {name: result.to_json() for name, result in results.items()}
        run.finish({**of_stages, "dev": on_dev, "new_weights": infused.n_new_weights()})
    return scores


def run_joint(
    run: RunFolder,
    infused: Infused,
    documents: Sequence[Sequence[str]],
    *,
    loss: LinkLoss = "margin",
    settings: TrainSettings = JOINT,
    max_words: int = 60,
    made_with: Mapping[str, Any] | None = None,
    restart: bool = False,
    report: Report = print,
    progress: Progress = True,
) -> None:
    """Train a model and its linkers together on documents without labels, and save it; see `run_linker`."""
    check_masked_head(infused.model)
    pairs, copies = reads_next_sentence(infused.model), settings.epochs
    examples = joint_examples(documents, bases_of(infused.sources), pairs=pairs, seed=settings.seed, copies=copies)
    n_taught = sum("gold" in example for example in examples)
    n_examples = counted(len(examples), "pair" if pairs else "text")
    report(f"{n_examples} with masked words, {n_taught:,} of them with names that mean one thing only")
    settings = _one_epoch(settings, len(examples) // copies)
    about = {"copies": copies, "corpus": digest_texts(documents), "weights": digest(infused.model.state_dict())[:12]}
    about |= made_with or {}
    with run.begun(_described(settings, loss=loss, max_words=max_words, **about), restart=restart):
        result = pretrain(infused, examples, loss=loss, settings=settings, out=run.checkpoints, progress=progress)
        infused.save(run.model)
        run.finish(result.to_json() | {"new_weights": infused.n_new_weights()})
    report(_result_line("joint training", result))


def _one_epoch(settings: TrainSettings, n_examples: int) -> TrainSettings:
    """Return settings for examples that hold all epochs, one after the other; `n_examples` are those of one."""
    return replace(settings, epochs=1, checkpoint_every=max(1, math.ceil(n_examples / settings.batch_size)))


def _described(settings: TrainSettings, **further: Any) -> dict[str, Any]:
    """Return all that decides the result of a run, as plain values."""
    how = asdict(settings)
    del how["n_workers"], how["checkpoint_every"]
    return {**further, **how}


def _result_line(stage: str, result: TrainResult) -> str:
    losses = [entry.loss for entry in result.history]
    then = f", then {losses[-1]:.4f}" if len(losses) > 1 else ""
    return (
        f"{stage}: {counted(result.steps, 'step')}, loss {losses[0]:.4f}{then}; {result.seconds:.0f} s, "
        f"{result.examples_per_second:.0f} examples/s"
    )
