from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from infuser.errors import InputError
from infuser.knowledge.candidates.files import name_mentions, read_mention_counts, read_tagged
from infuser.knowledge.candidates.knowbert_ernie import read_ernie, read_knowbert, read_knowbert_wordnet
from infuser.knowledge.candidates.store import build_candidates
from infuser.knowledge.facts import ENTITIES, MENTIONS, TRIPLES, Facts
from infuser.tables.skipped import Skipped

Rows = list[tuple[str, str, float]]
in_one_folder = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def rows_of(facts: Facts) -> Rows:
    rows: Rows = []
    for batch in facts:
        assert batch.schema == MENTIONS
        rows += [(row["mention"], row["entity"], row["count"]) for row in batch.to_pylist()]
    return rows


def write(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="")
    return path


def faults(read: Callable[[Skipped], Facts]) -> tuple[Rows, list[str]]:
    """Read, see that --strict would stop, and return the rows and what was said of the others."""
    skipped = Skipped()
    rows = rows_of(read(skipped))
    assert skipped.n >= len(skipped.first) > 0
    with pytest.raises(InputError, match="--strict"):
        rows_of(read(Skipped(strict=True)))
    return rows, skipped.first


ROWS: Rows = [("Bern", "Q70", 90.0), ("New York", "Q60", 2.5), ("Bern", "Q1", 1.0)]


@pytest.mark.parametrize("header", [True, False])
@pytest.mark.parametrize(("suffix", "mark"), [(".tsv", "\t"), (".csv", ","), (".tsv.gz", "\t")])
def test_a_table_of_counts_is_read(tmp_path: Path, suffix: str, mark: str, header: bool) -> None:
    lines = [mark.join(map(str, row)) for row in ROWS]
    path = tmp_path / f"counts{suffix}"
    content = "\n".join([mark.join(("mention", "entity", "count"))] * header + lines)
    path.write_bytes(gzip.compress(content.encode(), mtime=0) if suffix.endswith(".gz") else content.encode())
    assert rows_of(read_mention_counts(path, Skipped(strict=True))) == ROWS


def test_named_columns_may_stand_in_any_order_beside_others(tmp_path: Path) -> None:
    path = write(tmp_path / "t.tsv", "Count\tqid\tlanguage\tanchor", "3\tQ70\ten\tBern", "\tQ71\tde\tBiel")
    assert rows_of(read_mention_counts(path, Skipped(strict=True))) == [("Bern", "Q70", 3.0), ("Biel", "Q71", 1.0)]


def test_counts_are_read_from_json_lines_and_parquet(tmp_path: Path) -> None:
    records = [{"mention": mention, "entity": entity, "count": count} for mention, entity, count in ROWS]
    lines = write(tmp_path / "counts.jsonl", *map(json.dumps, records))
    assert rows_of(read_mention_counts(lines, Skipped(strict=True))) == ROWS
    pq.write_table(pa.Table.from_pylist([{**record, "more": 1} for record in records]), tmp_path / "counts.parquet")
    assert rows_of(read_mention_counts(tmp_path / "counts.parquet", Skipped(strict=True))) == ROWS


def test_a_missing_count_is_one_and_a_count_of_zero_says_nothing(tmp_path: Path) -> None:
    path = write(tmp_path / "t.tsv", "Bern\tQ70", "Bern\tQ71\t", "Bern\tQ72\t0")
    assert rows_of(read_mention_counts(path, Skipped(strict=True))) == [("Bern", "Q70", 1.0), ("Bern", "Q71", 1.0)]


