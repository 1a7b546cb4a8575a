"""The files of a corpus: found, and cut into the same blocks of whole records every time."""

from __future__ import annotations

import os
import pickle  # noqa: TID251
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from knowledge.counting.corpora import read
from packed_files import write_packed as write

from infuser.errors import InputError
from infuser.knowledge.counting.corpus import CorpusFile, find_files, read_corpus, write_rows
from infuser.tables import blocks as table_blocks
from infuser.tables.blocks import Block

CONTENTS = {
    ".txt": 'One text.\n\nAnother, with "signs"\n',
    ".csv": 'id,text\n1,One text.\n2,\n3,"Another, with ""signs"""\n',
    ".tsv": 'id\ttext\n1\tOne text.\n2\t\n3\tAnother, with "signs"',
    ".jsonl": '{"text": "One text."}\n{"text": null, "id": 2}\n{"text": "Another, with \\"signs\\""}\n',
    ".ndjson": '{"text": "One text."}\n{"text": "  "}\n{"text": "Another, with \\"signs\\""}',
}
EXPECTED = [("One text.",), ('Another, with "signs"',)]


def cut(path: Path, columns: tuple[str, ...] = ("text",), size: int = 8 << 20) -> list:
    return [found.block for found in read_corpus(find_files([path]), columns, size)]


@pytest.mark.parametrize("packing", ["", ".gz", ".zst"])
@pytest.mark.parametrize("ending", CONTENTS)
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_every_format_is_read_packed_or_not(tmp_path, ending, packing, line_end):
    path = write(tmp_path, f"Corpus{ending.upper()}{packing}", CONTENTS[ending].replace("\n", line_end))
    for size in (1, 7, 1 << 20):
        assert read(path, size=size) == EXPECTED


def test_parquet_is_read(tmp_path):
    table = pa.table({"id": [1, 2, 3, 4], "text": ["One text.", None, " ", 'Another, with "signs"']})
    pq.write_table(table, tmp_path / "a.parquet")
    for size in (1, 7, 1 << 20):
        assert read(tmp_path / "a.parquet", size=size) == EXPECTED


def test_many_files_and_folders_are_one_corpus(tmp_path):
    write(tmp_path, "folder/b.txt", "b\n")
    write(tmp_path, "folder/a/z.csv.gz", "text\nz\n")
    write(tmp_path, "folder/readme.md", "not a corpus")
    write(tmp_path, "folder/.hidden.txt", "hidden")
    write(tmp_path, "folder/.git/a.txt", "hidden too")
    write(tmp_path, "named.jsonl", '{"text": "named"}')
    files = find_files([tmp_path / "named.jsonl", str(tmp_path / "folder")])
    assert [(os.path.relpath(file.path, tmp_path), file.format) for file in files] == [
        ("named.jsonl", "jsonl"),
        (os.path.join("folder", "a", "z.csv.gz"), "csv"),
        (os.path.join("folder", "b.txt"), "text"),
    ]
    blocks = list(read_corpus(files, ["text"]))
    assert [block.number for block in blocks] == [0, 1, 2]
    assert [block.file for block in blocks] == files
    assert read(tmp_path / "named.jsonl", tmp_path / "folder") == [("named",), ("z",), ("b",)]


def test_a_hidden_file_is_read_when_it_is_named(tmp_path):
    assert read(write(tmp_path, ".notes.txt", "a\n")) == [("a",)]


def test_a_hidden_folder_above_hides_nothing(tmp_path):
    write(tmp_path, ".cache/a.txt", "a\n")
    assert read(tmp_path / ".cache") == [("a",)]


