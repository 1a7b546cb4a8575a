"""Shards annotated by the executors of a Spark cluster: texts go out, the content of shards comes home.

The driver reads and cuts the input and writes all files, as without Spark, so the folder holds the same bytes. One row
of a DataFrame is one shard, packed as Arrow. A wave of rows is one Spark job, and while one wave comes home the next
are under way, so that no executor waits for the slowest of a wave. Each Python process on an executor opens the sources
once.
"""

from __future__ import annotations

import importlib
import json
import socket
import traceback
import uuid
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, as_completed, wait
from contextlib import closing, contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from infuser import errors
from infuser.errors import InfuserError, InputError, SourceError
from infuser.sources.annotating.cache import CachedSource
from infuser.sources.annotating.files import digest
from infuser.sources.annotating.fingerprints import describe, fingerprint_of
from infuser.sources.annotating.shards import Shard, TextPair, annotate_rows, save_shard
from infuser.sources.storage import name_of
from infuser.spark import explain_import, n_slots, open_session
from infuser.types import Source
from infuser.versions import __version__

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WAVES = 3
"""So many waves are under way at once, each with as many shards as the cluster has slots."""
_WAVE_BYTES = 32 << 20
"""A wave holds no more than this unless it is a single shard: the driver's memory does not depend on the cluster's
size, and Spark spreads a table that small over all slots (spark.sql.execution.arrow.localRelationThreshold)."""
_RETURNED = pa.schema([("number", pa.int64()), ("content", pa.binary()), ("message", pa.string())])
"""The number of a shard, its packed content, and how much was found; without content, what went wrong."""
_RETURNED_TO_SPARK = "number long, content binary, message string"

Wave = list[tuple[int, bytes]]
"""Numbers of shards and their packed rows."""


def annotate_on_spark(
    tasks: Iterable[tuple[int, list[TextPair]]],
    sources: Sequence[Source],
    folder: Path,
    report: Callable[[int], None],
    *,
    master: str | None,
    described: Sequence[Mapping[str, Any]],
) -> Iterator[Shard]:
    """Yield shards as they come home and are written.

    `described` says what each source is here; an executor where one of ours is something else refuses to answer.
    """
    packed = _pack_sources(sources, [_identity(one) for one in described])
    key = digest(packed)
    with open_session(master, "infuser annotate") as session, _sent_once(session, packed) as load:

        def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return _annotate_batches(batches, key, load)

        with closing(_in_turn(session, _waves(tasks, session), work)) as home:  # whatever happens, before the session
            for number, content, message in chain.from_iterable(home):
                if content is None:
                    raise _as_error(json.loads(message))
                shard = save_shard(folder, number, _unpack(content), json.loads(message))
                report(shard.n_texts)
                yield shard


def _waves(tasks: Iterable[tuple[int, list[TextPair]]], session: SparkSession) -> Iterator[Wave]:
    wave: Wave = []
    size = 0
    for number, rows in tasks:
        columns = [pa.array(side, pa.large_string()) for side in zip(*rows, strict=True)]
        packed = _pack(pa.record_batch(columns, ["text", "pair"]))
        if wave and (len(wave) >= n_slots(session) or size + len(packed) > _WAVE_BYTES):
            yield wave
            wave, size = [], 0
        wave.append((number, packed))
        size += len(packed)
    if wave:
        yield wave


def _in_turn(
    session: SparkSession, waves: Iterable[Wave], work: Callable[..., Any]
) -> Generator[list[Any], None, None]:
    """Yield the answers of one wave after another while the next are under way; what is not wanted is cancelled."""
    mark, cancel = _tagging(session)
    tag = f"infuser-{uuid.uuid4().hex}"
    with ThreadPoolExecutor(_WAVES, initializer=mark, initargs=(tag,)) as threads:
        under_way: set[Future[list[Any]]] = set()
        try:
            for wave in waves:
                under_way.add(threads.submit(_job(session, wave, work)))
                if len(under_way) == _WAVES:
                    done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
                    yield from (one.result() for one in done)
            yield from (one.result() for one in as_completed(under_way))
        finally:
            while left := [one for one in under_way if not one.cancel() and not one.done()]:
                with suppress(Exception):  # a session that is gone has nothing under way
                    cancel(tag)
                wait(left, timeout=1)  # and again: one may have begun just now


def _tagging(session: SparkSession) -> tuple[Callable[[str], Any], Callable[[str], Any]]:
    """Return what marks the jobs of a thread, and what cancels all that are marked, from any thread."""
    context: Any = getattr(session, "sparkContext", None)
    if context is None:  # Spark Connect
        return session.addTag, session.interruptTag
    return context.addJobTag, context.cancelJobsWithTag  # there, a session's tags are known to their thread only