def test_rows_that_cannot_be_read_are_told_with_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "t.tsv"
    bad = [b"Bern", b"Bern\tQ1\tmany", b"\tQ1\t2", b"Bern\t \t2", b"Bern\tQ1\t-2", b"Bern\tQ1\tnan", b"\xff\tQ1\t2"]
    path.write_bytes(b"\n".join([b"Bern\tQ70\t1", b"", *bad, b"Aare\tQ2\t1"]))
    skipped = Skipped()
    assert rows_of(read_mention_counts(path, skipped)) == [("Bern", "Q70", 1.0), ("Aare", "Q2", 1.0)]
    assert skipped.n == len(bad)
    assert "t.tsv, line 3: 1 cells" in skipped.first[0] and "line 4: the count" in skipped.first[1]
    with pytest.raises(InputError, match="line 3"):
        rows_of(read_mention_counts(path, Skipped(strict=True)))


def test_an_open_quote_spoils_one_line_of_csv(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", '"Bern, city",Q70,1', '"Bern,Q70,1', "Aare,Q2,1")
    rows, said = faults(lambda skipped: read_mention_counts(path, skipped))
    assert rows == [("Bern, city", "Q70", 1.0), ("Aare", "Q2", 1.0)]
    assert "line 2: is not CSV" in said[0]


def test_records_without_mention_or_with_odd_values_are_told(tmp_path: Path) -> None:
    lines = [
        '{"mention": "Bern"}',
        "[1]",
        "{",
        '{"mention": 3, "entity": "Q1"}',
        '{"mention": "\\ud83d", "entity": "Q"}',
    ]
    path = write(tmp_path / "t.jsonl", *lines, '{"mention": "Bern", "entity": "Q70", "count": {"n": 1}}')
    skipped = Skipped()
    assert rows_of(read_mention_counts(path, skipped)) == []
    assert skipped.n == 6


@pytest.mark.parametrize("name", ["counts.xlsx", "missing.tsv", "missing.parquet", "broken.parquet"])
def test_a_file_that_cannot_be_a_table_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(InputError, match=name):
        rows_of(read_mention_counts(tmp_path / name))


UTF_16 = (b"\xff\xfe", b"\xfe\xff")
NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1, max_size=9).filter(
    lambda name: name.strip() == name and '"' not in name
)
COUNTS = st.floats(1e-6, 1e9)


@in_one_folder
@given(st.lists(st.tuples(NAMES, NAMES, COUNTS)))
def test_any_counts_survive_tsv(tmp_path: Path, rows: Rows) -> None:
    path = write(tmp_path / "t.tsv", "mention\tentity\tcount", *(f"{a}\t{b}\t{c!r}" for a, b, c in rows))
    assert rows_of(read_mention_counts(path, Skipped(strict=True))) == rows


@in_one_folder
@given(st.binary(max_size=80), st.sampled_from(["t.tsv", "t.csv", "t.jsonl"]))
def test_any_bytes_are_read_or_told(tmp_path: Path, content: bytes, name: str) -> None:
    assume(not content.startswith(UTF_16))  # an error of its own
    (tmp_path / name).write_bytes(content)
    skipped = Skipped()
    build_candidates(read_mention_counts(tmp_path / name, skipped))
    assert skipped.n <= content.count(b"\n") + 1


def test_a_tagged_corpus_is_counted_in_both_forms(tmp_path: Path) -> None:
    own = {"text": "Bern and Bern", "spans": [{"start": 0, "end": 4, "id": "Q70"}, {"start": 9, "end": 13, "id": None}]}
    elevant = {
        "text": "In Bern.",
        "labels": [{"span": [3, 7], "entity_id": "Q70"}, {"span": [0, 2], "entity_id": "<NIL>"}],
    }
    path = write(tmp_path / "t.jsonl", json.dumps(own), json.dumps(elevant))
    assert rows_of(read_tagged(path, Skipped(strict=True))) == [("Bern", "Q70", 1.0)] * 2


