"""`annotate`: annotate every text of an input once and write the annotations to a folder.

The folder holds the same bytes however many processes worked on it and however often they were killed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from infuser.errors import InputError
from infuser.processes import WorkerPool
from infuser.sources.annotating import frequencies, shards
from infuser.sources.annotating.cache import with_cache
from infuser.sources.annotating.files import canonical, write_arrow
from infuser.sources.annotating.fingerprints import describe, fingerprint_of
from infuser.sources.annotating.folder import AnnotationFolder
from infuser.sources.annotating.reading import Annotated
from infuser.sources.annotating.shards import InputDigest, Shard, ShardWriter, TextPair, cut, text_pairs
from infuser.sources.storage import name_of
from infuser.spark import check_engine
from infuser.tables.blocks import STDIN
from infuser.tables.examples import Columns, read_examples
from infuser.tables.skipped import Skipped
from infuser.types import Source
from infuser.words import counted

_LONGEST_RECORD = 1 << 16
"""Settings longer than this, such as a list of a million names, are recorded by their fingerprint alone."""

Progress = Callable[[int, int], None]
"""Called with the number of texts that are done and of all; the first call counts what an earlier run did."""

Work = Callable[..., Iterator[Shard]]
"""Makes shards: called with tasks, sources and a folder; `report` is called with the number of texts just done."""


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
    thing that can be. A run that was killed is resumed when it is called again; another input or other sources are an
    error unless `restart`. `cache` is a folder of cached annotations; `default_cache()` is the one of the commands.
    `about` is stored in the folder's about.json. The engine "spark" annotates on a Spark cluster instead of `workers`
    of this machine: the one with this `master`, or the one of the session that runs in this process.
    """
    if iter(examples) is examples:
        raise InputError("The examples can be read only once. Give a list, or an object whose __iter__ starts again.")
    if not sources:
        raise InputError("There is no source. Give at least one.")
    if workers < 0:
        raise InputError(f"workers={workers}; give 0 to work in this process, or how many to start.")
    check_engine(engine, master, workers)
    digest = InputDigest(text_pairs(examples))
    if not digest.n_texts:
        raise InputError("There are no texts to annotate. Give at least one.")
    described = [describe(source) for source in sources]
    marks = [fingerprint_of(one) for one in described]
    made_with = {
        "input": digest.to_json(),
        "sources": [
            {"name": name_of(source), "fingerprint": mark} for source, mark in zip(sources, marks, strict=True)
        ],
        "shard size": {"texts": shards.TEXTS, "characters": shards.CHARACTERS},
    }
    if engine == "spark":
        from infuser.sources.annotating.on_spark import annotate_on_spark

        work: Work = partial(annotate_on_spark, master=master, described=described)
    else:
        work = partial(_annotate_here, n_workers=workers)
    folder = AnnotationFolder(Path(out))
    with folder.locked():
        folder.begin(made_with, restart=restart)
        _annotate_rest(folder, examples, with_cache(sources, cache, marks), digest, work, progress)
        written = (shard.written.open(folder.path) for _, shard in sorted(folder.shards.items()))
        counts = write_arrow(folder.path / "frequencies.arrow", frequencies.count(written, len(sources)))
        folder.close(
            made_with,
            n_texts=digest.n_texts,
            records=[_short_record(one) for one in described],
            frequencies=asdict(counts),
            about=dict(about or {}),
        )
    return Annotated(out)


def annotate_file(
    path: str | Path,
    columns: Columns,
    sources: Sequence[Source],
    out: str | Path,
    *,
    skipped: Skipped | None = None,
    **settings: Any,
) -> Annotated:
    """Annotate the texts of a file, see `annotate`; rows that cannot be read are counted in `skipped` and recorded."""
    if Path(path) == STDIN:
        raise InputError("annotate reads its input twice, so it cannot be standard input. Give a file.")
    texts = _FileTexts(Path(path), columns, Skipped() if skipped is None else skipped)
    return annotate(texts, sources, out, about=texts.about, **settings)


@dataclass
class _FileTexts:
    """The texts of a file, which can be read again and again; skipped rows are counted the first time."""

    path: Path
    columns: Columns
    skipped: Skipped
    about: dict[str, Any] = field(default_factory=dict, init=False)
    """The name of the file and, once it was read, which rows were skipped."""

    def __iter__(self) -> Iterator[dict[str, Any]]:
        skipped = Skipped() if self.about else self.skipped
        n_texts = 0
        for _, example in read_examples(self.path, self.columns, skipped):
            n_texts += 1
            yield example
        if not n_texts:
            first = f" {counted(skipped.n, 'row')} cannot be read: {skipped.first[0]}." if skipped.n else ""
            raise InputError(
                f"{self.path} holds no texts.{first} Give at least one; --text-column NAME says where texts stand."
            )
        rows = {"rows": self.skipped.n, "first": list(self.skipped.first)}
        self.about.update({"data": self.path.name, "skipped": rows})


def _annotate_rest(
    folder: AnnotationFolder,
    examples: Iterable[Any],
    sources: Sequence[Source],
    digest: InputDigest,
    work: Work,
    progress: Progress | None,
) -> None:
    """Make every shard that is not finished yet."""
    n_done = 0

    def report(n_new: int) -> None:
        nonlocal n_done
        n_done += n_new
        if progress is not None:
            progress(n_done, digest.n_texts)

    report(sum(shard.n_texts for shard in folder.shards.values()))
    if n_done == digest.n_texts:
        return
    finished, read_again = frozenset(folder.shards), InputDigest()
    pieces = enumerate(cut(map(read_again.add, text_pairs(examples))))
    tasks = ((number, piece) for number, piece in pieces if number not in finished)
    for shard in work(tasks, sources, folder.path, report=report):
        folder.add(shard)
    if read_again.to_json() != digest.to_json():
        folder.clear()
        raise InputError("The input changed while it was read, so nothing was kept. Run the same when it is at rest.")


def _annotate_here(
    tasks: Iterable[tuple[int, list[TextPair]]],
    sources: Sequence[Source],
    folder: Path,
    report: Callable[[int], None],
    *,
    n_workers: int,
) -> Iterator[Shard]:
    """Yield shards as worker processes finish them; with no workers they are made in this process."""
    with WorkerPool(n_workers) as pool:
        yield from pool.map_unordered(tasks, ShardWriter(folder, tuple(sources)), report, doing="annotated")


def _short_record(described: dict[str, Any]) -> dict[str, Any]:
    if len(canonical(described)) <= _LONGEST_RECORD:
        return described
    return {"name": described["name"], "settings": "too long to show"}
