"""Save and load an infused model: safetensors and JSON, whole or only what is new.

    out/infuser.json            method, settings, sources, head, base checkpoint
    out/digests.json            the digests of all files but README.md and built knowledge, see `seals`
    out/README.md               the model card
    out/knowledge.safetensors   the new weights
    out/config.json, model.safetensors, tokenizer...   the host, as transformers writes it (whole form only)
    out/sources/                what sources store of their own, and folders that came along, see `packing`

The whole form is a plain checkpoint too: transformers loads it without us, and without knowledge.
"""

from __future__ import annotations

import copy
import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from infuser.errors import CheckpointError, UnknownNameError
from infuser.files import json_of, parse_json, whole_folder
from infuser.hosts import is_new_weight, plain_config, plain_state
from infuser.hosts.anatomy import NEW
from infuser.hosts.checkpoints import CARD
from infuser.hosts.loading import load_tokenizer, save_tokenizer, settle
from infuser.methods.together import describe
from infuser.model_card import (
    check_licenses,
    hub_id,
    read_comparison,
    versions_of_packages,
    write_model_card,
)
from infuser.registry import METHODS
from infuser.seals import checking_seal, seal
from infuser.sources.naming import source_names
from infuser.sources.packing import INSIDE
from infuser.sources.storage import load_sources, save_sources
from infuser.types import Method, Source, Vocabulary
from infuser.versions import __version__

_NEW = "knowledge.safetensors"
_RIGHT_BASE = "Pass the right one as infuser.load(..., base=...)."


def save_parts(
    directory: Path,
    model: PreTrainedModel,
    method: Method,
    tokenizer: PreTrainedTokenizerBase,
    sources: Sequence[Source],
    vocabulary: Vocabulary,
    *,
    base: str | None,
    only_new: bool,
    portable: bool,
    licenses: Mapping[str, str],
    comparison: str | None,
) -> None:
    """Write the parts of an infused model into a temporary directory, then put it in place in one step."""
    directory = directory.resolve()
    if directory.exists() and not directory.is_dir():
        raise CheckpointError(f"{directory} is a file; save into a new or empty directory.")
    if directory.exists() and not (directory / CARD).exists() and any(directory.iterdir()):
        raise CheckpointError(f"{directory} holds other files; save into a new or empty directory.")
    settings, names = describe(method), source_names(sources)
    licenses = check_licenses(licenses, names)
    with whole_folder(directory) as draft, plain_config(model):
        records, knowledge = save_sources(sources, names, draft / "sources", portable=portable)
        origin = _save_weights(model, base, draft, only_new=only_new)
        if portable and not only_new and hub_id(base) is None:  # a path says nothing elsewhere
            origin = {"id": None, "name": Path(base).name if base else None}
        card = {
            "infuser": __version__,
            "form": "only-new" if only_new else "whole",
            "method": {"name": settings.pop("kind"), "settings": settings},
            **dataclasses.asdict(vocabulary),
            "model": type(model).__name__,
            "sources": records,
            "knowledge": knowledge,
            "licenses": licenses,
            "base": origin,
            "versions": versions_of_packages(),
        }
        save_tokenizer(tokenizer, draft)
        (draft / CARD).write_text(json_of(card), encoding="utf-8")
        write_model_card(draft, comparison=comparison)
        seal(draft, apart=[draft / "sources" / INSIDE])


def _save_weights(model: PreTrainedModel, base: str | None, draft: Path, *, only_new: bool) -> dict[str, str | None]:
    """Write the new weights and, in the whole form, the host; return what the card says about the base checkpoint."""
    state = model.state_dict()
    if bad := [name for name, tensor in state.items() if not torch.isfinite(tensor).all()]:
        raise CheckpointError(
            f"{len(bad)} tensors hold values that are infinite or not a number, e.g. {bad[0]!r}: training diverged. "
            "Train again with a lower learning rate."
        )
    new = {name for name in state if is_new_weight(name)}
    about = {"id": base}
    if only_new:
        of_base = _base_state(model, base)
        new |= state.keys() - of_base.keys()
        changed = [name for name, tensor in of_base.items() if not _same(tensor, state[name])]
        if changed:
            raise CheckpointError(
                f"The host's own weights differ from {base!r} ({len(changed)} tensors, e.g. {changed[0]!r}), so the "
                "new weights alone would not restore it. Save the whole form, or freeze the host while training."
            )
        about["sha256"] = digest(of_base)
        model.config.save_pretrained(draft)
    else:
        model.save_pretrained(draft, state_dict=plain_state(model))
    save_file({name: state[name].detach().cpu().contiguous().clone() for name in sorted(new)}, draft / _NEW)
    return about


