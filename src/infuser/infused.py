"""Ties host, method, tokenizer and sources together: infuse(), Infused, load()."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from infuser.errors import HostError, InputError, SourceError
from infuser.hosts import anatomy_of, answering, is_new_weight
from infuser.hosts.answers import pool
from infuser.hosts.loading import load_model, load_tokenizer, longest_input
from infuser.hub import upload
from infuser.methods import Kam
from infuser.methods.together import as_method, methods_of, name_of
from infuser.model_card import write_model_card
from infuser.saving import load_parts, restore, save_parts
from infuser.signals import Collator
from infuser.signals.candidates import bases_among, check_replaceable
from infuser.signals.switching import switching_off
from infuser.types import MAX_TYPES, GivesUpBases, HasBases, Method, Source, Vocabulary, WritesText


@dataclass(frozen=True, slots=True)
class Infused:
    """A host together with its method, tokenizer and sources."""

    model: PreTrainedModel
    """An ordinary transformers model; knowledge travels in the batch."""
    method: Method
    tokenizer: PreTrainedTokenizerBase
    sources: tuple[Source, ...]
    vocabulary: Vocabulary
    """The types and relations that the model distinguishes, as its sources declared them when it was infused."""
    base: str | None = None
    """The hub id or directory that the host came from."""
    licenses: Mapping[str, str] = field(default_factory=dict)
    """Licences for the model card: of the "model", its "host" and its sources, by their names."""
    comparison: str | None = field(default=None, repr=False)
    """The table of the comparison that the model comes from, in Markdown; the model card shows it."""
    _collators: dict[object, Collator] = field(default_factory=dict, init=False, repr=False, compare=False)
    """The collator of `batch`, by the state of the tokenizer and the encoder it was made for."""

    def collator(self, **options: Any) -> Collator:
        """Return a data collator for `DataLoader` and `Trainer`: examples with text, pair and label in, batch out."""
        options.setdefault("max_length", longest_input(self.model, self.tokenizer))
        methods = methods_of(self.method)
        options.setdefault("writer", next((one for one in methods if isinstance(one, WritesText)), None))
        options.setdefault("tensors", not all(isinstance(one, WritesText) for one in methods))
        return Collator(self.tokenizer, self.sources, vocabulary=self.vocabulary, encoder=id(self._encoder), **options)

    @property
    def _encoder(self) -> PreTrainedModel:
        """The encoder below the head, also where PEFT stands around the model."""
        model: Any = self.model
        encoder: PreTrainedModel = getattr(model, "get_base_model", lambda: model)().base_model
        return encoder

    def batch(self, texts: Sequence[Any], pairs: Sequence[Any] | None = None) -> dict[str, Tensor]:
        """Return token tensors and knowledge for these texts, on the model's device, ready for the model."""
        batch = self._batch_collator().encode(texts, pairs)
        return {name: tensor.to(self.model.device) for name, tensor in batch.items()}

    def _batch_collator(self) -> Collator:
        """Return the collator of earlier calls, or a new one if the tokenizer was changed since."""
        tokenizer = self.tokenizer
        state = (longest_input(self.model, tokenizer), len(tokenizer), tokenizer.pad_token, id(self._encoder))
        collator = self._collators.get(state)
        if collator is None:
            self._collators.clear()
            collator = self._collators[state] = self.collator()
        return collator

    def encode(self, texts: Sequence[str], pairs: Sequence[str] | None = None) -> Tensor:
        """Return the last hidden states (batch, seq, hidden), without dropout."""
        encoder: Any = self._encoder
        with answering(encoder):
            states: Tensor = encoder(**self.batch(texts, pairs)).last_hidden_state
        return states

    def embed(
        self,
        texts: Sequence[str],
        *,
        pooling: Literal["mean", "cls"] = "mean",
        normalize: bool = True,
        batch_size: int = 32,
    ) -> Tensor:
        """Return one vector per text (texts, hidden): the mean of its tokens' last states, or the state of the first.

        `normalize` gives them the length 1. Texts of similar length are read together, `batch_size` at once.
        """
        if isinstance(texts, str):
            raise InputError("embed takes a list of texts, not one string: infused.embed([text]).")
        if pooling not in ("mean", "cls"):
            raise InputError(f"pooling is {pooling!r}; it can be 'mean' or 'cls'.")
        encoder: Any = self._encoder
        vectors = torch.zeros(len(texts), encoder.config.hidden_size, dtype=encoder.dtype, device=encoder.device)
        order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
        with answering(encoder):
            for start in range(0, len(texts), batch_size):
                places = order[start : start + batch_size]
                batch = self.batch([texts[place] for place in places])
                states = encoder(**batch).last_hidden_state  # (batch, seq, hidden)
                vectors[places] = pool(states, batch["attention_mask"], pooling)
        return torch.nn.functional.normalize(vectors, dim=-1) if normalize else vectors

    def disabled(self, *sources: str | int) -> AbstractContextManager[None]:
        """Switch sources off within a `with` block, by name ("graph") or place (0); without any named, all of them.

        Inside the block this thread's batches and calls of the model read as if the source had found nothing; without
        any source left, the model answers as the plain one. Blocks can be nested. What the method `Text` wrote into a
        batch before the block stays in it.
        """
        return switching_off(id(self._encoder), self.sources, sources)

    def without(self, base: str) -> Infused:
        """Take one knowledge base out of the model and return what is left; the others stay where they are."""
        if len(methods_of(self.method)) > 1 or not isinstance(self.method, GivesUpBases):
            raise InputError(
                f"{name_of(self.method)} cannot give up one source; infuse the checkpoint without it. (Several methods "
                "number what they learned by the sources, so that none can be taken from under them.)"
            )
        method = self.method.without(self.model, base)
        gone = [place for place, source in bases_among(self.sources).items() if source.name == base]
        kept = [at for at in range(len(self.sources)) if at not in gone]
        vocabulary = replace(
            self.vocabulary,
            types=tuple(self.vocabulary.types[at] for at in kept),
            relations=tuple(self.vocabulary.relations[at] for at in kept),
        )
        sources = tuple(self.sources[at] for at in kept)
        return replace(self, method=method, sources=sources, vocabulary=vocabulary)

    def with_sources(self, sources: Sequence[Source]) -> Infused:
        """Return the same model with other sources in the place of its own, such as a base that knows more entities."""
        check_replaceable(self.sources, sources)
        return replace(self, sources=tuple(sources))

    def freeze(self, base: str, frozen: bool = True) -> None:
        """Let the weights of one knowledge base stay as they are while others learn, or learn again."""
        bases: dict[str, Any] = {}
        for method in methods_of(self.method):
            bases |= method.bases(self.model) if isinstance(method, HasBases) else {}
        if base not in bases:
            raise InputError(f"There is no knowledge base {base!r} in this model; it has {list(bases)}.")
        bases[base].requires_grad_(not frozen)

    def reading_tokenizer(self) -> PreTrainedTokenizerBase:
        """Return a tokenizer that also reads knowledge, for clients that call a tokenizer and then the model."""
        from infuser.signals.reading import reading_tokenizer

        return reading_tokenizer(self.collator())

    def n_new_weights(self) -> int:
        """Count the weights that the method added."""
        return sum(weight.numel() for name, weight in self.model.named_parameters() if is_new_weight(name))

    def save(
        self,
        directory: str | Path,
        *,
        only_new: bool = False,
        portable: bool = False,
        licenses: Mapping[str, str] | None = None,
    ) -> None:
        """Write everything that `infuser.load` needs; with `only_new`, all but the base checkpoint's own weights.

        `portable` takes built folders along that sources name by path, so that the directory works on another machine;
        they are hard-linked where the disk allows it. `licenses` are added to those that the model has.
        """
        save_parts(
            Path(directory),
            self.model,
            self.method,
            self.tokenizer,
            self.sources,
            self.vocabulary,
            base=self.base,
            only_new=only_new,
            portable=portable,
            licenses={**self.licenses, **(licenses or {})},
            comparison=self.comparison,
        )

    save_pretrained = save

    def push_to_hub(
        self,
        repo_id: str,
        *,
        private: bool | None = None,
        licenses: Mapping[str, str] | None = None,
        token: str | bool | None = None,
        revision: str | None = None,
        commit_message: str = "Upload an infused model",
        endpoint: str | None = None,
    ) -> str:
        """Save the whole model with all its knowledge, upload it to the Hugging Face hub, and return its address.

        The repository is made if it is missing; None leaves it to the hub's settings whether it is private. What
        sources read is published with the model: say under which `licenses` it stands. Sources that hold code of yours
        do not come along.
        """
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / "model"
            self.save(place, portable=True, licenses=licenses)
            write_model_card(place, name=repo_id)
            return upload(
                place,
                repo_id,
                private=private,
                token=token,
                revision=revision,
                commit_message=commit_message,
                endpoint=endpoint,
            )

    def export(self, directory: str | Path, *, int8: bool = False, portable: bool = False) -> None:
        """Write an ONNX graph and all that `infuser.runtime.load` needs to answer with it, without torch.

        int8: quantise the graph; see what that changes with the command `infuser export --int8 --data`.
        portable: take built folders along that sources name by path, as `save` does.
        """
        from infuser.exporting import export_parts  # not above: few need it

        export_parts(Path(directory), self.model, self.collator(), self.method, int8=int8, portable=portable)

    def detach(self) -> PreTrainedModel:
        """Take the method out again and return the plain host."""
        self.method.detach(self.model)
        return self.model


