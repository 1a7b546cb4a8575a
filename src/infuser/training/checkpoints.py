"""Checkpoints from which training resumes exactly: safetensors and JSON, written whole or not at all.

out/checkpoint-00000120/
├── state.json             step, history, settings and data of the run
├── model.safetensors      the weights
├── best.safetensors       the best weights so far, once there was an evaluation
├── optimizer.safetensors  moments of every trained weight
├── random.safetensors     states of all random generators, one row per process
└── digests.json           the SHA-256 of these files
"""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from infuser.errors import CheckpointError, InputError
from infuser.files import digest_of, json_of, nan_to_null, parse_json, whole_folder
from infuser.seals import check_seal, seal

_PREFIX = "checkpoint-"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The content of a checkpoint: named groups of tensors, and plain values for JSON."""

    tensors: dict[str, dict[str, Tensor]]
    facts: dict[str, Any]


@dataclass(frozen=True, slots=True)
class CheckpointStore:
    """Writes and reads the checkpoints of one run; does nothing without a directory.

    Of several processes the first one writes and all read, so they must share the directory.
    """

    out: Path | None
    accelerator: Accelerator
    model: nn.Module
    optimizer: torch.optim.Optimizer
    made_with: Mapping[str, Any]
    """All that decides the result; a checkpoint made with anything else is rejected."""

    def save(
        self, step: int, run: Mapping[str, Any], best: dict[str, Tensor] | None, *, finished: bool = False
    ) -> None:
        """Write all that training needs to resume from here, or the final weights alone."""
        if self.out is None:
            return
        scaler = self.accelerator.scaler
        tensors = {}
        if not finished:
            states = random_states(self.accelerator.device)
            tensors["random"] = {name: self._rows(state) for name, state in states.items()}
        if self.accelerator.is_main_process:
            tensors["model"] = cpu_state_dict(self.model)
            if not finished:
                tensors["optimizer"] = pack_optimizer(self.optimizer)
            if best is not None:
                tensors["best"] = best
            facts = {"finished": finished, "run": run, "made_with": self.made_with}
            facts["problem_type"] = getattr(self._config, "problem_type", None)
            facts["scaler"] = scaler.state_dict() if scaler is not None else None
            self._write(self.out / f"{_PREFIX}{step:08d}", tensors, facts)
        self.accelerator.wait_for_everyone()

    def open(self, *, resume: bool) -> Checkpoint | None:
        """Restore model, optimizer and random generators from the newest checkpoint, if there is one."""
        if self.out is None:
            return None
        if not resume:
            if self.accelerator.is_main_process:
                remove_checkpoints(self.out)
            self.accelerator.wait_for_everyone()
            return None
        path = newest_checkpoint(self.out)
        if path is None:
            return None
        found = load_checkpoint(path, self.made_with)
        if found.facts.get("problem_type"):  # transformers sets it when it computes the first loss
            self._config.problem_type = found.facts["problem_type"]
        try:
            self.model.load_state_dict(found.tensors["model"])
            if not found.facts["finished"]:
                unpack_optimizer(self.optimizer, found.tensors["optimizer"])
                mine = self.accelerator.process_index
                states = {name: rows[mine] for name, rows in found.tensors["random"].items()}
                restore_random_states(states, self.accelerator.device)
                if self.accelerator.scaler is not None:
                    self.accelerator.scaler.load_state_dict(found.facts["scaler"])
        except (KeyError, RuntimeError, ValueError) as problem:
            raise CheckpointError(
                f"Cannot resume from {path}: {problem!r}. Remove that directory, or start over with resume=False."
            ) from problem
        return found

    @property
    def _config(self) -> Any:
        return getattr(self.model, "config", None)

    def _write(self, path: Path, tensors: Mapping[str, dict[str, Tensor]], facts: Mapping[str, Any]) -> None:
        """Write a checkpoint beside the previous one, then remove the previous one."""
        try:
            with whole_folder(path) as unfinished:
                for name, group in tensors.items():
                    save_file(group, unfinished / f"{name}.safetensors")
                (unfinished / "state.json").write_text(json_of(nan_to_null(facts)), encoding="utf-8")
                seal(unfinished)
        except (InputError, OSError, SafetensorError) as problem:
            raise CheckpointError(
                f"Cannot write the checkpoint {path}: {problem}. The previous checkpoint, if any, is untouched; "
                "free some space or choose another directory and run again."
            ) from problem
        remove_checkpoints(path.parent, keep=path)

    def _rows(self, state: Tensor) -> Tensor:
        """Return the states of all processes, (processes, length)."""
        if self.accelerator.num_processes == 1:
            return state[None]
        rows: Tensor = self.accelerator.gather(state[None].to(self.accelerator.device))
        return rows.cpu()


def newest_checkpoint(out: Path) -> Path | None:
    """Return the checkpoint with the most steps, or None; unfinished ones do not count."""
    return max(out.glob(f"{_PREFIX}*"), default=None)


def remove_checkpoints(out: Path, *, keep: Path | None = None) -> None:
    """Remove all checkpoints in a directory but one, and what is left of unfinished ones."""
    for path in [*out.glob(f"{_PREFIX}*"), *out.glob(f".*{_PREFIX}*")]:
        if path != keep:
            shutil.rmtree(path, ignore_errors=True)


def load_checkpoint(path: Path, made_with: Mapping[str, Any]) -> Checkpoint:
    """Read a checkpoint; raise if its run was made with other settings, data or weights."""
    check_seal(path, "Remove that checkpoint, or start over with resume=False.")
    try:
        facts: dict[str, Any] = parse_json(path / "state.json", "it")
        tensors = {file.stem: load_file(file) for file in sorted(path.glob("*.safetensors"))}
        before: dict[str, Any] = facts["made_with"]
        if not {"run", "finished"} <= set(facts):
            raise ValueError("state.json is incomplete")
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as problem:
        raise CheckpointError(
            f"Cannot read the checkpoint {path}: {problem!r}. Remove that directory, or start over with resume=False."
        ) from problem
    differing = sorted(name for name in {*before, *made_with} if before.get(name) != made_with.get(name))
    if differing:
        changes = "; ".join(f"{name} was {before.get(name)!r}, is {made_with.get(name)!r}" for name in differing)
        raise CheckpointError(
            f"Cannot resume from {path}, it belongs to a different run: {changes}. "
            "Use the same settings and data, another directory, or start over with resume=False."
        )
    return Checkpoint(tensors, facts)


def examples_digest(examples: Sequence[Mapping[str, Any]]) -> str:
    """Return the number of examples and a digest over all of them."""
    digest = hashlib.sha256()
    for place in range(len(examples)):
        digest.update(json.dumps(_plain(examples[place]), sort_keys=True).encode())
    return f"{len(examples)} examples ({digest.hexdigest()[:12]})"


def _plain(value: Any) -> Any:
    """Return a value as JSON data that is the same in every process."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {key: _plain(one) for key, one in value.items()}
        return _in_order([_plain(key), _plain(one)] for key, one in value.items())
    if isinstance(value, set | frozenset):
        return _in_order(map(_plain, value))
    if is_dataclass(value) and not isinstance(value, type):
        return [type(value).__name__, {field.name: _plain(getattr(value, field.name)) for field in fields(value)}]
    if hasattr(value, "tolist"):  # arrays and tensors
        return [str(value.dtype), list(value.shape), _plain(value.tolist())]
    if isinstance(value, bytes):
        return value.hex()
    return str(value) if isinstance(value, PurePath) else type(value).__name__  # others print their address


