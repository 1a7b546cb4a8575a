"""The options of `infuser train` that say how training goes and which method reads the knowledge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from infuser.cli.knowledge_options import KNOWLEDGE
from infuser.cli.options import option
from infuser.errors import InputError, UnknownNameError, did_you_mean
from infuser.types import Source

if TYPE_CHECKING:
    from infuser.training import TrainSettings

_setting = partial(option, panel="Training")
_knowledge = partial(option, panel=KNOWLEDGE)

_READ_BASES = ("kar", "ernie")
_METHODS = ("types", "kam", "text", *_READ_BASES)


@dataclass(frozen=True, slots=True)
class TrainOptions:
    """Settings of training."""

    epochs: Annotated[int, _setting("How often each example is seen, at most.")] = 3
    batch_size: Annotated[int, _setting("Examples per batch.")] = 32
    accumulate: Annotated[int, _setting("Batches per step of the optimizer.")] = 1
    learning_rate: Annotated[float, _setting("Peak learning rate of the encoder and its head.")] = 5e-5
    new_learning_rate: Annotated[
        float | None, _setting("Peak learning rate of the new knowledge weights.", default="the method's")
    ] = None
    patience: Annotated[int, _setting("Epochs without improvement after which training stops.")] = 2
    mixed_precision: Annotated[Literal["no", "bf16", "fp16"], _setting("Compute in 16 bits.", "--precision")] = "no"
    checkpoint_every: Annotated[int | None, _setting("Steps between checkpoints.", default="one per epoch")] = None
    n_workers: Annotated[int, _setting("Processes that prepare batches in the background.", "--workers")] = 0
    seed: Annotated[int, _setting("Decides order, dropout and the new head.")] = 0

    def settings(self) -> TrainSettings:
        """Return the settings as the training loop takes them."""
        from infuser.training import TrainSettings

        return TrainSettings(**asdict(self))


@dataclass(frozen=True, slots=True)
class MethodOptions:
    """The method, the knowledge base that some methods read, and which part of the knowledge is injected."""

    method: Annotated[
        str,
        _knowledge(
            "How knowledge is put inside: types, kam (links as attention maps), kar or ernie (entities of a knowledge "
            "base), or several, such as types+kam; text writes it behind the text. Settings stand behind a name: "
            "kam,channels=types.",
            metavar="NAME[,SETTING=VALUE][+NAME]",
        ),
    ] = "kam"
    candidates: Annotated[
        Path | None,
        _knowledge("kar and ernie: what mentions may mean, from `infuser candidates build`.", metavar="DIR"),
    ] = None
    vectors: Annotated[
        Path | None, _knowledge("kar and ernie: the entities' vectors, from `infuser vectors build`.", metavar="DIR")
    ] = None
    select: Annotated[
        str | None,
        _knowledge(
            "Inject a part of the knowledge: what `infuser select` wrote to FILE, or the paper's sampling.",
            metavar="FILE|sampling",
            default="everything",
        ),
    ] = None
    spectral: Annotated[
        float | None,
        _setting(
            "Weight of the spectral penalty on the features, for example 0.001.", metavar="ETA", default="no penalty"
        ),
    ] = None

    def sources(self, links: Sequence[Source]) -> list[Source]:
        """Return the sources that the method reads; `links` are those that other options name."""
        from infuser.experiments.arm import named_methods, open_base

        names = [name for name, _ in named_methods(self.method)]
        if unknown := [name for name in names if name not in _METHODS]:
            raise UnknownNameError(
                f"--method {self.method}: no method is called {unknown[0]!r}.{did_you_mean(unknown[0], _METHODS)} "
                f"Known: {', '.join(_METHODS)}."
            )
        reads_base = any(name in _READ_BASES for name in names)
        reads_links = any(name not in _READ_BASES for name in names)
        if not reads_base:
            if self.candidates or self.vectors:
                raise InputError(
                    f"--candidates and --vectors are for --method kar or ernie; {self.method} reads "
                    f"{'links between words' if names == ['kam'] else 'mentions and links between words'}."
                )
            if not links:
                raise InputError(
                    "No knowledge was named. Give --source, --entities, --phrases, --correlation, --graph or --sources "
                    "FILE, or --plain to train without."
                )
            return list(links)
        if self.candidates is None or self.vectors is None or (links and not reads_links):
            raise InputError(
                f"--method {self.method} reads a knowledge base: give --candidates DIR and --vectors DIR"
                f"{'' if reads_links else ', alone'}."
            )
        return [*links, open_base(self.candidates, self.vectors)]
