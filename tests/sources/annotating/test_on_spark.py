"""Annotating on Spark: the same bytes, the same errors; test_spark_cluster.py does so on a real cluster."""

from __future__ import annotations

import os
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from sources.annotating.child import SlowWords, files_of
from spark_cluster import MASTER, needs_spark, spark_local  # noqa: F401  a fixture

from infuser.errors import InfuserError, InputError, SourceError
from infuser.knowledge.graph.build import build_graph, facts_of
from infuser.knowledge.graph.store import save_graph
from infuser.sources import Correlation, Entities, Graph
from infuser.sources.annotating import annotate, on_spark, shards
from infuser.types import Annotations, Source, Span

pytestmark = [pytest.mark.slow, needs_spark, pytest.mark.usefixtures("spark_local")]

TEXTS = [f"Bern lies on the Aare, {n} times 🙂" for n in range(300)]
EXAMPLES: list[Any] = [*TEXTS, *({"text": "buy glipizide", "pair": f"pharmacy {n}"} for n in range(97))]


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "TEXTS", 40)


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    save_graph(
        build_graph(facts_of([("Bern", "on", "Aare"), ("glipizide", "sold by", "pharmacy")])), tmp_path / "graph"
    )
    return Graph(tmp_path / "graph")


def source_of(annotate_one: Callable[[str], Annotations]) -> Source:
    """Return a source that asks a function; its class travels to the executors with its code."""

    class Asking:
        def annotate(self, texts: Sequence[str]) -> list[Annotations]:
            return [annotate_one(text) for text in texts]

        @classmethod
        def tiny(cls) -> Asking:
            return cls()

    return Asking()


def test_spark_writes_the_same_bytes(graph: Graph, tmp_path: Path) -> None:
    sources = [Entities.tiny(), graph, Correlation({("buy", "pharmacy"): 2.0, ("buy", "shop"): 1.0}, n_terms=1)]
    sources.append(SlowWords())  # with terms and candidates
    annotate(EXAMPLES, sources, tmp_path / "local", about={"data": "x"})
    told: list[tuple[int, int]] = []
    annotated = annotate(
        EXAMPLES,
        sources,
        tmp_path / "spark",
        engine="spark",
        master=MASTER,
        about={"data": "x"},
        progress=lambda done, of: told.append((done, of)),
    )
    assert len(annotated) == 397 and len(annotated.about["shards"]) == 10
    assert files_of(tmp_path / "spark") == files_of(tmp_path / "local")
    assert told[0] == (0, 397) and told[-1] == (397, 397) and len(told) == 11


def test_answers_are_remembered_on_spark_and_taken_from_there_without_it(tmp_path: Path) -> None:
    annotate(TEXTS, [SlowWords()], tmp_path / "plain")
    annotate(TEXTS, [SlowWords()], tmp_path / "spark", cache=tmp_path / "cache", engine="spark")
    n_entries = len(list((tmp_path / "cache").rglob("*.keys")))
    annotate(TEXTS, [SlowWords()], tmp_path / "known", cache=tmp_path / "cache")
    assert n_entries and len(list((tmp_path / "cache").rglob("*.keys"))) == n_entries  # nothing was asked again
    assert files_of(tmp_path / "plain") == files_of(tmp_path / "spark") == files_of(tmp_path / "known")


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_a_run_that_was_stopped_goes_on_with_either_engine(engine: Any, tmp_path: Path) -> None:
    from pyspark.sql import SparkSession

    def stop(done: int, of: int) -> None:
        if done >= 80:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        annotate(EXAMPLES, [SlowWords()], tmp_path / "out", engine="spark", progress=stop)
    assert not (tmp_path / "out" / "about.json").exists()
    tracker = SparkSession.active().sparkContext.statusTracker()
    assert list(tracker.getActiveJobsIds()) == []  # the session goes on, what was under way does not
    told: list[int] = []
    annotate(EXAMPLES, [SlowWords()], tmp_path / "out", engine=engine, progress=lambda done, of: told.append(done))
    assert told[0] >= 40 and told[-1] == 397
    annotate(EXAMPLES, [SlowWords()], tmp_path / "whole")
    assert files_of(tmp_path / "out") == files_of(tmp_path / "whole")


def test_what_is_under_way_is_cancelled_when_one_shard_fails(tmp_path: Path) -> None:
    from pyspark.sql import SparkSession

    def wait_for(path: Path) -> None:
        deadline = time.monotonic() + 300
        while not path.exists() and time.monotonic() < deadline:
            time.sleep(0.05)

    wrong, slow, finished = (tmp_path / name for name in ("wrong", "slow", "finished"))

    def slow_or_wrong(text: str) -> Annotations:
        if text == "wrong":
            wrong.touch()
            wait_for(slow)
            raise SourceError("I refuse: wrong")
        if text == "slow":
            slow.touch()
            wait_for(finished)  # which nobody writes meanwhile
            finished.touch()
        return Annotations(text)

    class Texts:
        """A wave with a wrong shard; once that runs, waves of shards that take minutes unless cancelled."""

        n_read = 0

        def __iter__(self) -> Iterator[str]:
            self.n_read += 1
            yield from [*["wrong"] * 40, *["fine"] * 80]
            if self.n_read == 2:  # the first reading only counts
                wait_for(wrong)
            yield from ["slow"] * 160

    with pytest.raises(SourceError, match="I refuse: wrong"):
        annotate(Texts(), [source_of(slow_or_wrong)], tmp_path / "out", engine="spark")
    assert slow.exists() and not finished.exists()
    assert list(SparkSession.active().sparkContext.statusTracker().getActiveJobsIds()) == []


