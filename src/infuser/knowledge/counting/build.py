"""`build_correlation`: a corpus becomes a folder that `Correlation` reads."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal

from infuser.errors import InputError
from infuser.knowledge.artifact import check_place
from infuser.knowledge.correlation.scores import Scoring
from infuser.knowledge.correlation.store import KIND, CorrelationStore, save_correlation
from infuser.knowledge.counting.corpus import Format
from infuser.knowledge.counting.run import MEMORY, count_corpus
from infuser.knowledge.counting.settings import Counting
from infuser.knowledge.counting.shapes import CorpusCounts
from infuser.progress import Report
from infuser.spark import check_engine

Engine = Literal["local", "spark"]


def build_correlation(
    paths: Sequence[str | Path],
    out: str | Path,
    counting: Counting | None = None,
    scoring: Scoring | None = None,
    *,
    columns: Sequence[str] = (),
    format: Format | None = None,
    engine: Engine = "local",
    master: str | None = None,
    memory: int = MEMORY,
    workers: int | None = None,
    strict: bool = False,
    restart: bool = False,
    progress: Report | None = None,
) -> CorrelationStore:
    """Count a corpus, score its pairs of words, and return the folder `out` open.

    While it works, what is finished lies in `out` + ".unfinished": a run that was killed goes on from there when it is
    made again (on Spark it starts again). `memory` is how many bytes it may take, on this machine.
    """
    check_engine(engine, master, workers)
    far = next((str(path) for path in paths if "://" in str(path)), None)
    if far and engine == "local":
        raise InputError(f"Only Spark reads addresses such as {far}. Give --engine spark, or files of this machine.")
    check_place(out, KIND)
    unfinished = Path(f"{out}.unfinished")
    shared: dict[str, Any] = {"columns": columns, "format": format, "strict": strict, "restart": restart}
    counted: AbstractContextManager[CorpusCounts]
    if engine == "spark":
        from infuser.knowledge.counting.on_spark import count_on_spark

        counted = count_on_spark(paths, unfinished, counting, master=master, progress=progress, **shared)
    else:
        counted = count_corpus(paths, unfinished, counting, memory=memory, workers=workers, progress=progress, **shared)
    with counted as counts:
        if progress:
            progress("writing", 0, None)
        save_correlation(counts, scoring or Scoring(), out, memory=memory)
    return CorrelationStore.open(out)


def read_size(written: str) -> int:
    """Return how many bytes a size such as 500M or 2G means."""
    found = re.fullmatch(r"\s*([\d.]+)\s*([KMGT]?)i?B?\s*", written, re.IGNORECASE)
    try:
        return int(float(found[1]) * 1000 ** " KMGT".index(found[2].upper() or " "))  # type: ignore[index]
    except (TypeError, ValueError) as error:
        raise InputError(f"memory {written!r} is no size. Write it as 500M or 2G.") from error