def test_spans_outside_their_text_are_told_and_the_others_kept(tmp_path: Path) -> None:
    places: list[Any] = [[0, 4], [3, 9], [2, 2], [-1, 3], ["0", 4], [0, True], 5, None, [4, 5]]
    record = {"text": "Bern a", "labels": [*({"span": place, "entity_id": "Q70"} for place in places), 7]}
    path = write(tmp_path / "t.jsonl", "{}", json.dumps(record))
    skipped = Skipped()
    assert rows_of(read_tagged(path, skipped)) == [("Bern", "Q70", 1.0)]
    assert skipped.n == 10
    assert "line 1: no text with spans" in skipped.first[0] and "line 2" in skipped.first[1]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 5) | st.text(max_size=3) | st.sampled_from(["Bern", "Q70"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["text", "spans", "labels", "span", "start", "end", "id", "entity_id"]), inner
        )
    ),
    max_leaves=12,
)


@in_one_folder
@given(st.lists(JSON, max_size=3))
def test_any_json_is_a_tagged_text_or_told(tmp_path: Path, records: list[Any]) -> None:
    path = write(tmp_path / "t.jsonl", *map(json.dumps, records))
    texts = [record.get("text") for record in records if isinstance(record, dict)]
    for mention, _, count in rows_of(read_tagged(path, Skipped())):
        assert count == 1 and any(mention in text for text in texts if isinstance(text, str))


def test_knowberts_candidates_are_read_by_name_or_by_id(tmp_path: Path) -> None:
    path = write(tmp_path / "priors.txt", "US\t200\t3434750,0.75,United_States\t12,0.25,U.S.,_the_band\t")
    assert rows_of(read_knowbert(path, Skipped(strict=True))) == [
        ("US", "United_States", 150.0),
        ("US", "U.S.,_the_band", 50.0),
    ]
    assert [row[1] for row in rows_of(read_knowbert(path, entity="id"))] == ["3434750", "12"]


def test_knowberts_candidates_with_a_space_for_a_tab_are_told_not_taken_for_one_name(tmp_path: Path) -> None:
    lines = ["Bern\t9\t1,0.9,Bern_city 2,0.1,Bern_canton", "Win\t1\t3,1.0,The 10,000,000 dollar,_man"]
    rows, said = faults(lambda skipped: read_knowbert(write(tmp_path / "p.txt", *lines), skipped))
    assert rows == [("Win", "The 10,000,000 dollar,_man", 1.0)]
    assert "line 1: two candidates without a tab" in said[0]


def test_knowbert_lines_that_are_none_are_told(tmp_path: Path) -> None:
    lines = ["US", "US\t3", "US\tmany\t1,0.5,A", "US\t0\t1,0.5,A", "US\t2\t1,0.5\t1,x,B\t1,0.5,C"]
    rows, said = faults(lambda skipped: read_knowbert(write(tmp_path / "p.txt", *lines), skipped))
    assert rows == [("US", "C", 1.0)]
    assert "p.txt, line 1: not mention, total, candidates" in said[0]


@in_one_folder
@given(st.lists(st.tuples(NAMES, st.integers(1, 99), st.lists(st.tuples(NAMES, st.floats(0.01, 1)), min_size=1))))
def test_any_names_survive_knowberts_format(
    tmp_path: Path, known: list[tuple[str, int, list[tuple[str, float]]]]
) -> None:
    lines = [f"{m}\t{total}\t" + "\t".join(f"{i},{p!r},{n}" for i, (n, p) in enumerate(c)) for m, total, c in known]
    read = rows_of(read_knowbert(write(tmp_path / "p.txt", *lines), Skipped(strict=True)))
    assert read == [(mention, name, total * prior) for mention, total, of in known for name, prior in of]