def test_each_python_process_opens_its_sources_once(tmp_path: Path) -> None:
    opened = tmp_path / "opened"
    opened.mkdir()

    class Opening:
        def __getstate__(self) -> dict[str, Any]:
            return {"any": 1}

        def __setstate__(self, state: dict[str, Any]) -> None:
            (opened / f"{os.getpid()}-{time.monotonic_ns()}").touch()

        def annotate(self, texts: Sequence[str]) -> list[Annotations]:
            return [Annotations(text, (Span(0, 4),)) for text in texts]

        @classmethod
        def tiny(cls) -> Opening:
            return cls()

    annotated = annotate(EXAMPLES, [Opening()], tmp_path / "out", engine="spark")
    pids = [path.name.partition("-")[0] for path in opened.iterdir()]
    assert len(annotated.about["shards"]) == 10 and 1 <= len(pids) <= 2
    assert len(set(pids)) == len(pids) and str(os.getpid()) not in pids


def test_a_wave_is_bounded_by_slots_and_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql import SparkSession

    tasks: list[Any] = [(number, [("Bern" * 100, None)] * 3) for number in range(5)]
    waves = list(on_spark._waves(tasks, SparkSession.active()))
    assert [[number for number, _ in wave] for wave in waves] == [[0, 1], [2, 3], [4]]
    monkeypatch.setattr(on_spark, "_WAVE_BYTES", 100)
    assert [len(wave) for wave in on_spark._waves(tasks, SparkSession.active())] == [1] * 5


def test_an_error_of_a_source_on_an_executor_is_one_clear_error(tmp_path: Path) -> None:
    def refuse(text: str) -> Annotations:
        raise SourceError(f"I refuse: {text[:4]}")

    with pytest.raises(SourceError) as caught:
        annotate(TEXTS, [source_of(refuse)], tmp_path / "out", engine="spark")
    assert str(caught.value) == f"I refuse: Bern (On the executor {socket.gethostname()}.)"
    assert "in refuse" in "".join(caught.value.__notes__)  # where it was raised, for --debug
    with pytest.raises(InfuserError, match=r"^ZeroDivisionError: division by zero"):
        annotate(TEXTS, [source_of(lambda text: 1 / 0)], tmp_path / "out", engine="spark")  # type: ignore[arg-type, return-value]


def test_a_folder_that_an_executor_lacks_is_named(graph: Graph, tmp_path: Path) -> None:
    def remove(done: int, of: int) -> None:
        shutil.rmtree(tmp_path / "graph", ignore_errors=True)  # before the executors look for it

    with pytest.raises(SourceError) as caught:
        annotate(TEXTS, [graph], tmp_path / "out", engine="spark", progress=remove)
    told = str(caught.value)
    assert str(tmp_path / "graph") in told and "\n" not in told and len(told) < 300


def test_a_folder_with_other_content_on_an_executor_is_refused(graph: Graph, tmp_path: Path) -> None:
    def replace(done: int, of: int) -> None:
        shutil.rmtree(tmp_path / "graph")
        save_graph(build_graph(facts_of([("Bern", "far from", "Aare")])), tmp_path / "graph")

    with pytest.raises(SourceError, match="'graph' is not the same on all nodes"):
        annotate(TEXTS, [graph], tmp_path / "out", engine="spark", progress=replace)


def test_a_source_that_cannot_travel_is_refused_before_the_work(tmp_path: Path) -> None:
    lock = threading.Lock()
    with pytest.raises(InputError, match=r"cannot be handed to Spark: .*lock"):
        annotate(TEXTS, [source_of(lambda text: lock.locked() and Annotations(text))], tmp_path / "out", engine="spark")  # type: ignore[arg-type, return-value]


def test_a_module_that_the_executors_lack_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kept_at_home.py").write_text(
        "from infuser.types import Annotations\n"
        "class Home:\n"
        "    def annotate(self, texts): return [Annotations(text) for text in texts]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)  # after the executors' Python was told where to look
    home = __import__("kept_at_home")
    with pytest.raises(InfuserError, match=r"executors' Python cannot import 'kept_at_home'.*--py-files"):
        annotate(TEXTS, [home.Home()], tmp_path / "out", engine="spark")


def test_executors_without_infuser_are_told_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql import SparkSession

    (tmp_path / "sitecustomize.py").write_text(  # what Python reads when it starts
        "import sys\n"
        "class Without:\n"
        "    def find_spec(self, name, *more):\n"
        "        if name.partition('.')[0] == 'infuser':\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Without())\n"
    )
    monkeypatch.setitem(SparkSession.active().sparkContext.environment, "PYTHONPATH", str(tmp_path))
    with pytest.raises(InfuserError, match=r"executors' Python cannot import infuser.*pip install infuser") as caught:
        annotate(TEXTS, [Entities.tiny()], tmp_path / "out", engine="spark")
    assert "\n" not in str(caught.value)


def test_a_process_that_dies_on_an_executor_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(InfuserError, match=r"process on an executor died.*run the same again") as caught:
        annotate([*TEXTS, "poison"], [SlowWords()], tmp_path / "out", engine="spark")
    assert "\n" not in str(caught.value)
    assert (tmp_path / "out" / "progress.json").exists()
