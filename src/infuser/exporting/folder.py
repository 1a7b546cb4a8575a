"""Writes the folder of an exported model, and compares its answers with those of the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel

from infuser.errors import CheckpointError, HostError, InputError
from infuser.exporting.graph import head_of, output_of, write_graph
from infuser.exporting.int8 import quantize
from infuser.files import whole_folder
from infuser.hosts import answering, graph_inputs, reader_called
from infuser.hosts.calls import GraphInputs
from infuser.hosts.loading import save_tokenizer
from infuser.methods import Text
from infuser.methods.together import describe
from infuser.runtime import load
from infuser.runtime.card import CARD, GRAPH, ExportCard, Head
from infuser.runtime.tokenizer import tokenizer_settings
from infuser.seals import seal
from infuser.signals import Collator
from infuser.signals.answers import label_names, softmax
from infuser.signals.tags import Tags
from infuser.signals.writing import Writer
from infuser.sources.naming import source_names
from infuser.sources.packing import INSIDE
from infuser.sources.storage import save_sources
from infuser.types import Method
from infuser.versions import installed_versions

TOLERANCE = 1e-3
"""Raw answers that differ by more than this share of the largest one are an error of the export."""
_TOKENS = ("input_ids", "attention_mask", "token_type_ids")
_SAMPLES = (
    "The old bridge of the town lies on the river.",
    "She takes aspirin and metformin for her heart.",
    "A train runs from Zürich to Bern and Basel.",
    "Yes.",
)

Example = Mapping[str, Any]
Answers = list[NDArray[Any]]


@dataclass(frozen=True, slots=True)
class ExportReport:
    """What an export came to."""

    n_bytes: int
    """Size of the graph."""
    n_texts: int
    """How many texts were compared."""
    difference: float
    """The largest difference of a raw answer to the model's own, in float32."""
    int8_difference: float | None = None
    """The largest difference of a probability in int8, of a raw answer where there are none; None without int8."""
    int8_agrees: float | None = None
    """The share of answers that are the same in int8."""


def export_parts(
    directory: Path,
    model: PreTrainedModel,
    collator: Collator,
    method: Method | None = None,
    *,
    int8: bool = False,
    portable: bool = False,
    examples: Sequence[Example] = (),
) -> ExportReport:
    """Write the exported form of a model into a folder, whole or not at all, and compare the answers of both.

    `portable` takes built folders along that sources name by path, as `save` does. `examples` are what the answers are
    compared on; without any, a few sentences are taken.
    """
    if directory.exists() and not directory.is_dir():
        raise CheckpointError(f"{directory} is a file; export into a new or empty directory.")
    if directory.exists() and not (directory / CARD).exists() and any(directory.iterdir()):
        raise CheckpointError(f"{directory} holds other files; export into a new or empty directory.")
    head = head_of(model)
    known = (*collator.tokenizer.model_input_names, "attention_mask")
    inputs: GraphInputs = {name: ("int64", "texts", "tokens") for name in _TOKENS if name in known}
    inputs |= graph_inputs(model)
    card = _describe(model, collator, method, head, inputs)
    examples = examples or _samples_for(head)
    with whole_folder(directory) as draft:
        write_graph(model, inputs, head, draft / GRAPH)
        _save_tokenizer(collator, draft)
        names = source_names(collator.sources)
        records, _ = save_sources(collator.sources, names, draft / "sources", portable=portable)
        card = replace(card, sources=records)
        card.write(draft)
        seal(draft, apart=[draft / "sources" / INSIDE])
        own = _ask_model(model, collator, head, examples)
        difference = _largest(own, _ask_graph(draft, collator, examples))
        if not difference <= TOLERANCE * max(1.0, *(float(np.abs(one).max()) for one in own)):  # false for NaN too
            raise HostError(
                f"The exported graph answers differently, by up to {difference:.2g} in a raw answer. Please report "
                "this with the versions of torch and onnxruntime, and predict with the saved model instead."
            )
        report = ExportReport(_size(draft), len(examples), difference)
        if int8:
            if (draft / f"{GRAPH}.data").exists():
                raise InputError("int8 is for models with less than 2 GB of weights. Export this one without it.")
            quantize(draft / GRAPH, draft / GRAPH)
            replace(card, int8=True).write(draft)
            seal(draft, apart=[draft / "sources" / INSIDE])
            found = _ask_graph(draft, collator, examples)
            same = [float((a.argmax(-1) == b.argmax(-1)).mean()) for a, b in zip(own, found, strict=True)]
            if head in ("token-classification", "multiple-choice") or card.labels[1:]:
                own, found = list(map(softmax, own)), list(map(softmax, found))
            report = replace(
                report, n_bytes=_size(draft), int8_difference=_largest(own, found), int8_agrees=float(np.mean(same))
            )
    return report