def infuse(
    checkpoint_or_model: str | Path | PreTrainedModel,
    method: Method | Sequence[Method] | None = None,
    *,
    sources: Sequence[Source] | Source,
    max_types: int = MAX_TYPES,
    task: str = "encoder",
    tokenizer: PreTrainedTokenizerBase | None = None,
    **options: Any,
) -> Infused:
    """Put knowledge inside an encoder: a hub id, a local directory or a live model with any head.

    `method` may be several, which then work side by side: [Types(), Kam()]. Of each source, at most `max_types` types
    and as many relations are distinguished, rare ones as one. `task` picks the head when a checkpoint is loaded; other
    options (num_labels=2, ...) go to `from_pretrained`. A checkpoint that `transformers.Trainer` wrote of an infused
    model gives its new weights back, too. Of a directory that `Infused.save` wrote, the host is taken and, if they have
    the same names and shapes, the weights of knowledge bases: a trained linker under another head. `infuser.load`
    reads all of it.
    """
    listed: list[Any] = list(sources) if isinstance(sources, Iterable) and not isinstance(sources, str) else [sources]
    if not listed:
        raise SourceError("infuse() needs at least one source of knowledge, e.g. sources=[Entities({'Bern': 'city'})].")
    for source in listed:
        if not isinstance(source, Source):
            raise SourceError(f"{source!r} is not a source: it has no annotate(texts). See docs/guides/new-source.md.")
    if isinstance(checkpoint_or_model, PreTrainedModel):
        model, base = checkpoint_or_model, checkpoint_or_model.name_or_path or None
        if options:
            raise InputError(f"Options {sorted(options)} are for loading a checkpoint, but a live model was given.")
    else:
        base = str(checkpoint_or_model)
        model = load_model(base, task, **options)
    anatomy_of(model)
    if any(is_new_weight(name) for name, _ in model.named_modules()):
        raise HostError("This model is infused already. Take the first method out with detach() before the next.")
    tokenizer = tokenizer or load_tokenizer(base)
    method = as_method(method or Kam())
    _check_read(method, listed)
    vocabulary = Vocabulary.of(listed, max_types=max_types)
    method.attach(model, sources=listed, vocabulary=vocabulary)
    if model is not checkpoint_or_model:
        restore(model, Path(str(base)))
    return Infused(model, method, tokenizer, tuple(listed), vocabulary, base)


def _check_read(method: Method, sources: Sequence[Source]) -> None:
    """Raise if no method would read a source."""
    bases = bases_among(sources)
    others = [source for place, source in enumerate(sources) if place not in bases]
    if others and all(isinstance(one, HasBases) for one in methods_of(method)):
        raise SourceError(
            f"{name_of(method)} puts entities inside an encoder, but {type(others[0]).__name__} has no entity vectors. "
            "Give it knowledge bases, KnowledgeBase(Candidates(...), vectors=...), or add a method that reads it, such "
            "as Types()."
        )


def load(directory: str | Path, *, sources: Sequence[Source] | None = None, base: str | None = None) -> Infused:
    """Read back what `Infused.save` wrote.

    `sources` replaces the saved ones (needed for those that hold code of yours); `base` says where the base checkpoint
    of the small form lies now, if it has moved.
    """
    return Infused(**load_parts(Path(directory), sources=sources, base=base))
