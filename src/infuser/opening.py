"""Open models by name for use: infused ones, classifiers with or without knowledge; save plain checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from infuser.errors import CheckpointError, InputError
from infuser.files import whole_folder
from infuser.hosts.checkpoints import CARD, CLASSIFIER, TAGGER, Progress, find_checkpoint, head_of, is_infused
from infuser.hosts.loading import load_model, load_tokenizer, longest_input, save_tokenizer
from infuser.hub import download
from infuser.infused import Infused, infuse, load
from infuser.seals import seal
from infuser.signals import Collator
from infuser.types import Source


def from_pretrained(
    id_or_directory: str | Path,
    *,
    sources: Sequence[Source] | None = None,
    base: str | None = None,
    revision: str | None = None,
    token: str | bool | None = None,
    cache_dir: str | Path | None = None,
    local_files_only: bool = False,
    endpoint: str | None = None,
) -> Infused:
    """Return an infused model of the Hugging Face hub, or of a directory that `Infused.save` wrote.

    Of a repository only the files are fetched that its list of digests names, and the knowledge that came along; no
    code of it is run. `sources` and `base` are those of `load`.
    """
    directory = download(
        id_or_directory,
        revision=revision,
        token=token,
        cache_dir=cache_dir,
        local_files_only=local_files_only,
        endpoint=endpoint,
    )
    return load(directory, sources=sources, base=base)


def open_infused(name: str, sources: Sequence[Source] = (), *, progress: Progress | None = None) -> Infused:
    """Return a saved infused model (given sources replace its own), or a plain checkpoint infused on the fly."""
    folder = find_checkpoint(name, progress)
    if is_infused(name):
        return load(name, sources=sources or None)
    if not sources:
        raise InputError(
            f"{name!r} holds no knowledge (it has no {CARD}). Name some to infuse it on the fly, e.g. --entities "
            "FILE, or give a folder that `infuser train` wrote."
        )
    infused = infuse(folder, sources=sources, task=head_of(folder))
    infused.model.train(False)
    return infused


def open_plain(name: str, *, progress: Progress | None = None) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Return a plain checkpoint, in evaluation mode, with its classifier if it has one."""
    folder = find_checkpoint(name, progress)
    model = load_model(folder, head_of(folder))
    model.train(False)
    return model, load_tokenizer(folder)


def open_classifier(
    name: str,
    sources: Sequence[Source] = (),
    *,
    knowledge: bool = True,
    taggers: bool = False,
    progress: Progress | None = None,
) -> tuple[PreTrainedModel, Collator]:
    """Return a model that gives each text one label, and the collator of its batches, with knowledge or without.

    With `taggers`, it may also be one that gives each word a tag.
    """
    if sources and not knowledge:
        raise InputError("--no-knowledge leaves all knowledge out, so it cannot be combined with sources.")
    if is_infused(name) or sources:
        infused = open_infused(name, sources, progress=progress)
        model = infused.model
        collator = infused.collator() if knowledge else plain_collator(model, infused.tokenizer)
    else:
        if head_of(find_checkpoint(name, progress)) == "encoder":
            raise CheckpointError(
                f"{name!r} is an encoder without a trained classifier. Train one: infuser train {name} DATA"
            )
        model, tokenizer = open_plain(name)
        collator = plain_collator(model, tokenizer)
    if not type(model).__name__.endswith((CLASSIFIER, TAGGER) if taggers else CLASSIFIER):
        raise CheckpointError(f"{name!r} holds a {type(model).__name__}; predicting labels takes a ...{CLASSIFIER}.")
    if model.config.problem_type == "multi_label_classification":
        raise CheckpointError(f"{name!r} gives a text several labels at once; this command gives it one.")
    return model, collator


def plain_collator(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> Collator:
    """Return a collator without knowledge; an infused model answers its batches as the plain one does."""
    return Collator(tokenizer, max_length=longest_input(model, tokenizer))


def save_plain(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Write a plain checkpoint, whole or not at all."""
    with whole_folder(folder) as draft:
        model.save_pretrained(draft)
        save_tokenizer(tokenizer, draft)
        seal(draft)