def load_parts(directory: Path, *, sources: Sequence[Source] | None, base: str | None) -> dict[str, Any]:
    """Read back model, method, tokenizer, sources, ... by name; or raise an error that names the broken part."""
    card = _read_card(directory)
    with checking_seal(directory, "Save the model again."):
        if sources is not None and len(sources) != len(card["sources"]):
            raise CheckpointError(
                f"{directory} was saved with {len(card['sources'])} sources, but {len(sources)} were given to load()."
            )
        if sources is None:
            sources = load_sources(card["sources"], directory / "sources")
        method = _method_of(card, directory)
        new = _read_new(directory / _NEW)
        config = _read_config(directory)
        if card["form"] == "whole":
            origin = card["base"].get("id")
            model = _read_model(card["model"], str(directory), config, new, hint="Save the model again.")
        else:
            origin = base or card["base"].get("id")
            model = _read_model(card["model"], str(origin), config, new, hint=_RIGHT_BASE)
            found = digest({name: tensor for name, tensor in model.state_dict().items() if name not in new})
            wanted = str(card["base"].get("sha256"))
            if found != wanted:
                raise CheckpointError(
                    f"{directory} holds new weights for the base checkpoint {card['base'].get('id')!r} (sha256 "
                    f"{wanted[:12]}...), but {origin!r} has other weights ({found[:12]}...). {_RIGHT_BASE}"
                )
        vocabulary = _vocabulary_of(card, sources)
        method.attach(model, sources=sources, vocabulary=vocabulary)
        _fill(model, new, directory / _NEW)
        model.train(False)
        return {
            "model": model,
            "method": method,
            "tokenizer": load_tokenizer(str(directory)),
            "sources": tuple(sources),
            "vocabulary": vocabulary,
            "base": origin,
            "licenses": card.get("licenses", {}),
            "comparison": read_comparison(directory),
        }


def restore(model: PreTrainedModel, checkpoint: Path) -> None:
    """Fill in the new weights that a checkpoint of an infused model holds, as `transformers.Trainer` writes it.

    Of a folder that `Infused.save` wrote, those of knowledge bases are taken if they fit: they stand between the
    blocks, whatever head comes above. Maps belong to their sources and start from scratch.
    """
    found: dict[str, Tensor] = {}
    for path in sorted(checkpoint.glob("model*.safetensors")):
        with safe_open(path, framework="pt") as file:
            found |= {name: file.get_tensor(name) for name in file.keys() if is_new_weight(name)}  # noqa: SIM118
    if found:
        _fill(model, _renamed(model, found), checkpoint)
    elif (checkpoint / _NEW).is_file() and NEW in model.base_model._modules:
        new = {name: tensor for name, tensor in _read_new(checkpoint / _NEW).items() if is_new_weight(name)}
        named = _renamed(model, new)
        own = {name: tensor.shape for name, tensor in model.state_dict().items() if is_new_weight(name)}
        if {name: tensor.shape for name, tensor in named.items()} == own:  # a linker goes on with another head
            _fill(model, named, checkpoint / _NEW)