def _describe(
    model: PreTrainedModel, collator: Collator, method: Method | None, head: Head, inputs: GraphInputs
) -> ExportCard:
    config = model.config
    if not isinstance(collator.writer, Text | Writer | None):
        raise HostError(
            f"{type(collator.writer).__name__} writes in a way of its own, which no export holds. Use Text."
        )
    moves = None
    if head == "token-classification":
        try:
            moves = [list(row) for row in Tags.of_model(config).moves]
        except InputError:  # tags of something else than entities: their logits can be read
            moves = None
    labelled = head in ("sequence-classification", "token-classification")
    maps = reader_called(model, "kam")
    return ExportCard(
        head=head,
        host=config.model_type,
        method=None if method is None else describe(method),
        inputs={name: list(spec) for name, spec in inputs.items()},
        tokenizer=tokenizer_settings(collator.tokenizer),
        batches={
            "max_length": collator.limit,
            "max_term_tokens": collator.max_term_tokens,
            "tensors": collator.tensors,
            "writer": None if collator.writer is None else collator.writer.share,
        },
        vocabulary=asdict(collator.vocabulary),
        sources=[],
        labels=label_names(config.id2label, int(config.num_labels or 0)) if labelled else [],
        several_labels=config.problem_type == "multi_label_classification",
        tag_moves=moves,
        drawer=None if maps is None else asdict(maps.drawer),
        int8=False,
        versions=installed_versions(),
    )


def _save_tokenizer(collator: Collator, draft: Path) -> None:
    """Write tokenizer.json alone: what transformers writes beside it stands in the card."""
    folder = draft / "tokenizer"
    save_tokenizer(collator.tokenizer, folder)
    (folder / "tokenizer.json").rename(draft / "tokenizer.json")
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


def _size(draft: Path) -> int:
    return sum(path.stat().st_size for path in draft.glob(f"{GRAPH}*"))


def _samples_for(head: Head) -> list[Example]:
    if head == "multiple-choice":
        return [{"text": text, "pair": list(_SAMPLES[:2])} for text in _SAMPLES]
    if head == "question-answering":
        return [{"text": "What lies on the river?", "pair": text} for text in _SAMPLES]
    return [{"text": text} for text in _SAMPLES]


def _ask_model(model: PreTrainedModel, collator: Collator, head: Head, examples: Sequence[Example]) -> Answers:
    """Return the model's own raw answer to each example."""
    found = []
    with answering(model):
        for example in examples:
            batch = {name: tensor.to(model.device) for name, tensor in collator([example]).items()}
            batch.pop("labels", None)
            found.append(output_of(model(**batch), head).float().cpu().numpy())
    return found


def _ask_graph(folder: Path, collator: Collator, examples: Sequence[Example]) -> Answers:
    """Return the exported model's raw answer to each example."""
    exported = load(folder, sources=collator.sources, threads=torch.get_num_threads())
    return [exported.logits([example["text"]], [example.get("pair")]) for example in examples]


def _largest(own: Answers, found: Answers) -> float:
    return max(float(np.abs(a - b).max()) for a, b in zip(own, found, strict=True))
