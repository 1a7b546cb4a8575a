"""Stage 1 without reading every text again: as long as the encoder is frozen, its states are always the same.

They are computed once, kept in a file without a name (float16, gone with the process), and a linker learns from them:
the encoder runs once, not once per epoch.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from infuser.infused import Infused
from infuser.linking.objective import LinkLoss, Losses, link_loss
from infuser.methods.entity_reader import ask, found_in
from infuser.signals.candidates import part_name

_BATCH = 32
_NUMBER = "number"
"""Under this name an example says which one it is."""


class FrozenStates:
    """The states that one knowledge base's linker reads, of every example."""

    def __init__(
        self, infused: Infused, name: str, examples: Sequence[Mapping[str, Any]], *, progress: bool = False
    ) -> None:
        self.name, self.collator = name, infused.collator()
        self.examples = [{**example, _NUMBER: number} for number, example in enumerate(examples)]
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  it lives as long as the states
        order = sorted(range(len(examples)), key=lambda number: len(examples[number]["text"]))
        lengths = np.zeros(len(examples), np.int64)
        places = np.zeros(len(examples), np.int64)
        written = 0
        with tqdm(total=len(examples), desc="reading texts once", unit="text", disable=not progress) as bar:
            for first in range(0, len(order), _BATCH):
                some = order[first : first + _BATCH]
                for number, states in zip(some, self._read(infused, some), strict=True):
                    self._file.write(np.ascontiguousarray(states).tobytes())
                    places[number], lengths[number] = written, len(states)
                    written += len(states)
                bar.update(len(some))
        self._file.flush()
        self._places, self._lengths = places, lengths
        self._states = np.memmap(self._file, np.float16, "r", shape=(written, infused.model.config.hidden_size))

    def _read(self, infused: Infused, numbers: Sequence[int]) -> list[np.ndarray[Any, Any]]:
        """Return the states (tokens, hidden) of some examples, without padding."""
        batch = self.collator([self.examples[number] for number in numbers])
        states = ask(infused.model.base_model, batch).states[self.name].half().cpu().numpy()
        return [states[row][mask] for row, mask in enumerate(batch["attention_mask"].bool().numpy())]

    def collate(self, examples: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
        """Return a batch for `LinkerAlone`: what the knowledge base found, and the states of the words."""
        batch = self.collator(examples)
        real = batch["attention_mask"].bool().numpy()
        states = np.zeros((*real.shape, self._states.shape[1]), np.float32)
        for row, example in enumerate(examples):
            first = self._places[example[_NUMBER]]
            states[row, real[row]] = self._states[first : first + self._lengths[example[_NUMBER]]]
        mine = {name: tensor for name, tensor in batch.items() if name.startswith(part_name(self.name, ""))}
        return {"states": torch.from_numpy(states), **mine}


class LinkerAlone(nn.Module):
    """One linker of an infused model, and the projection of words that it reads; learns from frozen states."""

    def __init__(self, infused: Infused, name: str, *, loss: LinkLoss = "margin", margin: float = 0.2) -> None:
        super().__init__()
        kars: Any = infused.model.base_model.knowledge
        self.name, self.kind, self.margin, self.size = name, loss, margin, kars[name].size
        # under this name a learning rate for new weights finds them
        self.knowledge = nn.ModuleList([kars[name].project, kars[name].linker])

    def forward(self, states: Tensor, **batch: Tensor) -> Losses:
        """Return the linker's loss."""
        project, linker = self.knowledge
        words = project(states.to(next(project.parameters()).dtype))
        _, scores = linker(words, found_in(batch, self.name, words.dtype, self.size))
        loss = link_loss(self.kind, scores, batch, self.name, self.margin)
        return Losses(loss=loss, parts={"linking": loss})
