"""A child process that annotates slowly enough to be killed in the middle: python child.py DATA OUT CACHE WORKERS."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Self

import typer

from infuser.registry import SOURCES
from infuser.types import Annotations, Candidate, Link, Span, Term


@SOURCES.register("slow-words")
@dataclass(frozen=True)
class SlowWords:
    """Finds every word, one text per pause; a text with the word "poison" kills its process."""

    pause: float = 0.0

    def annotate(self, texts: Sequence[str]) -> list[Annotations]:
        return [self._annotate(text) for text in texts]

    def _annotate(self, text: str) -> Annotations:
        time.sleep(self.pause)
        if "poison" in text:
            os.kill(os.getpid(), signal.SIGKILL)
        spans, at = [], 0
        for word in text.split():
            at = text.index(word, at)
            spans.append(Span(at, at + len(word), label="word", id=word))
            at += len(word)
        places = range(len(spans))
        links = tuple(Link(one, other, 1 / (1 + other), "next") for one, other in pairwise(places))
        terms = (Term("beside", ((0, 0.25),)),) if spans else ()
        choices = tuple((Candidate(span.id, 0.75), Candidate(span.id.upper(), 0.25)) for span in spans)
        return Annotations(text, tuple(spans), links, terms, choices)

    @classmethod
    def tiny(cls) -> Self:
        return cls()


def main() -> None:
    from infuser.cli.annotate import annotate
    from infuser.sources.annotating import shards

    shards.TEXTS = 50  # many small shards, so that kills fall between and inside them
    app = typer.Typer()
    app.command()(annotate)
    data, out, cache, workers = sys.argv[1:]
    kept = ["--no-cache"] if cache == "-" else ["--cache", cache]
    app([data, "--source", "slow-words,pause=0.001", "--out", out, "--workers", workers, *kept])


def files_of(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder, hidden ones too, with its content."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


if __name__ == "__main__":
    main()