def test_knowberts_wordnet_lemmas_mean_their_synsets(tmp_path: Path) -> None:
    records = [
        {"id": "big_cat%1:05:00::", "pos": "n", "synset": "cat.n.01", "type": "lemma", "count": 4},
        {"id": "cat%1:05:00::", "pos": "n", "synset": "cat.n.01", "type": "lemma", "count": 0},
        {"id": "cat.n.01", "pos": "n", "lemmas": ["cat%1:05:00::"], "definition": "", "type": "synset"},
    ]
    path = write(tmp_path / "e.jsonl", *map(json.dumps, records))
    assert rows_of(read_knowbert_wordnet(path, Skipped(strict=True))) == [
        ("big cat", "cat.n.01", 5.0),
        ("cat", "cat.n.01", 1.0),
    ]
    wrong = [
        {"head": "a", "tail": "b"},
        {"type": "lemma", "id": "cat"},
        {"type": "lemma", "id": "cat%1", "count": -1},
        {"type": "lemma", "id": "a%1"},
    ]
    rows, said = faults(lambda skipped: read_knowbert_wordnet(write(path, *map(json.dumps, wrong)), skipped))
    assert rows == [] and len(said) == 4


def test_ernies_names_of_numbered_entities_are_read(tmp_path: Path) -> None:
    numbers = write(tmp_path / "entity2id.txt", "2", "Q42\t0", "Q70\t1")
    names = write(tmp_path / "entity_map.txt", "Douglas Adams\tQ42", "Bern\tQ70", "Biel\tQ71", "Adams\tQ42")
    assert rows_of(read_ernie(numbers, names, Skipped(strict=True))) == [
        ("Douglas Adams", "Q42", 1.0),
        ("Bern", "Q70", 1.0),
        ("Adams", "Q42", 1.0),
    ]


def test_ernie_files_that_disagree_with_themselves_are_told(tmp_path: Path) -> None:
    numbers = write(tmp_path / "entity2id.txt", "3", "Q42\t0", "Q70", "\t1")
    names = write(tmp_path / "entity_map.txt", "Bern", "Adams\tQ42", "\tQ42")
    rows, said = faults(lambda skipped: read_ernie(numbers, names, skipped))
    assert rows == [("Adams", "Q42", 1.0)]
    assert any("3 entities announced, 1 found" in one for one in said)
    assert any("entity_map.txt, line 1" in one for one in said)


@in_one_folder
@given(st.binary(max_size=60), st.binary(max_size=60))
def test_any_bytes_are_read_or_told_by_every_import(tmp_path: Path, one: bytes, other: bytes) -> None:
    assume(not one.startswith(UTF_16) and not other.startswith(UTF_16))  # an error of its own
    (tmp_path / "one").write_bytes(one)
    (tmp_path / "other").write_bytes(other)
    skipped = Skipped()
    read = [read_ernie(tmp_path / "one", tmp_path / "other", skipped)]
    read += [reader(tmp_path / "one", skipped) for reader in (read_knowbert, read_knowbert_wordnet, read_tagged)]
    for facts in read:
        assert len(build_candidates(facts)) <= len(one) + len(other)


def test_labels_and_aliases_are_mentions_an_alias_counting_half() -> None:
    rows = [
        {"id": "Q70", "label": "Bern", "aliases": ["Berne", "Bern", " "], "count": 9},
        {"id": "Q71", "label": None, "aliases": ["Biel"], "count": None},
        {"id": "Q72", "label": "Zürich", "aliases": None, "count": 0},
    ]
    batch = pa.RecordBatch.from_pylist(rows, schema=ENTITIES)
    triples = pa.RecordBatch.from_pylist([{"head": "a", "relation": "b", "tail": "c", "weight": 1.0}], schema=TRIPLES)
    assert rows_of(name_mentions([triples, batch])) == [
        ("Bern", "Q70", 10.0),
        ("Berne", "Q70", 5.0),
        ("Biel", "Q71", 0.5),
        ("Zürich", "Q72", 1.0),
    ]
    assert rows_of(name_mentions([batch], alias_weight=1.0))[1] == ("Berne", "Q70", 10.0)
    with pytest.raises(InputError, match="alias_weight"):
        name_mentions([batch], alias_weight=0.0)
