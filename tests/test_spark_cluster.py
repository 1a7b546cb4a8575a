"""A real cluster of several processes counts and annotates as this machine does.

One cluster and one session for both, because it takes seven Java processes.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from knowledge.counting.by_hand import as_plain, sentences
from sources.annotating.child import files_of
from spark_cluster import needs_spark, run_driver, spark_standalone  # noqa: F401  a fixture

from infuser.knowledge.counting import Counting
from infuser.knowledge.counting.run import count_corpus
from infuser.knowledge.graph.build import build_graph, facts_of
from infuser.knowledge.graph.store import save_graph

DRIVER = """
import json, os, sys, time
from pathlib import Path
from sources.annotating.child import SlowWords
from knowledge.counting.by_hand import as_plain
from infuser.sources.annotating import annotate, shards
from infuser.knowledge.counting import Counting
from infuser.knowledge.counting.on_spark import count_on_spark
from infuser.errors import SourceError
from infuser.sources import Entities, Graph
from infuser.spark import open_session
from infuser.types import Annotations

master, folder = sys.argv[1], Path(sys.argv[2])
shards.TEXTS = 40
texts = [f"Bern lies on the Aare, {n} times" for n in range(300)]


class Meets:  # answers when two executors are there; each has its own parent of Python processes
    def annotate(self, texts):
        (folder / "met" / str(os.getppid())).touch()
        until = time.monotonic() + 60
        while len(os.listdir(folder / "met")) < 2 and time.monotonic() < until:
            time.sleep(0.05)
        return [Annotations(text) for text in texts]


class Refuses:
    def annotate(self, texts):
        raise SourceError("I refuse")


sources = [Entities.tiny(), Graph(folder / "graph"), SlowWords()]
annotate(texts, sources, folder / "local")
with open_session(master, "one for all"):
    annotate(texts, [Meets()], folder / "meeting", engine="spark")
    with count_on_spark([folder / sys.argv[3]], folder / "work", Counting(), master=master) as counts:
        found = as_plain(counts)
    annotate(texts, sources, folder / "spark", engine="spark", master=master)
    try:
        annotate(texts, [Refuses()], folder / "refused", engine="spark")
    except SourceError as error:
        print("told:", error)
found["pairs"] = sorted([*pair, n] for pair, n in found["pairs"].items())
print(json.dumps(found))
"""


@pytest.mark.slow
@needs_spark
def test_a_real_cluster_counts_the_same_and_writes_the_same_bytes(spark_standalone: str, tmp_path: Path) -> None:  # noqa: F811
    (tmp_path / "met").mkdir()
    save_graph(
        build_graph(facts_of([("Bern", "on", "Aare"), ("glipizide", "sold by", "pharmacy")])), tmp_path / "graph"
    )
    lines = tmp_path / "a [corpus], 100 %.txt"
    lines.write_text("\n".join(sentences(500)), encoding="utf-8")
    child = run_driver(DRIVER, spark_standalone, tmp_path, lines.name, timeout=400)
    assert child.returncode == 0, child.stderr
    assert child.stderr == ""  # a quiet console
    told, counted = child.stdout.splitlines()
    assert told.startswith("told: I refuse (On the executor ")
    assert files_of(tmp_path / "spark") == files_of(tmp_path / "local")
    assert len(list((tmp_path / "met").iterdir())) == 2
    with count_corpus([lines], tmp_path / "here", Counting()) as counts:
        here = as_plain(counts)
    found = json.loads(counted)
    assert {tuple(pair): n for *pair, n in found.pop("pairs")} == here.pop("pairs")
    assert found == here