def test_a_format_overrides_the_ending(tmp_path):
    write(tmp_path, "corpus/wiki.tokens", "one\n")
    write(tmp_path, "corpus/more", "two\n")
    write(tmp_path, "corpus/table.csv", "a,b\n")
    assert read(tmp_path / "corpus", format="text") == [("two",), ("a,b",), ("one",)]
    assert read(write(tmp_path, "rows.gz", "id,text\n1,a\n"), format="csv") == [("a",)]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda folder: [folder / "none.txt"], r"none\.txt does not exist\. Check the name"),
        (lambda folder: [write(folder, "a.doc", "a")], r"Cannot tell the format of .*a\.doc.*\.txt.*Name the format"),
        (lambda folder: [write(folder, "a.parquet.gz", "a")], r"Cannot tell the format of .*a\.parquet\.gz"),
        (lambda folder: [write(folder, "only/a.md", "a").parent], r"only holds no file .* 1 others \(a\.md"),
        (lambda folder: [write(folder, "a.txt", "a"), folder], r"a\.txt is given twice .*Name it once"),
        (lambda folder: [write(folder, "x/a.txt", "a"), folder / "x" / ".." / "x" / "a.txt"], "given twice"),
        (lambda folder: [], r"No corpus is given\. Name files"),
    ],
)
def test_what_cannot_be_a_corpus_is_said_with_a_remedy(tmp_path, make, said):
    with pytest.raises(InputError, match=said):
        find_files(make(tmp_path))


def test_an_unknown_format_is_said_with_the_known_ones(tmp_path):
    with pytest.raises(InputError, match=r"'json'. Did you mean 'jsonl'\? Known: text, csv"):
        find_files([tmp_path], "json")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_not_a_corpus(tmp_path):
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(InputError, match=r"pipe\.txt is not a file that can be read twice"):
        find_files([tmp_path / "pipe.txt"])


def test_blocks_are_whole_lines_and_together_the_file(tmp_path):
    content = "".join(f"line {number}\n" for number in range(1000)).encode()
    path = write(tmp_path, "a.txt.zst", content)
    blocks = cut(path, size=100)
    assert b"".join(block.data for block in blocks) == content
    assert len(blocks) > 50 and max(len(block.data) for block in blocks) < 120
    assert [block.data.split(b"\n")[0] for block in blocks] == [f"line {block.first - 1}".encode() for block in blocks]
    assert cut(path, size=100) == blocks


def test_a_block_can_be_sent_to_another_process(tmp_path):
    path = write(tmp_path, "a.csv", "text\na\n")
    [found] = read_corpus(find_files([path]), ["text"])
    assert pickle.loads(pickle.dumps(found)) == found
    assert found == (CorpusFile(str(path), "csv"), 0, Block(2, b"a\n", ",", ("text",)))


def test_the_line_of_a_block_counts_lines_inside_quotes(tmp_path):
    path = write(tmp_path, "a.csv", '\n\n"text\nhere",id\n"a\nb\nc",1\nd,2\n')
    blocks = cut(path, ("text\nhere",), size=1)
    assert [(block.first, block.data) for block in blocks] == [(5, b'"a\nb\nc",1\n'), (8, b"d,2\n")]


@pytest.mark.parametrize("name", ["a.txt", "a.csv", "a.tsv", "a.jsonl", "a.txt.gz", "a.csv.zst"])
@pytest.mark.parametrize("content", ["", "\ufeff", "\n", " \r\n\n"])
def test_an_empty_file_has_no_texts(tmp_path, name, content):
    assert read(write(tmp_path, name, content)) == []


def test_a_table_of_a_header_alone_has_no_texts(tmp_path):
    assert read(write(tmp_path, "a.csv", "id,text")) == []
    assert read(write(tmp_path, "b.tsv", "id\ttext\r\n")) == []
    pq.write_table(pa.table({"text": pa.array([], pa.string())}), tmp_path / "c.parquet")
    assert read(tmp_path / "c.parquet") == []