def _renamed(model: PreTrainedModel, found: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors under the model's own names: a head more or less changes the beginning of all names."""
    own, prefix = model.state_dict(), f"{model.base_model_prefix}."
    named = {}
    for name, tensor in found.items():
        spellings = (name, name.removeprefix(prefix), prefix + name)
        named[next((spelling for spelling in spellings if spelling in own), name)] = tensor
    return named


def digest(state: Mapping[str, Tensor]) -> str:
    """Return the sha256 of tensors with their names, types and shapes."""
    total = hashlib.sha256()
    for name in sorted(state):
        tensor = state[name].detach().cpu().contiguous()
        total.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        total.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return total.hexdigest()


def _read_card(directory: Path) -> dict[str, Any]:
    path = directory / CARD
    if not path.is_file():
        raise CheckpointError(f"{directory} is not a saved infused model: it has no {CARD}.")
    try:
        card: dict[str, Any] = parse_json(path, "it")
        kinds = {"form": str, "method": dict, "with_terms": bool, "model": str, "sources": list, "base": dict}
        wrong = [name for name, kind in kinds.items() if not isinstance(card.get(name), kind)]
        wrong += ["form"] if card["form"] not in ("whole", "only-new") else []
    except (OSError, ValueError, AttributeError, KeyError) as error:
        raise CheckpointError(f"{path} is damaged ({error}); save the model again.") from error
    if wrong:
        raise CheckpointError(f"{path} is damaged: it lacks a usable {', '.join(wrong)}. Save the model again.")
    return card


def _method_of(card: dict[str, Any], directory: Path) -> Method:
    try:
        method: Method = METHODS[card["method"]["name"]](**card["method"]["settings"])
    except (TypeError, KeyError) as error:
        if isinstance(error, UnknownNameError):
            raise
        raise CheckpointError(
            f"The method in {directory / CARD} cannot be set up ({error}). The file is damaged or comes from another "
            f"version of infuser than {__version__}: then train it again."
        ) from error
    return method


def _vocabulary_of(card: Mapping[str, Any], sources: Sequence[Source]) -> Vocabulary:
    """Return the vocabulary of a model; cards from before there were types have none that its weights depend on."""
    if "types" not in card:
        return dataclasses.replace(Vocabulary.of(sources), with_terms=card["with_terms"])
    types, relations = (tuple(map(tuple, card[name])) for name in ("types", "relations"))
    return Vocabulary(types, relations, card["with_terms"])


def _read_config(directory: Path) -> PreTrainedConfig:
    try:
        (directory / "config.json").read_bytes()  # transformers would ask the network for a missing one
        config: PreTrainedConfig = transformers.AutoConfig.from_pretrained(directory, trust_remote_code=False)
    except Exception as error:  # a damaged file may become any
        raise CheckpointError(f"{directory / 'config.json'} is missing or damaged; save the model again.") from error
    return config


def _read_new(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path} is missing or damaged ({error}); save the model again.") from error


def _read_model(
    kind: str, checkpoint: str, config: PreTrainedConfig, new: Mapping[str, Tensor], *, hint: str
) -> PreTrainedModel:
    """Load the host; weights that are not among `new` must be there, or transformers would make them up."""
    cls: Any = getattr(transformers, kind, None)
    is_model = isinstance(cls, type) and issubclass(cls, PreTrainedModel)
    if not is_model:
        raise CheckpointError(f"This transformers ({transformers.__version__}) has no model class {kind!r}.")
    try:
        model, info = cls.from_pretrained(
            checkpoint, config=config, use_safetensors=True, trust_remote_code=False, output_loading_info=True
        )
    except (OSError, ValueError, RuntimeError, KeyError, TypeError, SafetensorError) as error:
        raise CheckpointError(
            f"Cannot load the host from {checkpoint!r}: it is missing or damaged. {hint} ({error})"
        ) from error
    missing = sorted(set(info["missing_keys"]) - new.keys())
    if missing:
        raise CheckpointError(f"The host in {checkpoint!r} lacks {len(missing)} weights, e.g. {missing[0]!r}. {hint}")
    return settle(model)


def _fill(model: PreTrainedModel, new: Mapping[str, Tensor], where: Path) -> None:
    wanted = {name for name in model.state_dict() if is_new_weight(name)}
    for name, weight in model.named_parameters():
        if name in new:  # new weights may be kept in a finer type than the host's
            weight.data = weight.data.to(new[name].dtype)
    try:
        _, surplus = model.load_state_dict(dict(new), strict=False)
    except RuntimeError as error:
        raise CheckpointError(
            f"The new weights in {where} have other shapes than the method's settings and number of sources ask for. "
            f"({error})"
        ) from error
    lacking = sorted(wanted - new.keys())
    if lacking or surplus:
        raise CheckpointError(
            f"The new weights in {where} do not fit the method's settings and sources: missing {lacking[:3]}, "
            f"unexpected {surplus[:3]}."
        )


def _base_state(model: PreTrainedModel, base: str | None) -> dict[str, Tensor]:
    """Return the tensors that the base checkpoint itself holds; a fresh head is not among them."""
    if base is None:
        raise CheckpointError("Saving only new weights needs a base checkpoint: give infuse() a hub id or a directory.")
    cls: Any = type(model)
    try:
        config = copy.deepcopy(model.config)  # loading writes into it
        fresh, info = cls.from_pretrained(
            base, config=config, use_safetensors=True, trust_remote_code=False, output_loading_info=True
        )
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise CheckpointError(f"The base checkpoint {base!r} cannot be loaded again: {error}") from error
    missing = set(info["missing_keys"])
    return {name: tensor for name, tensor in plain_state(fresh).items() if name not in missing}


def _same(first: Tensor, second: Tensor) -> bool:
    return first.shape == second.shape and torch.equal(first, second.to(first.dtype).cpu())
