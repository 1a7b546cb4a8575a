"""The same file gives the same rows wherever it is read: as records, as facts, as a corpus; packed or not."""

from __future__ import annotations

import copy
import gzip
import io
import json
import os
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from infuser.errors import InputError
from infuser.knowledge.counting.corpus import find_files, read_corpus
from infuser.knowledge.counting.texts import read_texts
from infuser.knowledge.readers.tables import read_table
from infuser.tables.blocks import STDIN
from infuser.tables.rows import digest_of_file, filled_lines, json_lines, read_json, read_lines, read_records, read_rows
from infuser.tables.skipped import BadRow, Place, Skipped

ROWS = [("Q70", "Bern", "a city,\non the Aare"), ("Q72", "Zürich", 'the "largest" city')]
NAMES = ("id", "label", "description")


def write(folder: Path, name: str, text: str | bytes) -> Path:
    data = text.encode() if isinstance(text, str) else text
    if name.endswith(".gz"):
        data = gzip.compress(data, mtime=0)
    elif name.endswith(".zst"):
        data = pa.Codec("zstd").compress(data, asbytes=True)
    (folder / name).write_bytes(data)
    return folder / name


def as_csv(separator: str = ",") -> str:
    rows = (separator.join('"' + cell.replace('"', '""') + '"' for cell in row) for row in (NAMES, *ROWS))
    return "".join(f"{row}\r\n" for row in rows)


def as_json_lines() -> str:
    return "".join(json.dumps(dict(zip(NAMES, row, strict=True))) + "\n" for row in ROWS)


@pytest.mark.parametrize("packing", ["", ".gz", ".zst"])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", as_csv()),
        ("a.csv", "\ufeff" + as_csv(";")),
        ("a.jsonl", as_json_lines()),
        ("a.ndjson", as_json_lines()),
    ],
)
def test_records_facts_and_corpus_agree(tmp_path: Path, name: str, text: str, packing: str) -> None:
    path = write(tmp_path, name + packing, text)
    assert [tuple(record.values()) for _, record in read_records(path)] == ROWS
    facts = [row for batch in read_table(path, Skipped(strict=True)) for row in batch.to_pylist()]
    assert [tuple(row[column] for column in NAMES) for row in facts] == ROWS
    [block] = read_corpus(find_files([path]), ["description"])
    [texts] = read_texts(block, ["description"], Skipped(strict=True))
    assert texts.data.decode() == "".join(f"{row[2]}\n" for row in ROWS)


def test_a_bad_row_has_the_same_place_and_reason_everywhere(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", 'id,label\n"Q1\n",one\n\nQ2,two,2\nQ3,three\n')
    counts = [Skipped(), Skipped(), Skipped()]
    assert [place.number for place, _ in read_records(path, counts[0])] == [2, 6]
    assert sum(batch.num_rows for batch in read_table(path, counts[1])) == 2
    [block] = read_corpus(find_files([path]), ["label"])
    assert read_texts(block, ["label"], counts[2])[0].n_texts == 2
    for skipped in counts:
        assert skipped.n == 1
        assert skipped.first[0].startswith(f"{path}, line 5: has 3 cells instead of 2")


@pytest.mark.parametrize("name", ["a.txt.zst", "a.txt.gz", "a.txt"])
def test_lines_are_read_packed_or_not(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, name, "one\r\n\ntwo")
    assert list(read_lines(path)) == [(1, "one"), (2, ""), (3, "two")]
    assert list(filled_lines(path)) == [(1, "one"), (3, "two")]
    assert digest_of_file(path) == digest_of_file(write(tmp_path, "plain.txt", "one\r\n\ntwo"))


def test_a_bad_line_is_an_error_or_counted(tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt", b"one\n\xff\ntwo\n")
    with pytest.raises(BadRow, match=r"a\.txt, line 2 is not UTF-8"):
        list(read_lines(path))
    skipped = Skipped()
    assert [line for _, line in read_lines(path, skipped)] == ["one", "two"] and skipped.n == 1


def test_lists_take_tabs_commas_or_json(tmp_path: Path) -> None:
    files = {
        "a.tsv.zst": 'Bern\t"a ""city"""\n',
        "a.csv": 'Bern,"a ""city"""\n',
        "a.json": '[["Bern", "a \\"city\\""]]',
    }
    for name, text in files.items():
        [(place, cells)] = read_rows(write(tmp_path, name, text))
        assert cells == ["Bern", 'a "city"'] and place.number == 1
        assert place.unit == ("entry" if name == "a.json" else "line")


def test_json_is_read_packed_and_broken_json_names_the_file(tmp_path: Path) -> None:
    assert read_json(write(tmp_path, "a.json.zst", '\ufeff{"a": 1}')) == {"a": 1}
    assert [record for _, record in read_records(write(tmp_path, "b.json.zst", '[{"a": 1}, {"a": 2}]'))] == [
        {"a": 1},
        {"a": 2},
    ]
    with pytest.raises(InputError, match=r"c\.json is not JSON: .*line 1"):
        read_json(write(tmp_path, "c.json", '{"a": '))
    with pytest.raises(BadRow, match=r"d\.txt, line 2 is not an object"):
        list(json_lines(write(tmp_path, "d.txt", '{"a": 1}\n[1]\n')))


def test_parquet_rows_are_numbered(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["a", "b"], "n": [1, 2]}), tmp_path / "a.parquet")
    rows = list(read_records(tmp_path / "a.parquet", columns=["text"]))
    assert [(str(place), record) for place, record in rows] == [
        (f"{tmp_path / 'a.parquet'}, row 1", {"text": "a"}),
        (f"{tmp_path / 'a.parquet'}, row 2", {"text": "b"}),
    ]


def test_the_standard_input_is_read_as_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    class Typed(io.BytesIO):
        """Hands over a line at a time, as a terminal does."""

        def read1(self, size: int | None = -1) -> bytes:
            return self.readline()

    typed = Typed(b"one\nBern\tAare\nlast")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(typed))
    records = read_records(STDIN)
    assert next(records) == ("standard input, line 1", {"text": "one"})
    assert typed.tell() <= len(b"one\nBern\tAare\n")  # the rest was not waited for
    assert [record for _, record in records] == [{"text": "Bern", "pair": "Aare"}, {"text": "last"}]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.csv.zst"])
def test_a_pipe_is_read_once(tmp_path: Path, name: str) -> None:
    data = write(tmp_path, name, "text\none\ntwo\n").read_bytes()
    pipe = tmp_path / f"pipe-{name}"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(data,))
    writer.start()
    assert [record for _, record in read_records(pipe)] == [{"text": "one"}, {"text": "two"}]
    writer.join()


def test_a_folder_and_a_missing_file_are_clear_errors(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder"):
        list(read_lines(tmp_path))
    with pytest.raises(InputError, match=r"No file at .*none\.txt\. Check the name"):
        list(read_lines(tmp_path / "none.txt"))


def test_a_place_reaches_a_worker_process_as_it_is() -> None:
    place = Place(Path("cities.tsv"), 3, "row")
    again = copy.deepcopy(place)  # by the same route as to another process
    assert (again, again.path, again.number, again.unit) == (place, place.path, 3, "row")


def test_the_digest_of_a_folder_depends_on_the_names_and_the_content_of_its_files(tmp_path):
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "a.txt").write_text("one")
    first = digest_of_file(tmp_path)
    assert first == digest_of_file(tmp_path) != digest_of_file(tmp_path / "inner")
    (tmp_path / "inner" / "a.txt").write_text("two")
    assert digest_of_file(tmp_path) != first
