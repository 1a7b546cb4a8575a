"""Modules of sentence-transformers that read knowledge: sentence vectors, and rerankers.

    SentenceTransformer(modules=[InfusedTransformer(infused), Pooling(infused.model.config.hidden_size)])
    CrossEncoder(modules=[InfusedCrossEncoder(infused)])

Both train under the library's trainers with its losses, and are saved by it; `trust_remote_code=True` loads them again,
as sentence-transformers asks for that wherever a module is not its own. Nothing is run but this class.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from torch import Tensor
from torch.nn.functional import pad
from transformers import PreTrainedModel

from infuser.errors import InputError, MissingExtraError
from infuser.hosts.checkpoints import CLASSIFIER
from infuser.infused import Infused, load

try:
    from sentence_transformers.base.modules import InputModule, Transformer
except ImportError as error:
    raise MissingExtraError(
        f"This needs sentence-transformers 6 or newer, which cannot be imported ({error}): pip install "
        "'infuser[clients]'."
    ) from error


class InfusedTransformer(InputModule):
    """The first module of a SentenceTransformer: the states of an infused encoder, before a module that pools them."""

    config_file_name: str = "module.json"
    config_keys: list[str] = ["max_seq_length", "portable"]  # noqa: RUF012  # as the base class has it
    save_in_root: bool = False  # a saved model is a folder of its own
    can_flatten_inputs = False

    def __init__(self, infused: Infused, *, max_seq_length: int | None = None, portable: bool = False) -> None:
        """Make a module of a model; `portable` takes built folders along when it is saved, see `Infused.save`."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.infused, self.portable = infused, portable
        self.model = infused.model  # its weights are those of the module
        self.tokenizer = infused.tokenizer  # as it is without knowledge; trainers save it beside their checkpoints
        self._max_seq_length = max_seq_length

    @property
    def max_seq_length(self) -> int:
        """How many tokens of a text are read."""
        limit = self.infused.collator().max_length
        assert limit is not None
        return limit if self._max_seq_length is None else min(limit, self._max_seq_length)

    @max_seq_length.setter
    def max_seq_length(self, value: int | None) -> None:
        self._max_seq_length = value

    @property
    def processor(self) -> Any:
        """The tokenizer, by the name that trainers ask for."""
        return self.tokenizer

    @property
    def auto_model(self) -> PreTrainedModel:
        """The model, by the name that losses ask for."""
        return self.model

    def get_embedding_dimension(self) -> int:
        """Return the size of the states."""
        size: int = self.model.config.hidden_size
        return size

    def preprocess(
        self, inputs: Sequence[Any], prompt: str | None = None, *, max_length: int | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        """Return the tokens of texts or pairs, and knowledge, for `forward`; a prompt stands before each text."""
        if not len(inputs):
            return {}
        texts, pairs = _texts_and_pairs(inputs, prompt or "")
        limit = self.max_seq_length if max_length is None else min(max_length, self.max_seq_length)
        batch: dict[str, Any] = self.infused.collator(max_length=limit).encode(texts, pairs)
        n_tokens = batch["input_ids"].shape[1]
        for name, tensor in batch.items():
            # cached losses cut the padding from all tensors that are as wide as the tokens
            if name.startswith("knowledge_") and tensor.shape[1] == n_tokens:
                batch[name] = pad(tensor, [0, 0] * (tensor.dim() - 2) + [0, 1])
        if prompt:
            batch["prompt_length"] = self._prompt_length(prompt)
        return batch

    def _prompt_length(self, prompt: str) -> int:
        """Return how many tokens a prompt takes, with the special one before it and without that behind it."""
        ids = self.infused.tokenizer(prompt)["input_ids"]
        return len(ids) - (ids[-1] in self.infused.tokenizer.all_special_ids)

    def forward(self, features: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Add the last states of the encoder to the features."""
        out = self.model.base_model(**self._inputs(features))
        features["token_embeddings"] = out.last_hidden_state
        if getattr(out, "hidden_states", None) is not None:  # some losses read all layers
            features["all_layer_embeddings"] = out.hidden_states
        return features

    def _inputs(self, features: dict[str, Any]) -> dict[str, Tensor]:
        names = self.infused.tokenizer.model_input_names
        return {name: value for name, value in features.items() if name in names or name.startswith("knowledge_")}

    def save(self, output_path: str, *args: Any, safe_serialization: bool = True, **kwargs: Any) -> None:
        """Write the model as `Infused.save` does."""
        self.infused.save(output_path, portable=self.portable)
        self.save_config(output_path)

    @classmethod
    def load(
        cls,
        model_name_or_path: str,
        subfolder: str = "",
        token: bool | str | None = None,
        cache_folder: str | None = None,
        revision: str | None = None,
        local_files_only: bool = False,
        init_defaults: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Self:
        """Read back what `save` wrote, from a folder or from the hub."""
        folder = cls.load_dir_path(
            model_name_or_path,
            subfolder,
            token=token,
            cache_folder=cache_folder,
            revision=revision,
            local_files_only=local_files_only,
        )
        if folder is None:
            raise InputError(f"{model_name_or_path!r} has no folder {subfolder!r} with an infused model.")
        return cls(load(Path(folder)), **cls.load_config(folder))


class InfusedCrossEncoder(InfusedTransformer):
    """The module of a CrossEncoder: reads pairs of texts with knowledge and scores each; a reranker has one label."""

    def __init__(self, infused: Infused, *, max_seq_length: int | None = None, portable: bool = False) -> None:
        if not type(infused.model).__name__.endswith(CLASSIFIER):
            raise InputError(
                f"A CrossEncoder scores pairs, but {type(infused.model).__name__} has no head for that. Infuse with "
                "task='sequence-classification', num_labels=1."
            )
        super().__init__(infused, max_seq_length=max_seq_length, portable=portable)

    def forward(self, features: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Add the scores of the head, (pairs, labels), to the features."""
        features["scores"] = self.model(**self._inputs(features)).logits
        return features


# sentence-transformers asks its Transformer for the number of labels and for the model; ours answers the same
Transformer.register(InfusedTransformer)


def _texts_and_pairs(inputs: Sequence[Any], prompt: str) -> tuple[list[str], list[str] | None]:
    """Return the texts of inputs, and their pairs if they are pairs."""
    if all(isinstance(one, str) for one in inputs):
        return [prompt + one for one in inputs], None
    pairs = [tuple(one) if isinstance(one, list | tuple) else one for one in inputs]
    for one in pairs:
        if not (isinstance(one, tuple) and len(one) == 2 and all(isinstance(side, str) for side in one)):
            raise InputError(f"An input is {one!r}; give texts, or pairs of two texts, and not both in one batch.")
    return [prompt + one for one, _ in pairs], [other for _, other in pairs]
