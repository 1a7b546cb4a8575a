"""Models as commands name them: an asset, a hub id, a plain checkpoint, a saved infused model."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from infuser import assets
from infuser.errors import CheckpointError, InputError
from infuser.files import whole_folder
from infuser.types import Source

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from infuser.infused import Infused
    from infuser.signals import Collator

CARD = "infuser.json"
"""The file by which a saved infused model is known."""
_HUB_ID = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")
_HEAD = "ForSequenceClassification"


@contextmanager
def loading(console: Console, what: str) -> Iterator[None]:
    """Show that something is loaded, and keep transformers from telling about expected things on the way."""
    with console.status(f"Loading {what}"):
        from transformers.utils import logging as transformers_logging

        logging.getLogger("huggingface_hub").setLevel("ERROR")  # it tells of every attempt to connect
        transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        transformers_logging.set_verbosity_error()  # type: ignore[no-untyped-call]  # a fresh head is what training asks for
        yield


def find_checkpoint(name: str, console: Console) -> str:
    """Return what transformers can load: the folder of an asset, which is fetched when missing, or the name itself."""
    if name not in assets.ASSETS or Path(name).exists():
        _check_exists(name)
        return name
    with console.status(f"Fetching {name}") as status:

        def tell(message: str, done: int, total: int) -> None:
            status.update(f"{message} ({done / total:.0%})" if total else message)

        return str(assets.fetch(name, progress=tell))


def _check_exists(name: str) -> None:
    """Say at once that there is no such folder, where a name cannot be a hub id: asking the hub takes its time."""
    path = Path(name)
    if not (path / "config.json").exists() and (path / "model" / "config.json").exists():
        raise CheckpointError(f"{name!r} is the folder of a run. Its model is {str(path / 'model')!r}.")
    if path.exists() or (_HUB_ID.fullmatch(name) and not (path.parts[1:] and Path(path.parts[0]).exists())):
        return
    raise CheckpointError(
        f"There is no model {name!r}: no such folder, and not a hub id either. See what can be fetched with: "
        "infuser assets list"
    )


def open_infused(name: str, sources: Sequence[Source], console: Console) -> Infused:
    """Return a saved infused model (given sources replace its own), or a plain checkpoint infused on the fly."""
    folder = find_checkpoint(name, console)
    with loading(console, "the model"):
        import infuser

        if (Path(name) / CARD).exists():
            return infuser.load(name, sources=sources or None)
        if not sources:
            raise InputError(
                f"{name!r} holds no knowledge (it has no {CARD}). Name some to infuse it on the fly, e.g. --entities "
                "FILE, or give a folder that `infuser train` wrote."
            )
        task = "sequence-classification" if is_classifier(folder) else "encoder"
        infused = infuser.infuse(folder, sources=sources, task=task)
        infused.model.train(False)
        return infused


def open_classifier(
    name: str, sources: Sequence[Source], console: Console, *, knowledge: bool
) -> tuple[PreTrainedModel, Collator]:
    """Return a model that gives each text a label, and what makes its batches, with knowledge or without."""
    saved = (Path(name) / CARD).exists()
    if sources and not knowledge:
        raise InputError("--no-knowledge leaves all knowledge out, so it cannot be combined with sources.")
    if saved or sources:
        infused = open_infused(name, sources, console)
        model = infused.model
        collator = infused.collator() if knowledge else plain_collator(model, infused.tokenizer)
    else:
        folder = find_checkpoint(name, console)
        with loading(console, "the model"):
            from infuser.hosts.loading import load_model, load_tokenizer

            if not is_classifier(folder):
                raise CheckpointError(
                    f"{name!r} is an encoder without a trained classifier. Train one: infuser train {name} DATA"
                )
            model = load_model(folder, "sequence-classification")
            model.train(False)
            collator = plain_collator(model, load_tokenizer(folder))
    if not type(model).__name__.endswith(_HEAD):
        raise CheckpointError(f"{name!r} holds a {type(model).__name__}; predicting labels takes a ...{_HEAD}.")
    if model.config.problem_type == "multi_label_classification":
        raise CheckpointError(f"{name!r} gives a text several labels at once; this command gives it one.")
    return model, collator


def plain_collator(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> Collator:
    """Return a collator without knowledge; an infused model answers its batches as the plain one does."""
    from infuser.hosts.loading import longest_input
    from infuser.signals import Collator

    return Collator(tokenizer, max_length=longest_input(model, tokenizer))


def is_classifier(checkpoint: str) -> bool:
    """Tell whether a checkpoint says that it holds a classifier of texts."""
    return any(str(kind).endswith(_HEAD) for kind in _config(checkpoint).get("architectures") or ())


def classifier_options(checkpoint: str, labels: Sequence[str]) -> dict[str, Any]:
    """Return the options that load a checkpoint for these labels, in place of a head for others if it has one."""
    options: dict[str, Any] = {
        "num_labels": len(labels),
        "id2label": dict(enumerate(labels)),
        "label2id": {label: number for number, label in enumerate(labels)},
    }
    if is_classifier(checkpoint) and len(_config(checkpoint).get("id2label") or (0, 1)) != len(labels):
        options["ignore_mismatched_sizes"] = True
    return options


def _config(checkpoint: str) -> dict[str, Any]:
    """Return a checkpoint's config.json."""
    from transformers import PreTrainedConfig

    try:
        config: dict[str, Any] = PreTrainedConfig.get_config_dict(checkpoint)[0]
    except (OSError, ValueError) as error:
        raise CheckpointError(
            f"Cannot load the checkpoint {checkpoint!r}: it is neither a folder with a config.json nor a hub id that "
            f"can be reached from here. ({str(error).splitlines()[0]})"
        ) from error
    return config


def save_plain(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Write a plain checkpoint, whole or not at all."""
    with whole_folder(folder) as draft:
        model.save_pretrained(draft)
        tokenizer.save_pretrained(draft)
