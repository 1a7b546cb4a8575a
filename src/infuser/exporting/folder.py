"""Writes the folder of an exported model, and compares its answers with those of the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel

from infuser.errors import CheckpointError, HostError, InputError
from infuser.exporting.graph import head_of, write_graph
from infuser.exporting.int8 import quantize
from infuser.files import whole_folder
from infuser.hosts import answering, graph_inputs, reader_called
from infuser.hosts.calls import GraphInputs
from infuser.hosts.loading import save_tokenizer
from infuser.methods import Text
from infuser.methods.together import describe, methods_of
from infuser.runtime import ExportedModel, load
from infuser.runtime.card import CARD, GRAPH, ExportCard, Head
from infuser.runtime.tokenizer import tokenizer_settings
from infuser.seals import seal
from infuser.signals import Collator
from infuser.signals.answers import label_names, softmax
from infuser.signals.tags import Tags
from infuser.sources.storage import save_source
from infuser.types import Method
from infuser.versions import installed_versions

TOLERANCE = 1e-3
"""Raw answers in float32 that differ by more than this share of the largest are an error of the export."""

_SAMPLES = (
    "The old bridge of the town lies on the river.",
    "She takes aspirin and metformin for her heart.",
    "A train runs from Zürich to Bern and Basel.",
    "Yes.",
)


@dataclass(frozen=True, slots=True)
class ExportReport:
    """What an export came to."""

    n_bytes: int
    """Size of the graph."""
    difference: float
    """The largest difference of a raw answer to the model's own, in float32."""
    int8_difference: float | None = None
    """The largest difference of a probability (else of a raw answer) in int8; None without int8."""
    int8_agrees: float | None = None
    """The share of answers that are the same in int8."""
    n_texts: int = 0
    """How many texts were compared."""


def export_parts(
    directory: Path,
    model: PreTrainedModel,
    collator: Collator,
    method: Method | None,
    *,
    int8: bool = False,
    texts: Sequence[Mapping[str, Any]] | None = None,
) -> ExportReport:
    """Write the exported form of a model into a folder, whole or not at all, and compare the answers of both.

    texts: examples that the answers are compared on; None takes a few sentences.
    """
    if directory.exists() and not directory.is_dir():
        raise CheckpointError(f"{directory} is a file; export into a new or empty directory.")
    if directory.exists() and not (directory / CARD).exists() and any(directory.iterdir()):
        raise CheckpointError(f"{directory} holds other files; export into a new or empty directory.")
    head = head_of(model)
    inputs: GraphInputs = {
        name: ("int64", "texts", "tokens")
        for name in ("input_ids", "attention_mask", "token_type_ids")
        if name in {*collator.tokenizer.model_input_names, "attention_mask"}
    } | graph_inputs(model)
    examples = list(texts) if texts else _examples_for(head)
    with whole_folder(directory) as draft:
        write_graph(model, inputs, head, draft / GRAPH)
        save_tokenizer(collator.tokenizer, draft / "tokenizer")
        (draft / "tokenizer" / "tokenizer.json").rename(draft / "tokenizer.json")
        for path in (draft / "tokenizer").iterdir():  # what transformers writes beside it stands in the card
            path.unlink()
        (draft / "tokenizer").rmdir()
        records = [save_source(source, draft / "sources" / str(i)) for i, source in enumerate(collator.sources)]
        _card(model, collator, method, head, inputs, records, int8=False).write(draft)
        seal(draft)
        own = _answers(model, collator, head, inputs, examples)
        exported = _load(draft, collator)
        difference = max(float(np.abs(a - b).max()) for a, b in zip(own, _exported(exported, examples), strict=True))
        if not difference <= TOLERANCE * max(1.0, *(float(np.abs(one).max()) for one in own)):
            raise HostError(
                f"The exported graph answers differently: by up to {difference:.2g} in a raw answer. Please report this "
                "with the versions of torch and onnxruntime, and predict with the saved model instead."
            )
        report = ExportReport((draft / GRAPH).stat().st_size, difference, n_texts=len(examples))
        if int8:
            report = _to_int8(draft, model, collator, method, head, inputs, records, own, examples, difference)
    return report