@pytest.mark.parametrize("name", ["a.txt", "a.csv", "a.tsv", "a.jsonl"])
def test_a_byte_order_mark_is_left_out(tmp_path, name):
    content = {"a.txt": "x\n", "a.csv": '"text"\nx\n', "a.tsv": "text\nx\n", "a.jsonl": '{"text": "x"}\n'}[name]
    for size in (1, 1 << 20):
        assert read(write(tmp_path, name, "\ufeff" + content), size=size) == [("x",)]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le"])
@pytest.mark.parametrize("name", ["a.txt", "a.csv.gz"])
def test_utf_16_is_an_error_with_a_remedy(tmp_path, name, encoding):
    with pytest.raises(InputError, match=r"is in UTF-16\. Save it as UTF-8"):
        cut(write(tmp_path, name, "\ufefftext\nx\n".encode(encoding)))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (
            "a.csv",
            "id,texts\n1,x\n",
            r"a\.csv has no column 'text'\. Did you mean 'texts'\? Its columns: 'id', 'texts'",
        ),
        ("a.tsv", "id,text\n1,x\n", r"no column 'text'.* Its columns: 'id,text'"),
        ("a.csv", "text,id,text\nx,1,y\n", r"2 columns called 'text' .*Rename"),
        ("a.csv", "id,text\r1,x\r2,y", r"lines end in carriage returns alone: write it again"),
    ],
)
def test_a_table_without_the_column_tells_those_it_has(tmp_path, name, content, said):
    for size in (1, 1 << 20):
        with pytest.raises(InputError, match=said):
            cut(write(tmp_path, name, content), size=size)


@pytest.mark.parametrize("size", [1, 1 << 20])
def test_semicolons_may_stand_between_the_cells(tmp_path, size):
    path = write(tmp_path, "a.csv", 'id;text\n1;"a; ""b""\nc, d"\n2;x, y\n')
    assert read(path, size=size) == [('a; "b"\nc, d',), ("x, y",)]


def test_a_parquet_file_without_the_column_tells_those_it_has(tmp_path):
    pq.write_table(pa.table({"body": ["x"], "id": [1]}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match=r"no column 'bodi'\. Did you mean 'body'\? Its columns: 'body', 'id'"):
        cut(tmp_path / "a.parquet", ("bodi",))
    with pytest.raises(InputError, match=r"The column 'id' of .*a\.parquet holds int64, not texts"):
        cut(tmp_path / "a.parquet", ("id",))


@pytest.mark.parametrize("columns", [(), ("a", "a"), ("a", "b", "c")])
def test_one_column_is_read_or_two_that_differ(columns):
    with pytest.raises(InputError, match="name one, or two that differ"):
        list(read_corpus([], columns))


@pytest.mark.parametrize("name", ["a.txt.gz", "a.csv.zst", "a.jsonl.gz", "a.tsv.zst"])
def test_a_truncated_file_is_named(tmp_path, name):
    content = "text\n" + "".join(f"{number * 7919 % 10007}\n" for number in range(5000))
    path = write(tmp_path, name, content)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=f"{name} is cut off or damaged"):
        cut(path, size=1000)


@pytest.mark.parametrize("keep", [0, 100, -20])
def test_a_damaged_parquet_file_is_named(tmp_path, keep):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": [str(number) for number in range(100)]}), path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(InputError, match=r"a\.parquet cannot be read as Parquet: .*Write it again"):
        cut(path)


def test_junk_instead_of_parquet_pages_is_named(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": [str(number) for number in range(10_000)]}), path, use_dictionary=False)
    content = bytearray(path.read_bytes())
    content[4:2000] = np.random.default_rng(0).bytes(1996)
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"a\.parquet cannot be read as Parquet"):
        cut(path)


def test_a_line_of_50_mb_is_one_block(tmp_path):
    long = b"word " * 10_000_000
    path = write(tmp_path, "a.txt", b"before\n" + long + b"\nbehind\n")
    blocks = cut(path)
    assert [block.data.startswith(b"before") for block in blocks].count(True) == 1
    assert b"".join(block.data for block in blocks) == b"before\n" + long + b"\nbehind\n"
    assert sum(long in block.data for block in blocks) == 1


