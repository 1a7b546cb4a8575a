"""Stage 1 without reading every text again: as long as the encoder is frozen, its states are always the same.

They are computed once, kept in a temporary file (4 bytes x hidden size per token), and a linker learns from them: the
encoder runs once, not once per epoch.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from infuser.infused import Infused
from infuser.linking.objective import LinkLoss, Losses, link_loss
from infuser.methods.entity_reader import found_in, trace_candidates
from infuser.progress import progress_bar
from infuser.signals.candidates import part_name

_BATCH = 32
_NUMBER = "number"
"""The field that holds an example's number."""


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
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        self._file: Any = tempfile.NamedTemporaryFile(dir=folder, prefix=".states-")  # noqa: SIM115  it goes with us
        self._places, self._lengths = np.zeros((2, len(examples)), np.int64)
        order = sorted(range(len(examples)), key=lambda number: len(examples[number]["text"]))
        written = 0
        with progress_bar("reading texts once", len(examples), unit="texts", shown=progress) as bar:
            for first in range(0, len(order), _BATCH):
                some = order[first : first + _BATCH]
                for number, states in zip(some, self._read(infused, some), strict=True):
                    self._file.write(states.tobytes())
                    self._places[number], self._lengths[number] = written, len(states)
                    written += len(states)
                bar.advance(len(some))
        self._file.flush()
        self._path, self._shape = self._file.name, (written, infused.model.config.hidden_size)
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
