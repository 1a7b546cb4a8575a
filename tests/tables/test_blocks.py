"""Blocks of records: the same ones the csv module sees, whatever the pieces they are read in."""

from __future__ import annotations

import csv
import io

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infuser.errors import InputError
from infuser.tables.blocks import Block, named_blocks, read_blocks, split_record, suffix_of
from infuser.tables.quotes import QuotedEnds


def records_by_the_csv_module(data: bytes) -> list[int]:
    """Return where records end according to Python's own reader of CSV, fed line by line."""
    lines = io.StringIO(data.decode("latin-1"), newline="\n").readlines()
    ends, at = [], 0
    reader = csv.reader(lines)
    seen = 0
    for _ in reader:
        at += sum(map(len, lines[seen : reader.line_num]))
        seen = reader.line_num
        ends.append(at)
    return ends


@given(st.text(alphabet='a",\n', max_size=40), st.lists(st.integers(1, 5), max_size=10))
def test_records_end_where_the_csv_module_ends_them_however_odd_the_quotes(text, steps):
    data = text.encode() + b"\n"
    quotes = QuotedEnds()
    found = quotes.find_all(data).tolist()
    expected = records_by_the_csv_module(data)
    assert found == (expected[:-1] if quotes.inside else expected)
    stream, ends, at = io.BytesIO(data), [], 0
    try:
        for block in read_blocks("a.csv", steps[0] if steps else 3, format="csv", source=stream):
            at += len(block.data)
            ends.append(at)
    except InputError:
        assert quotes.inside
    else:
        assert not quotes.inside and ends[-1] == len(data)
    assert set(ends) <= set(found)


def read(data: bytes, format: str = "", size: int = 1 << 20, name: str = "a.txt") -> list[Block]:
    return list(read_blocks(name, size, format=format, source=pa.BufferReader(data)))


@pytest.mark.parametrize("size", [1, 4, 1 << 20])
def test_every_line_has_its_number_whatever_the_pieces(size):
    blocks = read(b"\xef\xbb\xbfone\r\n\ntwo\nthree", size=size)
    lines = [(block.first + place, line) for block in blocks for place, line in enumerate(block.lines())]
    assert lines == [(1, b"one"), (2, b""), (3, b"two"), (4, b"three")]


@pytest.mark.parametrize("size", [1, 4, 1 << 20])
@pytest.mark.parametrize("separator", [",", ";"])
def test_records_of_csv_keep_the_number_of_their_first_line(size, separator):
    data = 'id,text\n1,"two\nlines"\n\n2,x\n'.replace(",", separator).encode()
    blocks = list(named_blocks("a.csv", read(data, "csv", size)))
    assert {block.names for block in blocks} == {("id", "text")}
    records = [record for block in blocks for record in block.records()]
    cells = [(number, split_record(record.decode(), separator)) for number, record in records if record]
    assert cells == [(2, ["1", "two\nlines"]), (5, ["2", "x"])]


@pytest.mark.parametrize("name", ["A.CSV", "a.csv.gz", "folder/a.CSV.zst"])
def test_the_ending_is_known_packed_or_not(name):
    assert suffix_of(name) == ".csv"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\xff\n", r"a\.csv, line 1 is not UTF-8"),
        (b'\n"a" b,c\n', r"a\.csv, line 2 should name the columns, but is not CSV"),
        (b"a,b\r1,2\r", r"line 1: its lines end in carriage returns alone"),
    ],
)
def test_names_that_cannot_be_read_are_an_error_with_their_line(data, message):
    with pytest.raises(InputError, match=message):
        list(named_blocks("a.csv", read(data, "csv")))
