"""What a linker learns from: the score of the right candidate up, those of the others down.

`LinkingObjective` stands around an infused model while `infuser.train` trains it: it adds the linker's loss to the loss
of the model's own head and returns both.

`LinkerAlone` learns without reading every text again: as long as the encoder is frozen, its states are always the same.
`FrozenStates` computes them once and keeps them in a temporary file (4 bytes x hidden size per token), so that the
encoder runs once, not once per epoch.
"""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.utils.generic import ModelOutput

from infuser.errors import InputError
from infuser.files import naming_full_disks, scratch_file
from infuser.infused import Infused
from infuser.methods.entity_reader import Trace, found_in, trace_candidates
from infuser.progress import progress_bar
from infuser.signals.candidates import part_name
from infuser.signals.examples import IGNORED

LinkLoss = Literal["margin", "softmax"]
_BATCH = 32
_NUMBER = "number"
"""The field that holds an example's number."""


@dataclass
class Losses(ModelOutput):
    """The loss of a batch and what it is made of."""

    loss: Tensor | None = None
    parts: dict[str, Tensor] | None = None


def margin_loss(scores: Tensor, gold: Tensor, margin: float = 0.2) -> Tensor:
    """Return how far right candidates are from being above `margin` and wrong ones below -`margin`.

    Both are (batch, M); gold is 1 right, 0 wrong, -1 not known or padding. The average over right ones and that over
    wrong ones weigh the same: there are so many more wrong ones that a plain sum is nearly smallest where a linker
    rejects everything, and there it stays.
    """
    short = torch.where(gold > 0, margin - scores, margin + scores).clamp(min=0)
    right, wrong = gold > 0, gold == 0
    return sum(short[which].sum() / max(1, int(which.sum())) for which in (right, wrong))  # type: ignore[return-value]


def softmax_loss(scores: Tensor, gold: Tensor, spans: Tensor) -> Tensor:
    """Return minus the log probability of the right candidate among all of its span, averaged over such spans.

    A span whose entity is not among its candidates has no say, and gives exactly no gradient. So a linker learns to
    choose, but never that a mention means none of its candidates. `spans` (batch, M) is the span of each candidate.
    """
    numbers = _numbered(spans)
    with_right = torch.isin(numbers, numbers[gold > 0]) & (gold >= 0)
    _, place = torch.unique(numbers[with_right], return_inverse=True)
    psi, right = scores[with_right], gold[with_right] > 0
    n_spans = int(right.sum())  # one of the candidates of each is right
    highest = psi.new_full((n_spans,), -torch.inf).scatter_reduce(0, place, psi.detach(), "amax")
    total = psi.new_zeros(n_spans).index_add(0, place, (psi - highest[place]).exp())
    log_share = psi[right] - (highest + total.log())[place[right]]
    return -log_share.sum() / max(1, n_spans)


def _numbered(spans: Tensor) -> Tensor:
    """Return a number for each candidate's span (batch, M) that no span of another text has."""
    n_spans = int(spans.max()) + 1 if spans.numel() else 1
    return spans + n_spans * torch.arange(len(spans), device=spans.device)[:, None]


def link_loss(kind: LinkLoss, scores: Tensor, batch: Mapping[str, Tensor], base: str) -> Tensor:
    """Return the loss of one knowledge base's scores (batch, M)."""
    gold, spans = batch[part_name(base, "gold")], batch[part_name(base, "candidates")][..., 0]
    scores = scores.masked_fill(gold < 0, 0.0).float()  # padding may score minus infinity
    if kind == "margin":
        return margin_loss(scores, gold)
    if kind == "softmax":
        return softmax_loss(scores, gold, spans)
    raise InputError(f"There is no linker loss {kind!r}; it can be 'margin' or 'softmax'.")


