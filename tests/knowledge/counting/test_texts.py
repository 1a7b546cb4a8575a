"""The texts of a block: what was written comes back, and every row that cannot be read is told with its line."""

from __future__ import annotations

import csv
import io
import json
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from knowledge.counting.corpora import read, rows_in
from packed_files import write_packed as write

from infuser.errors import InputError
from infuser.knowledge.counting import texts as texts_module
from infuser.knowledge.counting.corpus import CorpusBlock, CorpusFile, find_files, read_corpus, write_rows
from infuser.knowledge.counting.texts import read_texts
from infuser.tables import parse, parse_json
from infuser.tables.blocks import Block
from infuser.tables.skipped import Skipped

ODD = "ab ,;\"'\n\r\t\\{}ä€😀\u3000\x00\x1c\u2028\ufeff"
ANY_TEXT = st.one_of(st.text(max_size=12), st.text(alphabet=ODD, max_size=12))
SIZES = st.sampled_from([1, 2, 5, 17, 100, 1 << 20])


def filled(rows: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    return [row for row in rows if all(text.strip() for text in row)]


def read_content(name: str, content: bytes, columns: tuple[str, ...], size: int) -> tuple[list, Skipped]:
    with tempfile.TemporaryDirectory() as folder:
        skipped = Skipped()
        return read(write(Path(folder), name, content), columns=columns, size=size, skipped=skipped), skipped


def n_one_sided(rows: list[tuple[str, ...]]) -> int:
    return sum(bool(left.strip()) != bool(right.strip()) for left, right in rows)


@given(st.lists(st.tuples(ANY_TEXT, ANY_TEXT), max_size=8), SIZES, st.booleans(), st.sampled_from(["\n", "\r\n"]))
def test_texts_written_as_csv_come_back(rows, size, quote_all, line_end):
    written = io.StringIO(newline="")
    writer = csv.writer(written, quoting=csv.QUOTE_ALL if quote_all else csv.QUOTE_MINIMAL, lineterminator=line_end)
    writer.writerow(["query", "ad", "id"])
    writer.writerows([*row, number] for number, row in enumerate(rows))
    content = written.getvalue().encode()
    assert read_content("a.csv", content, ("query",), size)[0] == filled([row[:1] for row in rows])
    both, skipped = read_content("a.csv", content, ("ad", "query"), size)
    assert both == [row[::-1] for row in filled(rows)]
    assert skipped.n == n_one_sided(rows)


@given(st.lists(st.tuples(ANY_TEXT, ANY_TEXT), max_size=8), SIZES, st.booleans())
def test_texts_written_as_json_lines_come_back(rows, size, ascii_only):
    objects = [{"n": {"text": 5}, "query": left, "ad": right} for left, right in rows]
    content = "".join(json.dumps(one, ensure_ascii=ascii_only) + "\n" for one in objects).encode()
    assert read_content("a.jsonl", content, ("query",), size)[0] == filled([row[:1] for row in rows])
    both, skipped = read_content("a.jsonl", content, ("query", "ad"), size)
    assert both == filled(rows)
    assert skipped.n == n_one_sided(rows)


@given(st.lists(st.tuples(st.none() | ANY_TEXT, ANY_TEXT), max_size=8), SIZES)
def test_texts_written_as_parquet_come_back(rows, size):
    table = pa.table({"ad": [right for _, right in rows], "n": range(len(rows)), "query": [left for left, _ in rows]})
    sink = io.BytesIO()
    pq.write_table(table.cast(pa.schema([("ad", "string"), ("n", "int64"), ("query", "string")])), sink)
    known = [(left or "", right) for left, right in rows]
    assert read_content("a.parquet", sink.getvalue(), ("query",), size)[0] == filled([row[:1] for row in known])
    both, skipped = read_content("a.parquet", sink.getvalue(), ("query", "ad"), size)
    assert both == filled(known)
    assert skipped.n == n_one_sided(known)


LINE = ANY_TEXT.map(lambda text: text.replace("\n", " ").rstrip("\r"))


@given(st.lists(LINE, max_size=8), SIZES, st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_texts_written_as_lines_come_back(texts, size, line_end, last_end):
    assume(not texts or not texts[0].startswith("\ufeff"))
    content = line_end.join(texts) + line_end * last_end
    assert read_content("a.txt", content.encode(), ("text",), size)[0] == filled([(text,) for text in texts])


CELL = LINE.map(lambda text: text.replace("\t", " "))


@given(st.lists(st.tuples(CELL, CELL), max_size=8), SIZES, st.sampled_from(["\n", "\r\n"]))
def test_pairs_written_with_tabs_come_back(rows, size, line_end):
    assume(not rows or not rows[0][0].startswith("\ufeff"))
    lines = "".join(f"{left}\t{right}{line_end}" for left, right in rows)
    told = n_one_sided(rows)
    both, skipped = read_content("a.txt", lines.encode(), ("text", "pair"), size)
    assert both == filled(rows) and skipped.n == told
    both, skipped = read_content("a.tsv", f"query\tad{line_end}{lines}".encode(), ("query", "ad"), size)
    assert both == filled(rows) and skipped.n == told


def loose(name: str, format: str, data: bytes, header: tuple[str, ...] = (), first: int = 1) -> CorpusBlock:
    separator = {"csv": ",", "tsv": "\t"}.get(format, "")
    return CorpusBlock(CorpusFile(name, format), 0, Block(first, data, separator, header))


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl"])
def test_a_bad_row_among_thousands_is_told_and_the_others_come_through(tmp_path, monkeypatch, name):
    form = {"a.csv": '{0},"tex""t\n{0}"\n', "a.tsv": "{0}\ttext {0}\n", "a.jsonl": '{{"text": "text {0}"}}\n'}[name]
    header = {"a.csv": "id,text\n", "a.tsv": "id\ttext\n", "a.jsonl": ""}[name]
    rows = [form.format(number) for number in range(3000)]
    rows[1234] = "bad\n"
    path = write(tmp_path, name, header + "".join(rows))
    slow = []
    one_by_one = parse.rows_one_by_one
    monkeypatch.setattr(parse, "rows_one_by_one", lambda *args: slow.append(args) or one_by_one(*args))
    skipped = Skipped()
    found = read(path, skipped=skipped)
    text = 'tex"t\n{}' if name == "a.csv" else "text {}"
    assert found == [(text.format(number),) for number in range(3000) if number != 1234]
    line = {"a.csv": 2 * 1234 + 2, "a.tsv": 1236, "a.jsonl": 1235}[name]
    assert skipped.n == 1 and f"{name}, line {line}: " in skipped.first[0]
    assert len(slow) == 1  # one part, not all of the block


JSON_LINES = [
    b'{"text": "a"}', b'{"text": null}', b"{}", b'{"text": "b", "text": "c"}', b'{"text": 5}', b'{"text": "\\ud800"}',
    b'{"text": "a", "n": NaN}', b'{"text": "a", "n": Inf}', b'{"text": "a", "n": -NaN}', b'{"text": "a", "n": 1e999}',
    b'{"text": "a", "n": 01}', b'{"text": "\xff"}', b'{"text": "a", "x": "\xff"}', b'{"text": "a\\u0000"}', b"", b" ",
    b'{"text": "a"} {"text": "b"}', b'{"text": "a", "x": {"text": 1}}', b'["a"]', b'"text"', b'{"te\\u0078t": "d"}',
    b'{"text": ["a"]}', b'{"text": "\t"}', b'{"text": "a"},', b'\xef\xbb\xbf{"text": "a"}', b'{"text": "2020-01-01"}',
    b'{"text": "a", "n": ' + b"1" * 5000 + b"}", b'{"x": ' + b"[" * 5000 + b"]" * 5000 + b', "text": "deep"}',
    b"[" * 100_000, b'{"text": true}\r', b'{"text": "a"}\r', b'{"text": {}}',
]  # fmt: skip


@settings(max_examples=200)
@given(st.lists(st.sampled_from(JSON_LINES), min_size=1, max_size=4))
def test_a_json_line_is_read_the_same_whatever_stands_beside_it(lines):
    def rows(some: list[bytes]) -> tuple[list, int]:
        skipped = Skipped()
        return rows_in(loose("a", "jsonl", b"\n".join(some) + b"\n", first=2), ["text"], skipped), skipped.n

    alone = [rows([line]) for line in lines]
    schema = pa.schema([("text", pa.large_string())])

    def read_one(line: bytes) -> list | None:
        found = parse_json.json_line(line, schema)
        return None if found is None else [texts_module._text(found, "text")]

    by_hand = [parse.rows_one_by_one([(1, line)], read_one, schema.types) for line in lines]
    assert rows(lines) == ([row for found, _ in alone for row in found], sum(n for _, n in alone))
    assert [len(one.bad) for one in by_hand] == [n for _, n in alone]


def test_every_bad_row_of_a_table_is_told_with_its_line(tmp_path):
    content = (
        b'id,text\n1,good\n2,too,many\n"3\n","two\nlines"\n4,\xff\n5,"bad" quote\n\xff,fine\n6\n7,a\rb\n\n8,"5"" x"\n'
    )
    for size in (1, 1 << 20):
        skipped = Skipped()
        rows = read(write(tmp_path, "a.csv", content), size=size, skipped=skipped)
        assert rows == [("good",), ("two\nlines",), ("fine",), ("a\rb",), ('5" x',)]
        assert skipped.n == 4
        assert [told.split("a.csv, ")[1] for told in skipped.first] == [
            "line 3: has 3 cells instead of 2: '2,too,many'",
            "line 7: is not UTF-8 in column 'text': '4,\\\\xff'",
            "line 8: is not CSV (',' expected after '\"'): '5,\"bad\" quote'",
            "line 10: has 1 cell instead of 2: '6'",
        ]


def test_every_bad_line_of_tabs_is_told_with_its_line(tmp_path):
    content = b'id\ttext\n1\t"good"\n2\n3\ta\tb\n4\t\xc3\n\xc3\tfine\n  \n'
    skipped = Skipped()
    assert read(write(tmp_path, "a.tsv", content), skipped=skipped) == [('"good"',), ("fine",)]
    assert [told.split("a.tsv, ")[1].split(": '")[0] for told in skipped.first] == [
        "line 3: has 1 cell instead of 2",
        "line 4: has 3 cells instead of 2",
        "line 5: is not UTF-8 in column 'text'",
    ]


def test_every_bad_json_line_is_told_with_its_line(tmp_path):
    bad = {
        '{"text": 5}': "has a number as 'text', not a text",
        "[1]": "is not an object",
        "{": "is not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
        '{"other": 1}': "has no column 'text'",
        '{"text": "\\ud800"}': "has half of a character (a lone surrogate) in 'text'",
    }
    path = write(tmp_path, "a.jsonl", "\n".join(['{"text": "a"}', *bad, '{"text": null}', '{"text": "b"}']))
    for size in (1, 1 << 20):
        skipped = Skipped()
        assert read(path, size=size, skipped=skipped) == [("a",), ("b",)]
        assert skipped.first == [
            f"{path}, line {number}: {why}: {line!r}" for number, (line, why) in enumerate(bad.items(), 2)
        ]


def test_a_missing_json_column_is_told_also_when_all_else_is_well(tmp_path):
    skipped = Skipped()
    content = '{"text": "a"}\n{"text": null}\n{"txt": "b"}\n{"text": "c"}\n'
    assert read(write(tmp_path, "a.jsonl", content), skipped=skipped) == [("a",), ("c",)]
    assert skipped.n == 1 and "a.jsonl, line 3: has no column 'text'" in skipped.first[0]


def test_a_parquet_row_that_is_not_utf_8_is_told_with_its_row(tmp_path):
    column = pa.array([b"a", b"\xff", None, "ä".encode()], pa.binary())
    pq.write_table(pa.table({"text": column}), tmp_path / "a.parquet")
    skipped = Skipped()
    assert read(tmp_path / "a.parquet", skipped=skipped) == [("a",), ("ä",)]
    assert skipped.n == 1 and "a.parquet, row 2: is not UTF-8: " in skipped.first[0]


def test_lines_that_are_no_pairs_are_told_with_their_line(tmp_path):
    content = b"a\tb\nalone\nc\td\te\n\n\t\n\tonly right\nonly left\t \n\xff\tx\nf\tg"
    for size in (1, 1 << 20):
        skipped = Skipped()
        rows = read(write(tmp_path, "a.txt", content), columns=("text", "pair"), size=size, skipped=skipped)
        assert rows == [("a", "b"), ("f", "g")]
        assert [told.split("a.txt, ")[1] for told in skipped.first] == [
            "line 2: has no tab between a text and its pair: 'alone'",
            "line 3: has 2 tabs instead of 1: 'c\\td\\te'",
            "line 6: has nothing before the tab: 'only right'",
            "line 7: has nothing behind the tab: 'only left'",
            "line 8: is not UTF-8: '\\\\xff\\tx'",
        ]


def test_a_row_with_one_side_is_told_with_the_empty_column(tmp_path):
    skipped = Skipped()
    path = write(tmp_path, "a.csv", 'query,ad\n"two\nlines",x\n\nshoes,\n,\n"",buy\n')
    assert read(path, columns=("query", "ad"), skipped=skipped) == [("two\nlines", "x")]
    assert [told.split("a.csv, ")[1] for told in skipped.first] == [
        "line 5: has nothing in column 'ad': 'shoes'",
        "line 7: has nothing in column 'query': 'buy'",
    ]


def test_strict_stops_at_the_first_bad_row(tmp_path):
    path = write(tmp_path, "a.txt", b"good\n\xff\n\xfe\n")
    with pytest.raises(InputError, match=r"a\.txt, line 2: is not UTF-8"):
        read(path)


def test_invalid_utf_8_in_the_middle_costs_one_line(tmp_path):
    lines = [f"line {number} é".encode() for number in range(1000)]
    lines[500] = b"line \xe9 500"
    path = write(tmp_path, "a.txt", b"\n".join(lines))
    for size in (100, 8 << 20):
        skipped = Skipped()
        rows = read(path, size=size, skipped=skipped)
        assert rows == [(line.decode(),) for number, line in enumerate(lines) if number != 500]
        assert skipped.n == 1 and "line 501: is not UTF-8" in skipped.first[0]


def test_a_null_byte_is_harmless(tmp_path):
    assert read(write(tmp_path, "a.txt", "a\0b\nc\n")) == [("a\0b",), ("c",)]
    assert read(write(tmp_path, "a.csv", 'text\na\0b\n"\0"\n')) == [("a\0b",), ("\0",)]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("columns", [("text",), ("text", "pair")])
def test_binary_junk_comes_through_as_bad_rows(tmp_path, seed, columns):
    junk = np.random.default_rng(seed).bytes(200_000)
    n_lines = sum(bool(line.decode("utf-8", "replace").strip()) for line in junk.split(b"\n"))
    for name, header in [("a.txt", b""), ("a.jsonl", b""), ("a.tsv", b"text\tpair\n")]:
        found = []
        for size in (1000, 1 << 20):
            skipped = Skipped()
            rows = read(write(tmp_path, name, header + junk), columns=columns, size=size, skipped=skipped)
            assert len(rows) + skipped.n <= n_lines and skipped.n > 0.9 * n_lines
            assert len(skipped.first) == 5
            found.append((rows, skipped.n, skipped.first))
        assert found[0] == found[1]


@pytest.mark.parametrize("seed", range(4))
def test_binary_junk_in_csv_is_told_or_an_error_that_names_the_file(tmp_path, seed):
    junk = np.random.default_rng(seed).bytes(200_000)
    path = write(tmp_path, "a.csv", b"text,pair\n" + junk)
    found = []
    for size in (1000, 1 << 20):
        skipped = Skipped()
        try:
            found.append((read(path, size=size, skipped=skipped), skipped.n))
        except InputError as error:
            found.append(str(error))
    assert found[0] == found[1]
    if isinstance(found[0], str):
        assert "a.csv, line" in found[0] and "quote" in found[0]
    else:
        assert found[0][1] > 100


@pytest.mark.parametrize("name", ["a.txt", "a.csv", "a.jsonl"])
def test_a_text_of_50_mb_comes_through(tmp_path, name):
    long = "wörd, " * 8_000_000
    begin, end = {"a.txt": ("", ""), "a.csv": ('text\n"', '"'), "a.jsonl": ('{"text": "', '"}')}[name]
    path = write(tmp_path, name, f"{begin}{long}{end}\n")
    [block] = read_corpus(find_files([path]), ["text"])
    [texts] = read_texts(block, ["text"], Skipped(strict=True))
    assert texts.n_texts == 1 and texts.data == long.encode() + b"\n"


def test_a_long_cell_comes_through_row_by_row_too():
    block = loose("a.csv", "csv", b"a b," + b"x" * 1_000_000 + b"\ntoo,many,cells\n", ("id", "text"))
    skipped = Skipped()
    assert rows_in(block, ["text"], skipped) == [("x" * 1_000_000,)] and skipped.n == 1


def test_plain_lines_keep_their_bytes():
    data = "one\ntwo é\n".encode()
    [texts] = read_texts(loose("a", "text", data), ["text"], Skipped(strict=True))
    assert texts.data == data and texts.starts.tolist() == [0, 4, 11]


def test_a_block_can_be_made_of_loose_lines_or_of_a_whole_file():
    strict = Skipped(strict=True)
    lines = [b"one", b"", b"two"]
    part = loose("hdfs:/part-0", "text", b"\n".join(lines) + b"\n")
    assert rows_in(part, ["text"], strict) == [("one",), ("two",)]
    whole = loose("hdfs:/a.txt", "text", "\ufeffone\r\ntwo".encode())
    assert rows_in(whole, ["text"], strict) == [("one",), ("two",)]
    table = loose("hdfs:/a.csv", "csv", b'1,"a, b"', ("id", "text"))
    assert rows_in(table, ["text"], strict) == [("a, b",)]
    batch = pa.record_batch({"id": [1, 2], "text": ["a", None]})
    arrow = loose("hdfs:/a.parquet", "parquet", write_rows([batch]))
    assert rows_in(arrow, ["text"], strict) == [("a",)]
    assert rows_in(loose("a.csv", "csv", b"", ("text", "pair")), ["text", "pair"], strict) == []


def test_an_open_quote_in_loose_lines_is_a_bad_row():
    skipped = Skipped()
    block = loose("a.csv", "csv", b'a\n"open\nb\n', ("text",))
    assert rows_in(block, ["text"], skipped) == [("a",)]
    assert skipped.n == 1 and "line 2: is not CSV (unexpected end of data)" in skipped.first[0]


def test_white_space_of_any_script_is_blank(tmp_path):
    blanks = ["", " ", "\u3000", "\u00a0\u2003", "\t \x0b\x0c", "\x1c\u2028\u0085"]
    assert read(write(tmp_path, "a.txt", "\n".join(["a", *blanks, "b"]))) == [("a",), ("b",)]
    assert read(write(tmp_path, "a.csv", "text\na\n" + "".join(f'"{one}"\n' for one in blanks) + "b\n")) == [
        ("a",),
        ("b",),
    ]