def _to_int8(
    draft: Path,
    model: PreTrainedModel,
    collator: Collator,
    method: Method | None,
    head: Head,
    inputs: GraphInputs,
    records: list[dict[str, Any]],
    own: Sequence[NDArray[Any]],
    examples: Sequence[Mapping[str, Any]],
    difference: float,
) -> ExportReport:
    """Put the quantised graph in the place of the other, and compare it with the model."""
    if (draft / f"{GRAPH}.data").exists():
        raise InputError("int8 is for models with less than 2 GB of weights. Export this one without it.")
    quantize(draft / GRAPH, draft / "int8.onnx")
    (draft / "int8.onnx").replace(draft / GRAPH)
    _card(model, collator, method, head, inputs, records, int8=True).write(draft)
    seal(draft)
    classifies = head in ("sequence-classification", "multiple-choice") and model.config.num_labels != 1
    found = _exported(_load(draft, collator), examples)
    same = [float((a.argmax(-1) == b.argmax(-1)).mean()) for a, b in zip(own, found, strict=True)]
    if classifies or head in ("token-classification", "multiple-choice"):
        own, found = list(map(softmax, own)), list(map(softmax, found))
    largest = max(float(np.abs(a - b).max()) for a, b in zip(own, found, strict=True))
    return ExportReport((draft / GRAPH).stat().st_size, difference, largest, float(np.mean(same)), len(examples))


def _card(
    model: PreTrainedModel,
    collator: Collator,
    method: Method | None,
    head: Head,
    inputs: GraphInputs,
    sources: list[dict[str, Any]],
    *,
    int8: bool,
) -> ExportCard:
    config = model.config
    writers = [one for one in methods_of(method) if one is collator.writer] if collator.writer else []
    if writers and not isinstance(writers[0], Text):
        raise HostError(f"{type(writers[0]).__name__} writes texts in its own way, which cannot be exported. Use Text.")
    reads_words = head in ("sequence-classification", "token-classification")
    moves = None
    if head == "token-classification":
        try:
            moves = [list(row) for row in Tags.of_model(config).moves]
        except InputError:  # tags of something else than entities: their logits can be read
            moves = None
    reader = reader_called(model, "kam")
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
        sources=sources,
        labels=label_names(config.id2label, config.num_labels) if reads_words else [],
        several_labels=config.problem_type == "multi_label_classification",
        tag_moves=moves,
        drawer=None if reader is None else asdict(reader.drawer),
        int8=int8,
        versions=installed_versions(),
    )


def _load(draft: Path, collator: Collator) -> ExportedModel:
    return load(draft, sources=collator.sources, threads=torch.get_num_threads())


def _examples_for(head: Head) -> list[dict[str, Any]]:
    if head == "multiple-choice":
        return [{"text": text, "pair": list(_SAMPLES[:2])} for text in _SAMPLES]
    if head == "question-answering":
        return [{"text": "What lies on the river?", "pair": text} for text in _SAMPLES]
    return [{"text": text} for text in _SAMPLES]


def _answers(
    model: PreTrainedModel, collator: Collator, head: Head, inputs: GraphInputs, examples: Sequence[Mapping[str, Any]]
) -> list[NDArray[Any]]:
    """Return the model's own raw answer to each example."""
    found = []
    with answering(model):
        for example in examples:
            batch = {
                name: tensor.to(model.device) for name, tensor in collator([example]).items() if "label" not in name
            }
            out = model(**batch)
            if head == "question-answering":
                answer = torch.stack([out.start_logits, out.end_logits], dim=1)
            else:
                answer = out.last_hidden_state if head == "encoder" else out.logits
            found.append(answer.float().cpu().numpy())
    return found


def _exported(exported: ExportedModel, examples: Sequence[Mapping[str, Any]]) -> list[NDArray[Any]]:
    """Return the exported model's raw answer to each example."""
    return [
        exported.logits([example["text"]], None if example.get("pair") is None else [example["pair"]])
        for example in examples
    ]
