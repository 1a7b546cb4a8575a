"""The stages in which `infuser linker` trains: their examples, their checkpoints, and what is told of them."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console

from infuser.cli.console import loading
from infuser.cli.linker_data import check_examples
from infuser.experiments.run_folder import Run
from infuser.files import digest_of
from infuser.words import counted

if TYPE_CHECKING:
    from infuser.infused import Infused
    from infuser.linking.examples import LinkedText
    from infuser.sources import KnowledgeBase
    from infuser.training import TrainResult, TrainSettings


class Stages:
    """Makes the examples of a linker's stages and trains on them."""

    def __init__(self, infused: Infused, base: KnowledgeBase, loss: Any, settings: TrainSettings, out: Path) -> None:
        self.infused, self.base, self.loss, self.settings, self.out = infused, base, loss, settings, out

    def self_supervised(self, texts: list[str]) -> tuple[str, list[dict[str, Any]], TrainSettings]:
        """Return the examples of all epochs: in each, names are hidden among others anew."""
        from infuser.linking.self_supervision import UnambiguousTexts

        read = UnambiguousTexts(texts, {self.base.name: self.base}, progress=Console(stderr=True).is_terminal)
        token = self.infused.tokenizer.mask_token
        examples = [
            example
            for epoch in range(self.settings.epochs)
            for example in read.examples(seed=self.settings.seed, epoch=epoch, mask_token=token)
        ]
        every = n_steps(len(read), self.settings.batch_size)
        return "self-supervised", examples, replace(self.settings, epochs=1, checkpoint_every=every)

    def supervised(self, texts: list[LinkedText], max_words: int) -> tuple[str, list[dict[str, Any]], TrainSettings]:
        """Return the examples of texts whose links are known."""
        from infuser.linking.examples import link_examples
        from infuser.linking.windows import window_linked

        windows = [window for one in texts for window in window_linked(one, max_words)]
        examples = link_examples(windows, {self.base.name: self.base})
        check_examples(examples, texts, self.base)
        return "links", examples, self.settings

    def train(
        self, console: Console, stage: str, examples: list[dict[str, Any]], settings: TrainSettings
    ) -> TrainResult:
        """Train on examples, from the last checkpoint if there is one, and tell how it went."""
        from infuser.linking.training import train_linker

        console.print(f"{stage}: {counted(len(examples), 'example')}", highlight=False)
        with stoppable() as progress:
            [result] = train_linker(
                self.infused, examples, loss=self.loss, settings=settings, out=self.out / stage, progress=progress
            ).values()
        tell_stage(console, stage, result)
        return result


def infuse_base(checkpoint: str, method: Any, base: KnowledgeBase, task: str, seed: int) -> Infused:
    """Return a checkpoint with a fresh linker for a knowledge base inside."""
    told = Console(stderr=True)
    with loading(told, checkpoint) as progress:
        import transformers

        from infuser.hosts.checkpoints import find_checkpoint, is_infused
        from infuser.infused import infuse

        folder = find_checkpoint(checkpoint, progress)
        if is_infused(folder):
            told.print(f"{checkpoint} is infused already: a linker of the same shape goes on from there.")

        transformers.set_seed(seed)  # the linker starts at random
        return infuse(folder, method, sources=[base], task=task)


def made_with(settings: TrainSettings, **further: Any) -> dict[str, Any]:
    """Return all that decides the result, as plain values."""
    how = asdict(settings)
    del how["n_workers"], how["checkpoint_every"]
    return {**further, **how}


def described(base: KnowledgeBase) -> str:
    """Return what tells a knowledge base from any other."""
    from infuser.sources.annotating.fingerprints import describe

    parts = [part for key, part in describe(base).items() if key not in ("code", "versions")]
    return f"{base.name} ({digest_of(parts)})"


def n_steps(n_examples: int, batch_size: int) -> int:
    """Return how many steps read so many examples."""
    return max(1, math.ceil(n_examples / batch_size))


@contextmanager
def stoppable() -> Iterator[Any]:
    """Give what shows the progress of training, and say that it can be gone on with when it is stopped."""
    from infuser.training.steps import print_steps

    told = Console(stderr=True)
    try:
        yield True if told.is_terminal else print_steps
    except KeyboardInterrupt as error:
        told.print("\nStopped. The same command goes on from the last checkpoint.")
        raise typer.Exit(130) from error


def tell_stage(console: Console, stage: str, result: TrainResult) -> None:
    """Print in a line how a stage went."""
    losses = [entry.loss for entry in result.history]
    fell = f"loss {losses[0]:.4f}" + (f", then {losses[-1]:.4f}" if len(losses) > 1 else "")
    console.print(
        f"{stage}: {counted(result.steps, 'step')}, {fell}; {result.seconds:.0f} s, "
        f"{result.examples_per_second:.0f} examples/s",
        highlight=False,
    )


def tell_next(console: Console, run: Run, task: str) -> None:
    """End with commands that can be copied."""
    model = shlex.quote(str(run.model))
    steps = [f'infuser link {model} --text "..."', f"infuser linker evaluate {model} TEST.jsonl"]
    if task != "encoder":
        steps.append(f"infuser linker pretrain {model} --corpus TEXTS.txt --out {shlex.quote(f'{run.folder}-joint')}")
    console.print("\n[b]What to try next[/b]")
    for step in steps:
        console.print(f"  {step}", markup=False, highlight=False, soft_wrap=True)
