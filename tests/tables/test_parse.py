"""Blocks parsed by Arrow and row by row: both ways agree, and every row remembers its line."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infuser.tables import parse
from infuser.tables.blocks import Block


def numbered(found: parse.Batch) -> list[tuple]:
    columns = [column.to_pylist() for column in found.columns]
    return [row for row in zip(found.numbers.tolist(), *columns, strict=True) if any(row[1:])]


@settings(max_examples=300)
@given(
    st.lists(
        st.sampled_from([b"a", b"b,", b'"', b'""', b",", b"\n", b"\r\n", b"\r", b"\xff", "é".encode()]), max_size=14
    )
)
def test_arrow_and_the_csv_module_agree_on_any_bytes(parts):
    data = b"".join(parts) + b"\n"
    for separator in (",", ";", "\t"):
        block = Block(5, data.replace(b",", separator.encode()), separator, ("one", "two"))
        for places in ([0], [1, 0]):
            at_once = parse.table_at_once(block, places)
            if at_once is None:
                continue
            slowly = parse.rows_one_by_one(
                block.records(),
                lambda row, b=block, p=places: parse.table_row(row, b, p),
                [pa.string()] * len(places),
            )
            assert not slowly.bad
            assert numbered(at_once) == numbered(slowly)


CELL = st.sampled_from(["a", "", "é", "x y", "5"])


@settings(max_examples=200)
@given(st.lists(st.lists(CELL, min_size=1, max_size=5), min_size=1, max_size=12), st.sampled_from("\t,;"))
def test_rows_of_several_widths_come_in_order_and_wrong_ones_are_bad(rows, separator):
    lines = [separator.join(row) for row in rows]
    block = Block(3, "\n".join([*lines, ""]).encode(), separator, ("one", "two", "three", "four"))
    found = parse.parse_table(block, ("four", "one"), 1)
    right = [(number, row) for number, row in enumerate(rows, 3) if len(row) in (3, 4)]
    wrong = [
        number for number, (row, line) in enumerate(zip(rows, lines, strict=True), 3) if line and len(row) not in (3, 4)
    ]
    assert found.numbers.tolist() == [number for number, _ in right]
    assert found.columns[1].to_pylist() == [row[0] for _, row in right]
    assert found.columns[0].to_pylist() == [row[3] if len(row) == 4 else None for _, row in right]
    assert [number for number, _, _ in found.bad] == wrong


@pytest.mark.parametrize("separator", [",", "\t"])
def test_only_the_wanted_cells_have_to_be_utf_8(separator):
    data = b"a,\xff\n\xff,b\n".replace(b",", separator.encode())
    found = parse.parse_table(Block(1, data, separator, ("left", "right")), ("left",))
    assert found.columns[0].to_pylist() == ["a"]
    assert [(number, why) for number, why, _ in found.bad] == [(2, "is not UTF-8 in column 'left'")]