def _in_order(values: Iterable[Any]) -> list[Any]:
    return sorted(values, key=lambda value: json.dumps(value, sort_keys=True))


def weights_digest(model: nn.Module) -> str:
    """Return the number of weights and a digest over names, shapes and which are trained."""
    shapes = [(name, list(weight.shape), weight.requires_grad) for name, weight in model.named_parameters()]
    return f"{len(shapes)} tensors ({digest_of(shapes)})"


def cpu_state_dict(model: nn.Module) -> dict[str, Tensor]:
    """Return copies of all weights on the CPU; tied weights become separate copies."""
    return {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in model.state_dict().items()}


def pack_optimizer(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the optimizer's moments, named "<number of the weight>.<name>"."""
    return {
        f"{place}.{name}": torch.as_tensor(value).detach().to("cpu", copy=True).contiguous()
        for place, values in optimizer.state_dict()["state"].items()
        for name, value in values.items()
    }


def unpack_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Load the moments that `pack_optimizer` returned."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        place, name = key.split(".", 1)
        state.setdefault(int(place), {})[name] = tensor
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})


def random_states(device: torch.device) -> dict[str, Tensor]:
    """Return the states of the generators of Python, NumPy, torch and the device as tensors."""
    _, words, gauss = random.getstate()
    generator = np.random.get_state(legacy=False)
    if generator["bit_generator"] != "MT19937":
        raise CheckpointError(f"Cannot store NumPy's generator {generator['bit_generator']}; use its default, MT19937.")
    keys, position = generator["state"]["key"], generator["state"]["pos"]
    states = {
        "python": torch.tensor(words, dtype=torch.int64),
        "python_gauss": torch.tensor([float("nan") if gauss is None else gauss], dtype=torch.float64),
        "numpy": torch.tensor([*keys.tolist(), position, generator["has_gauss"]], dtype=torch.int64),
        "numpy_gauss": torch.tensor([generator["gauss"]], dtype=torch.float64),
        "torch": torch.get_rng_state(),
    }
    if device.type != "cpu":
        states["device"] = torch.get_device_module(device).get_rng_state()
    return states


def restore_random_states(states: Mapping[str, Tensor], device: torch.device) -> None:
    """Set all generators to the states that `random_states` returned."""
    gauss = states["python_gauss"].item()
    random.setstate((3, tuple(states["python"].tolist()), None if gauss != gauss else gauss))
    *keys, position, has_gauss = states["numpy"].tolist()
    np.random.set_state(("MT19937", np.array(keys, dtype=np.uint32), position, has_gauss, states["numpy_gauss"].item()))
    torch.set_rng_state(states["torch"].clone())  # it misreads a tensor that is a row of a larger one
    if device.type != "cpu":
        torch.get_device_module(device).set_rng_state(states["device"].clone())