def _mean_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the average loss of those that have a label, 0 if none has."""
    total = nn.functional.cross_entropy(logits.float(), labels, ignore_index=IGNORED, reduction="sum")
    return total / (labels != IGNORED).sum().clamp(min=1)


class LinkingObjective(nn.Module):
    """An infused model whose loss is that of its own head and that of its linkers together."""

    def __init__(self, model: PreTrainedModel, names: Sequence[str], *, loss: LinkLoss = "margin") -> None:
        super().__init__()
        self.model, self.names, self.kind = model, tuple(names), loss

    def forward(self, **batch: Any) -> Losses:
        """Return the loss of a batch and its parts: linking, masked words, next sentence, as far as there are any."""
        trace = Trace()
        labels, follows = batch.pop("labels", None), batch.pop("next_sentence_label", None)
        out = self.model(**batch, knowledge_trace=trace)
        parts: dict[str, Tensor] = {}
        taught = [name for name in self.names if part_name(name, "gold") in batch]
        losses = [link_loss(self.kind, trace.scores[name], batch, name) for name in taught]
        if losses:
            parts["linking"] = torch.stack(losses).sum()
        if labels is not None:  # a head with two tasks gives no loss of its own unless all texts have both
            words = out["prediction_logits"] if "prediction_logits" in out else out["logits"]
            parts["masked words"] = _mean_loss(words.flatten(0, 1), labels.flatten())
        if follows is not None:
            parts["next sentence"] = _mean_loss(out["seq_relationship_logits"], follows)
        if not parts:
            raise InputError(
                "The batch says neither what its mentions mean nor which words are masked: there is nothing to learn. "
                "Make examples with link_examples or UnambiguousTexts."
            )
        return Losses(loss=torch.stack(list(parts.values())).sum(), parts=parts)


class FrozenStates:
    """The states that one knowledge base's linker reads, of every example."""

    def __init__(
        self,
        infused: Infused,
        name: str,
        examples: Sequence[Mapping[str, Any]],
        *,
        folder: Path | None = None,
        progress: bool = False,
    ) -> None:
        """Read all examples once; the states lie in a file in `folder`, or where temporary files do."""
        self.name, self.collator = name, infused.collator()
        self.examples = [{**example, _NUMBER: number} for number, example in enumerate(examples)]
        place = (folder or Path(tempfile.gettempdir())) / "states"
        self._file = scratch_file(place)
        self._path = self._file.name
        weakref.finalize(self, Path(self._path).unlink, missing_ok=True)  # it goes with us
        self._places, self._lengths = np.zeros((2, len(examples)), np.int64)
        order = sorted(range(len(examples)), key=lambda number: len(examples[number]["text"]))
        written = 0
        bar_of_texts = progress_bar("reading texts once", len(examples), unit="texts", shown=progress)
        with naming_full_disks(place), bar_of_texts as bar:
            for first in range(0, len(order), _BATCH):
                some = order[first : first + _BATCH]
                for number, states in zip(some, self._read(infused, some), strict=True):
                    self._file.write(states.tobytes())
                    self._places[number], self._lengths[number] = written, len(states)
                    written += len(states)
                bar.advance(len(some))
            self._file.flush()
        self._shape = (written, infused.model.config.hidden_size)
        self._states = self._open()

    def _open(self) -> NDArray[np.float32]:
        return np.memmap(self._path, np.float32, "r", shape=self._shape)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_file", "_states")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._states = self._open()  # a worker reads the same file, which stays its maker's

    def _read(self, infused: Infused, numbers: Sequence[int]) -> list[NDArray[np.float32]]:
        """Return the states (tokens, hidden) of some examples, without padding."""
        batch = self.collator([self.examples[number] for number in numbers])
        states = trace_candidates(infused.model.base_model, batch).states[self.name].float().cpu().numpy()
        return [states[row][mask] for row, mask in enumerate(batch["attention_mask"].bool().numpy())]

    def collate(self, examples: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
        """Return a batch for `LinkerAlone`: what the knowledge base found, and the states of the words."""
        batch = self.collator(examples)
        real = batch["attention_mask"].bool().numpy()
        states = np.zeros((*real.shape, self._shape[1]), np.float32)
        for row, example in enumerate(examples):
            first = self._places[example[_NUMBER]]
            states[row, real[row]] = self._states[first : first + self._lengths[example[_NUMBER]]]
        mine = {name: tensor for name, tensor in batch.items() if name.startswith(part_name(self.name, ""))}
        return {"states": torch.from_numpy(states), **mine}


class LinkerAlone(nn.Module):
    """One linker of an infused model, and the projection of words that it reads; learns from frozen states."""

    def __init__(self, infused: Infused, name: str, *, loss: LinkLoss = "margin") -> None:
        super().__init__()
        kars: Any = infused.model.base_model.knowledge
        self.name, self.kind, self.size = name, loss, kars[name].size
        # under this name a learning rate for new weights finds them
        self.knowledge = nn.ModuleList([kars[name].project, kars[name].linker])

    def forward(self, states: Tensor, **batch: Tensor) -> Losses:
        """Return the linker's loss."""
        project, linker = self.knowledge
        words = project(states.to(next(project.parameters()).dtype))
        _, scores = linker(words, found_in(batch, self.name, words.dtype, self.size))
        loss = link_loss(self.kind, scores, batch, self.name)
        return Losses(loss=loss, parts={"linking": loss})