@pytest.mark.parametrize("name", ["a.txt", "a.csv", "a.tsv", "a.jsonl"])
def test_a_longer_record_than_memory_allows_is_an_error_with_its_line(tmp_path, monkeypatch, name):
    monkeypatch.setattr(table_blocks, "LONGEST_RECORD", 1000)
    with pytest.raises(InputError, match=rf"{name}, line 3 begins a .* of more than 1,000 bytes"):
        cut(write(tmp_path, name, "text\nshort\n" + "x" * 1001 + "\nbehind\n"), size=100)
    fits = "text\nshort\n" + "x" * 999 + "\nbehind\n"
    assert len(cut(write(tmp_path, name, fits), size=100)) > 1


def test_a_quote_that_is_never_closed_does_not_eat_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(table_blocks, "LONGEST_RECORD", 100_000)
    path = write(tmp_path, "a.csv", 'text\nshort\n"open\n' + "row\n" * 5_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=r"line 3 begins a row .* quote that is not closed, and close it"):
            cut(path, size=10_000)
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()
    with pytest.raises(InputError, match="line 2 begins a row"):
        cut(write(tmp_path, "b.csv", "text\n" + '"' * 200_001), size=10_000)


def test_a_quote_that_is_open_at_the_end_is_an_error_with_its_line(tmp_path):
    path = write(tmp_path, "a.csv", 'text\nfirst\n"second\nthird\n')
    for size in (1, 1 << 20):
        with pytest.raises(InputError, match=r"a\.csv, line 3 opens a quote that is not closed before the end"):
            cut(path, size=size)


def test_parquet_is_never_read_whole(tmp_path):
    texts = [f"{number:06d} " + "x" * 993 for number in range(20_000)]  # 20 MB, one row group
    pq.write_table(pa.table({"text": texts, "id": range(20_000)}), tmp_path / "a.parquet", row_group_size=20_000)
    del texts
    before, peak, seen = pa.total_allocated_bytes(), 0, []
    for found in read_corpus(find_files([tmp_path / "a.parquet"]), ["text"], 1 << 20):
        peak = max(peak, pa.total_allocated_bytes() - before)
        block = found.block
        assert len(block.data) < 1.1 * (1 << 20)
        seen.append((block.first, pa.ipc.open_stream(block.data).read_all().num_rows))
    assert peak < 10_000_000
    assert len(seen) > 10
    assert [first for first, _ in seen] == [1 + sum(n for _, n in seen[:place]) for place in range(len(seen))]
    assert sum(n for _, n in seen) == 20_000


def test_a_batch_of_long_parquet_rows_is_cut_too(tmp_path):
    pq.write_table(pa.table({"text": ["x" * 100_000] * 200}), tmp_path / "a.parquet")  # stored once, by dictionary
    blocks = cut(tmp_path / "a.parquet", size=1 << 20)
    assert len(blocks) >= 15 and max(len(block.data) for block in blocks) < 1.1 * (1 << 20)
    assert read(tmp_path / "a.parquet", size=1 << 20) == [("x" * 100_000,)] * 200


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.binary(),
        pa.large_binary(),
        pa.dictionary(pa.int32(), pa.string()),
    ],
    ids=str,
)
def test_texts_of_any_parquet_type_are_read(tmp_path, kind):
    values = pa.array(["Käse", None, "b", "Käse"])
    column = values.dictionary_encode() if pa.types.is_dictionary(kind) else values.cast(kind)
    pq.write_table(pa.table({"text": column}), tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet") == [("Käse",), ("b",), ("Käse",)]


def test_an_arrow_stream_gives_its_rows_back():
    batch = pa.record_batch({"text": ["a", None]})
    assert pa.ipc.open_stream(write_rows([batch, batch])).read_all().to_pydict() == {"text": ["a", None, "a", None]}
