"""Spark counts as the local engine does, to the last digit; test_spark_cluster.py does so on a real cluster."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from knowledge.counting.by_hand import as_plain, sentences
from spark_cluster import needs_spark, spark_local  # noqa: F401  a fixture

from infuser.errors import InfuserError, InputError
from infuser.knowledge.counting import Counting
from infuser.knowledge.counting.on_spark import count_on_spark
from infuser.knowledge.counting.run import count_corpus

pytestmark = [pytest.mark.slow, needs_spark]


def both(paths: list[Path], tmp_path: Path, settings: Counting, **options: Any) -> dict[str, Any]:
    """Return what the two engines found, if it is the same."""
    with count_corpus(paths, tmp_path / "here", settings, **options) as counts:
        here = {**as_plain(counts), "about": {**counts.about, "skipped": counts.about["skipped"]["rows"]}}
    with count_on_spark(paths, tmp_path / "there", settings, **options) as counts:
        there = {**as_plain(counts), "about": {**counts.about, "skipped": counts.about["skipped"]["rows"]}}
    assert there == here
    assert not (tmp_path / "there").exists()
    return there


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "a [corpus], 100 %.txt"
    path.write_text("\n".join(sentences(500)), encoding="utf-8")
    return path


@pytest.mark.usefixtures("spark_local")
class TestOnOneMachine:
    @pytest.mark.parametrize("unit", ["sentence", "document", "window"])
    def test_counts_are_those_of_the_local_engine(self, lines: Path, tmp_path: Path, unit: Any) -> None:
        settings = Counting(unit=unit, max_words=9, stop_words=["the"])
        found = both([lines], tmp_path, settings)
        assert len(found["words"]) == 9 and found["pairs"]

    def test_every_kind_of_file_is_read_alike(self, tmp_path: Path) -> None:
        rows = [
            {"query": one, "ad": f'{two}, "so"\n{two}'}
            for one, two in zip(sentences(60, 1), sentences(60, 2), strict=True)
        ]
        corpus = tmp_path / "corpus"
        corpus.mkdir()
        table = pa.Table.from_pylist(rows)
        pa.parquet.write_table(table, corpus / "rows.parquet")
        (corpus / "rows.jsonl").write_text("\ufeff" + "\n".join(map(json.dumps, rows)), encoding="utf-8")
        quoted = [f'"{row["query"]}","{row["ad"].replace(chr(34), 2 * chr(34))}"' for row in rows]
        (corpus / "rows.csv").write_text("\n".join(["query,ad", *quoted]), encoding="utf-8")
        flat = "".join(f"{row['query']}\t{row['ad'].replace(chr(10), ' ')}\n" for row in rows).encode()
        (corpus / "rows.tsv").write_bytes(b"query\tad\n" + flat)
        (corpus / "rows.txt.zst").write_bytes(pa.Codec("zstd").compress(flat, asbytes=True))
        found = both([corpus], tmp_path, Counting(unit="pair"), columns=("query", "ad"))
        assert found["about"]["n_texts"] == 300

    def test_junk_is_counted_alike(self, tmp_path: Path, lines: Path) -> None:
        chance = random.Random(5)
        (tmp_path / "junk.txt").write_bytes(bytes(chance.randrange(256) for _ in range(30_000)))
        (tmp_path / "bad.jsonl").write_text('{"text": "one two"}\n{"text": 3}\nno json\n' * 9)
        found = both([lines, tmp_path / "junk.txt", tmp_path / "bad.jsonl"], tmp_path, Counting())
        assert found["about"]["skipped"] > 100

    def test_strict_and_empty_corpora_are_one_clear_error(self, tmp_path: Path) -> None:
        (tmp_path / "bad.jsonl").write_text("no json\n")
        with (
            pytest.raises(InfuserError, match=r"bad\.jsonl.*--strict"),
            count_on_spark([tmp_path / "bad.jsonl"], tmp_path / "w", strict=True),
        ):
            pass
        with pytest.raises(InputError, match="not one word"), count_on_spark([tmp_path / "bad.jsonl"], tmp_path / "w"):
            pass

    def test_a_column_that_is_not_there_is_named(self, tmp_path: Path) -> None:
        pa.parquet.write_table(pa.table({"body": ["one two"]}), tmp_path / "a.parquet")
        with pytest.raises(InputError, match=r"'text'.*body"), count_on_spark([tmp_path / "a.parquet"], tmp_path / "w"):
            pass

    def test_addresses_need_a_format(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="--format"), count_on_spark(["hdfs://far/away"], tmp_path / "w"):
            pass
