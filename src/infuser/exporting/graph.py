"""A model becomes an ONNX graph, traced by torch's exporter."""

from __future__ import annotations

import contextlib
import copy
import io
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from infuser.errors import HostError, MissingExtraError
from infuser.hosts.calls import GraphInputs
from infuser.runtime.card import OUTPUT, Head

_HEADS = {
    "ForSequenceClassification": "sequence-classification",
    "ForTokenClassification": "token-classification",
    "ForMultipleChoice": "multiple-choice",
    "ForQuestionAnswering": "question-answering",
}
_SIZES = (3, 11, 5, 7, 13, 17, 19, 23, 29, 31)
"""Sizes of the sample that is traced: different ones, so that none is taken for another, and none of them 0 or 1."""
_MOST_IN_ONE_FILE = 2 * 1024**3 - 10**7
"""Bytes of weights that fit into one file of the format, with room for the graph itself."""


def head_of(model: PreTrainedModel) -> Head:
    """Return what a model answers; HostError for heads that cannot be exported."""
    name = type(model).__name__
    for ending, head in _HEADS.items():
        if name.endswith(ending):
            return head  # type: ignore[return-value]
    if model.base_model is model:
        return "encoder"
    raise HostError(
        f"{name} cannot be exported: its head is none of {', '.join(get_args(Head))}. Export the encoder without it: "
        "infuse(..., task='encoder')."
    )


class Graph(nn.Module):
    """A model with all inputs by place and one output, one row per sequence."""

    def __init__(self, model: PreTrainedModel, names: Sequence[str], head: Head) -> None:
        super().__init__()
        self.model, self.names, self.head = model, tuple(names), head

    def forward(self, *tensors: Tensor) -> Tensor:
        """Return logits or states, (texts, ...); of a question the logits of first and last tokens, (texts, 2, seq)."""
        given = dict(zip(self.names, tensors, strict=True))
        if self.head == "multiple-choice":  # each row is the only choice of a text of its own
            given = {name: one if name.startswith("knowledge_") else one[:, None] for name, one in given.items()}
        return output_of(self.model(**given), self.head)


def output_of(answer: Any, head: Head) -> Tensor:
    """Return the one tensor that a graph gives of a model's answer."""
    if head == "question-answering":
        return torch.stack([answer.start_logits, answer.end_logits], dim=1)
    result: Tensor = answer.last_hidden_state if head == "encoder" else answer.logits
    return result


def write_graph(model: PreTrainedModel, inputs: GraphInputs, head: Head, path: Path) -> None:
    """Trace a model in float32 and write its graph; its own mode and weights stay as they are."""
    try:
        import onnxscript  # noqa: F401  # torch's exporter needs it
    except ImportError as error:
        raise MissingExtraError("Exporting needs onnx and onnxscript: pip install 'infuser[export]'.") from error
    dims: dict[str, Any] = {}
    sizes: dict[str, int] = {}
    for _, *shape in inputs.values():
        for size in shape:
            if isinstance(size, str) and size not in dims:
                # names of knowledge bases may be anything, those of sizes may not
                most = {"max": model.config.max_position_embeddings} if size == "tokens" else {}
                sizes[size] = _SIZES[len(dims) % len(_SIZES)] + len(dims) // len(_SIZES) * 30
                dims[size] = torch.export.Dim(size if size.isidentifier() else f"size{len(dims)}", **most)
    samples = [_sample(name, spec, sizes) for name, spec in inputs.items()]
    shapes = tuple(
        {place: dims[size] for place, size in enumerate(shape) if isinstance(size, str)}
        for _, *shape in inputs.values()
    )
    graph = Graph(_in_float32(model), list(inputs), head).eval()
    was_training = model.training
    try:
        with torch.no_grad(), _quiet():
            program = torch.onnx.export(
                graph,
                tuple(samples),
                dynamo=True,
                input_names=list(inputs),
                output_names=[OUTPUT],
                dynamic_shapes=(shapes,),
                verbose=False,
            )
            assert program is not None
            n_bytes = sum(tensor.numel() * 4 for tensor in graph.parameters())
            program.save(path, external_data=n_bytes > _MOST_IN_ONE_FILE)
    except Exception as error:  # the exporter has no class of its own for what it cannot do
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise HostError(
            f"torch's exporter cannot make a graph of this {type(model).__name__} ({reason[0][:300]}). Predict with "
            "the saved model instead, or export another host or method."
        ) from error
    finally:
        model.train(was_training)


def _sample(name: str, spec: tuple[str | int, ...], sizes: dict[str, int]) -> Tensor:
    """Return an input that says nothing: zeros, but real tokens."""
    dtype, *shape = spec
    filled = [size if isinstance(size, int) else sizes[size] for size in shape]
    if name == "attention_mask":
        mask = torch.ones(filled, dtype=torch.int64)
        mask[0, -1] = 0  # a mask without padding may be optimised away
        return mask
    return torch.zeros(filled, dtype=getattr(torch, str(dtype)))


def _in_float32(model: PreTrainedModel) -> PreTrainedModel:
    """Return a model on the CPU in float32: itself, or a copy."""
    if all(one.dtype == torch.float32 and one.device.type == "cpu" for one in model.parameters()):
        return model
    copied: Any = copy.deepcopy(model)
    return copied.to("cpu", torch.float32)  # type: ignore[no-any-return]


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the exporter's own messages, which are about its inside, from people."""
    torch_logger = logging.getLogger("torch.onnx")
    level = torch_logger.level
    torch_logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        torch_logger.setLevel(level)
