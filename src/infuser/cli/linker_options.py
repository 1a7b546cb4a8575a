"""What the commands around linkers share: options, reading linked texts, and how a stage went."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from infuser.cli.console import print_next_steps, print_table, say, skipping, with_interval
from infuser.cli.options import argument, option
from infuser.words import counted

if TYPE_CHECKING:
    from infuser.linking.examples import LinkedText
    from infuser.linking.scores import LinkScores
    from infuser.sources import KnowledgeBase

LinkFormat = Annotated[
    Literal["auto", "jsonl", "elevant", "aida", "knowbert", "pubtator"],
    option("How links are written; auto looks at the first line of each file.", "--format"),
]
LinkerModel = Annotated[str, argument("A run or model with a linker, of `infuser linker train`.")]
Threshold = Annotated[float | None, option("Link mentions with at least this score.", default="the model's own")]
Loss = Annotated[
    Literal["margin", "softmax"],
    option(
        "margin: the right candidate above the threshold, wrong ones below. softmax: the right one above the "
        "others; it never learns that a mention means none of its candidates."
    ),
]
OutFolder = Annotated[Path, option("Folder for the model, the record of the run and its checkpoints.")]
Restart = Annotated[bool, option("Start again instead of resuming from a checkpoint.", "--restart")]
TextColumn = Annotated[str, option("Column that holds the text.")]
TextLimit = Annotated[int | None, option("Read so many texts of --corpus, at most.", min=1, default="all of them")]


setting = partial(option, panel="Training")
BatchSize = Annotated[int, setting("Texts per batch.", min=1)]
Workers = Annotated[int, setting("Processes that prepare batches in the background.")]


@dataclass(frozen=True, slots=True)
class BaseOptions:
    """The knowledge base of a linker."""

    candidates: Annotated[Path, option("What mentions may mean: `infuser candidates build`.", metavar="DIR")]
    vectors: Annotated[Path, option("The entities' vectors: `infuser vectors build`.", metavar="DIR")]
    name: Annotated[str, option("What the knowledge base is called inside the model.")] = "base"
    missing: Annotated[Literal["error", "skip"], option("What to do with candidates that have no vector.")] = "error"

    def open(self) -> KnowledgeBase:
        """Return the knowledge base; print how many of its entities have a vector."""
        from infuser.sources import Candidates, KnowledgeBase

        base = KnowledgeBase(Candidates(self.candidates), self.vectors, self.name, self.missing)
        say(f"{self.name}: {base.check():.1%} of the entities in {self.candidates} have a vector")
        return base


def read_linked(paths: Sequence[Path] | None, format: Any, base: KnowledgeBase) -> list[LinkedText]:
    """Return the linked texts of all files, some of whose entities the knowledge base has; print what was skipped."""
    from infuser.linking.examples import check_entities
    from infuser.linking.readers import read_links

    with skipping() as skipped:
        texts = [one for path in paths or () for one in read_links(path, format, skipped=skipped)]
    if not paths:
        return []
    check_entities(texts, base, ", ".join(map(str, paths)))
    return texts


def print_next(model: Path, *, joint: str | None = None) -> None:
    """Print what to do with a trained linker; `joint` is where it may be trained together with its encoder."""
    folder = shlex.quote(str(model))
    steps = [f'infuser link {folder} --text "..."', f"infuser linker evaluate {folder} TEST.jsonl"]
    steps += [f"infuser linker pretrain {folder} --corpus TEXTS.txt --out {shlex.quote(joint)}"] if joint else []
    print_next_steps(steps)


def print_scores(scores: Mapping[str, LinkScores]) -> None:
    """Print the scores of several linkers, with 95 % intervals where there are enough documents."""
    rows = []
    for name, of_linker in scores.items():
        total, intervals = of_linker.total, of_linker.intervals()
        rows.append((name, *(with_interval(getattr(total, measure), ends) for measure, ends in intervals.items())))
    print_table(("", "precision", "recall", "F1", "ceiling", "in-candidate accuracy"), rows)
    total, n_texts = scores["linker"].total, len(scores["linker"].documents)
    say(
        f"{counted(total.gold, 'gold mention')} in {counted(n_texts, 'document')}: {total.found:,} found as a span, "
        f"{total.offered:,} with the right entity among the candidates; "
        f"{total.linked:,} linked, {total.right:,} rightly"
    )