def _job(session: SparkSession, wave: Wave, work: Callable[..., Any]) -> Callable[[], list[Any]]:
    """Return what runs a wave as one job and returns the answers."""
    numbers, packed = zip(*wave, strict=True)
    sent = pa.table({"number": pa.array(numbers, pa.int64()), "rows": pa.array(packed, pa.binary())})
    # not toLocalIterator, which runs one partition after another
    return session.createDataFrame(sent).mapInArrow(work, _RETURNED_TO_SPARK).collect


@contextmanager
def _sent_once(session: SparkSession, message: bytes) -> Iterator[Callable[[], bytes]]:
    """Yield what gives the message on an executor; it travels to each once, not with every wave."""
    context: Any = getattr(session, "sparkContext", None)
    if context is None:  # Spark Connect: it travels in the function
        yield lambda: message
        return
    broadcast = context.broadcast(message)
    try:
        yield lambda: broadcast.value
    finally:
        broadcast.destroy()


def _pack_sources(sources: Sequence[Source], identities: Sequence[str | None]) -> bytes:
    try:
        packed: bytes = _cloudpickle().dumps((list(sources), list(identities)))
    except Exception as error:
        raise InputError(
            f"A source cannot be handed to Spark: {error}. Leave out what lives in this process only (open files, "
            "connections, locks), or work without Spark."
        ) from error
    return packed


def _as_error(about: Mapping[str, Any]) -> InfuserError:
    """Return an executor's error as it would have been raised here; with its traceback, for --debug."""
    kind = getattr(errors, about["type"], None)
    if about["type"] == "ModuleNotFoundError":
        error = InfuserError(f"A source cannot be opened: {explain_import(about['module'] or about['message'])}")
    elif isinstance(kind, type) and issubclass(kind, InfuserError):
        error = kind(f"{about['message']} (On the executor {about['host']}.)")
    else:
        error = InfuserError(f"{about['type']}: {about['message']} (On the executor {about['host']}.)")
    error.add_note(f"On the executor {about['host']}:\n{about['trace']}")
    return error


# From here on it runs on the executors; the last few functions are used on both sides.

_opened: dict[str, list[Source]] = {}
"""The sources of this process; those of one run at a time, by the digest of the message that brought them."""


def _annotate_batches(
    batches: Iterator[pa.RecordBatch], key: str, load: Callable[[], bytes]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for row in batch.to_pylist():
            content, message = _annotate_packed(row["rows"], key, load)
            answer = {"number": row["number"], "content": content, "message": message}
            yield pa.RecordBatch.from_pylist([answer], schema=_RETURNED)


def _annotate_packed(packed: bytes, key: str, load: Callable[[], bytes]) -> tuple[bytes | None, str]:
    try:
        rows: list[TextPair] = list(zip(*(column.to_pylist() for column in _unpack(packed)), strict=True))
        content, found = annotate_rows(rows, _open_sources(key, load), lambda n_texts: None)
        return _pack(content), json.dumps(found)
    except Exception as error:  # as an answer: raised, Spark would try again and bury it under traces
        about = {"type": type(error).__name__, "message": str(error), "module": getattr(error, "name", None)}
        return None, json.dumps({**about, "host": socket.gethostname(), "trace": traceback.format_exc()})


def _open_sources(key: str, load: Callable[[], bytes]) -> list[Source]:
    if key not in _opened:
        sources, identities = _cloudpickle().loads(load())
        for source, identity in zip(sources, identities, strict=True):
            _check_identity(source.source if isinstance(source, CachedSource) else source, identity)
        _opened.clear()
        _opened[key] = sources
    return _opened[key]


def _check_identity(source: Source, identity: str | None) -> None:
    """See that a source of ours is the same here; the code of others' may have travelled without its file."""
    if identity is None or not type(source).__module__.startswith("infuser."):
        return
    if _identity(describe(source)) not in (identity, None):  # None: it will say itself what it lacks
        raise SourceError(
            f"The source {name_of(source)!r} is not the same on all nodes: its folder has other content, or infuser or "
            "a package that it uses has another version. Make them the same."
        )


def _identity(described: Mapping[str, Any]) -> str | None:
    return fingerprint_of({**described, "code": __version__})  # no digest of the code: it may be in a zip there


def _cloudpickle() -> Any:
    return importlib.import_module("pyspark.cloudpickle")  # as Spark does: what a script defines travels with its code


def _pack(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(batch)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def _unpack(packed: bytes) -> pa.RecordBatch:
    return pa.ipc.open_stream(packed).read_next_batch()
