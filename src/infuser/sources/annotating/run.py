"""`annotate`: ask sources about every text of an input, once, and keep the answers in a folder.

The folder holds the same bytes however many processes worked on it and however often they were killed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal

from infuser.errors import InputError
from infuser.files import held
from infuser.sources.annotating import frequencies, shards
from infuser.sources.annotating.cache import with_cache
from infuser.sources.annotating.files import canonical, write_arrow
from infuser.sources.annotating.fingerprints import describe, fingerprint_of, name_of
from infuser.sources.annotating.journal import Journal, clear, open_journal
from infuser.sources.annotating.reading import Annotated
from infuser.sources.annotating.shards import Row, RunningDigest, Shard, Survey, cut, look_through, read_rows
from infuser.sources.annotating.workers import Task, annotate_shards
from infuser.spark import check_engine
from infuser.types import Source

_log = logging.getLogger(__name__)

_LONGEST_RECORD = 1 << 16
"""Settings longer than this, such as a list of a million names, are told by their fingerprint alone."""

Progress = Callable[[int, int], None]
"""Called with the number of texts that are done and of all; the first call tells what was done by an earlier run."""

Work = Callable[..., Iterator[Shard]]
"""Makes shards: called with tasks, sources and a folder; `tell` hears how many texts were done."""


def annotate(
    examples: Iterable[Mapping[str, Any] | str],
    sources: Sequence[Source],
    out: str | Path,
    *,
    workers: int = 0,
    engine: Literal["local", "spark"] = "local",
    master: str | None = None,
    cache: str | Path | None = None,
    restart: bool = False,
    progress: Progress | None = None,
    about: Mapping[str, Any] | None = None,
) -> Annotated:
    """Write what the sources find in every text to the folder `out`, and return it open.

    `examples` are texts, or mappings with `text` and perhaps `pair`; they are read twice, so give a list or another
    thing that can be. A run that was killed goes on when it is made again; another input or other sources are refused
    unless `restart`. With `cache`, a folder, answers are taken from there and kept there; `default_cache()` is the one
    of the commands. `about` is kept in the folder's about.json. The engine "spark" annotates on a Spark cluster instead
    of `workers` of this machine: the one with this `master`, or the one of the session that runs in this process.
    """
    if iter(examples) is examples:
        raise InputError("The examples can be read only once. Give a list, or an object whose __iter__ starts anew.")
    if not sources:
        raise InputError("There is no source to ask. Give at least one.")
    if workers < 0:
        raise InputError(f"workers={workers}; give 0 to work in this process, or how many to start.")
    check_engine(engine, master, workers)
    folder = Path(out)
    survey = look_through(read_rows(examples))
    if not survey.n_texts:
        raise InputError("There are no texts to annotate. Give at least one.")
    described = [describe(source) for source in sources]
    marks = [fingerprint_of(one) for one in described]
    made_with = {
        "input": {"n_texts": survey.n_texts, "sha256": survey.sha256},
        "sources": [
            {"name": name_of(source), "fingerprint": mark} for source, mark in zip(sources, marks, strict=True)
        ],
        "shard size": {"texts": shards.TEXTS, "characters": shards.CHARACTERS},
    }
    if engine == "spark":
        from infuser.sources.annotating.on_spark import annotate_on_spark

        work: Work = partial(annotate_on_spark, master=master, described=described)
    else:
        work = partial(annotate_shards, n_workers=workers)
    with _sole(folder), open_journal(folder, made_with, restart=restart) as journal:
        _annotate_rest(journal, examples, with_cache(sources, cache, marks), survey, work, progress or _tell_nobody)
        written = (shard.written.open(folder) for _, shard in sorted(journal.finished.items()))
        counted = write_arrow(folder / "frequencies.arrow", frequencies.count(written, len(sources)))
        journal.close(
            n_texts=survey.n_texts,
            records=[_told(one) for one in described],
            frequencies=counted.to_json(),
            about=dict(about or {}),
        )
    return Annotated(folder)


def _annotate_rest(
    journal: Journal,
    examples: Iterable[Any],
    sources: Sequence[Source],
    survey: Survey,
    work: Work,
    progress: Progress,
) -> None:
    """Make every shard that is not finished yet."""
    passed = RunningDigest()
    n_done = sum(shard.n_texts for shard in journal.finished.values())
    progress(n_done, survey.n_texts)
    if n_done == survey.n_texts:
        return

    def tell(n_new: int) -> None:
        nonlocal n_done
        n_done += n_new
        progress(n_done, survey.n_texts)

    tasks = _unfinished(cut(_watched(read_rows(examples), passed)), frozenset(journal.finished))
    for shard in work(tasks, sources, journal.folder, tell=tell):
        journal.add(shard)
    if passed.survey() != survey:
        clear(journal.folder)
        raise InputError("The input changed while it was read, so nothing was kept. Run the same when it is at rest.")


def _watched(rows: Iterator[Row], passed: RunningDigest) -> Iterator[Row]:
    for row in rows:
        passed.add(row)
        yield row


def _unfinished(pieces: Iterable[list[Row]], finished: frozenset[int]) -> Iterator[Task]:
    return ((number, piece) for number, piece in enumerate(pieces) if number not in finished)


def _told(described: dict[str, Any]) -> dict[str, Any]:
    if len(canonical(described)) <= _LONGEST_RECORD:
        return described
    return {"name": described["name"], "settings": "too long to be told"}


@contextmanager
def _sole(folder: Path) -> Iterator[None]:
    """Hold the folder: two runs that write to it at once would take each other's files for left-overs."""
    with ExitStack() as holding:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            holding.enter_context(held(folder))
        except BlockingIOError as error:
            raise InputError(f"Another process is annotating into {str(folder)!r}. Wait for it.") from error
        except OSError as error:
            raise InputError(f"Cannot write {str(folder)!r}: {error}. Choose a place you may write to.") from error
        yield


def _tell_nobody(n_done: int, n_texts: int) -> None:
    _log.debug("%d of %d texts", n_done, n_texts)
