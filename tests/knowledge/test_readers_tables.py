"""Tables: columns found by name and by place, every bad row told with its line, whatever the packing."""

from __future__ import annotations

import csv
import json
import math
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packed_files import write_packed as write

from infuser.errors import InputError
from infuser.knowledge.facts import ENTITIES, TRIPLES
from infuser.knowledge.readers.tables import read_table
from infuser.tables import blocks
from infuser.tables.skipped import BATCH, Skipped


def read(path: Path, skipped: Skipped | None = None, **options) -> list[dict]:
    """Return all rows; every batch must be of one of the two schemas and of bounded size."""
    rows = []
    for batch in read_table(path, skipped or Skipped(strict=True), **options):
        assert batch.schema in (TRIPLES, ENTITIES)
        assert batch.num_rows <= BATCH
        batch.validate(full=True)
        rows += batch.to_pylist()
    return rows


def triples(path: Path, skipped: Skipped | None = None, **options) -> list[tuple]:
    return [tuple(row.values()) for row in read(path, skipped, **options)]


FACTS = [("bern", "lies on", "aare", 1.0), ("bern", "capital of", "schweiz", 0.5)]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tsv", "bern\tlies on\taare\t1\nbern\tcapital of\tschweiz\t0.5\n"),
        ("a.txt", "bern\tlies on\taare\t\nbern\tcapital of\tschweiz\t5e-1"),
        ("a.tsv.gz", "head\trelation\ttail\tweight\nbern\tlies on\taare\t1\nbern\tcapital of\tschweiz\t.5\n"),
        ("a.tsv.zst", "t\tw\th\tr\naare\t1\tbern\tlies on\nschweiz\t0.5\tbern\tcapital of\n"),
        ("a.csv", "Subject,Predicate,Object,Score\nbern,lies on,aare,\nbern,capital of,schweiz,0.50\n"),
        (
            "a.csv",
            'subject,predicate,object,note,score\n"bern",lies on,aare,"a, ""b""\n",1\nbern,capital of,schweiz,,.5',
        ),
        ("a.tsv", b"\xef\xbb\xbfbern\tlies on\taare\t1\r\n\r\nbern\tcapital of\tschweiz\t0.5"),
        ("a.jsonl", '{"h": "bern", "r": "lies on", "t": "aare"} \n{"h":"bern","r":"capital of","t":"schweiz","w":0.5}'),
        (
            "a.jsonl.gz",
            '{"h":"bern","r":"lies on","t":"aare","w":1}\n\n{"h":"bern","r":"capital of","t":"schweiz","w":0.5}\n',
        ),
    ],
)
def test_the_same_facts_come_from_every_kind_of_file(tmp_path, name, content):
    assert triples(write(tmp_path, name, content)) == FACTS


@pytest.mark.parametrize("names", [("head", "relation", "tail", "weight"), ("subject", "predicate", "object", "score")])
def test_parquet_columns_are_known_by_name_whatever_their_type_and_order(tmp_path, names):
    head, relation, tail, weight = names
    columns = {
        weight: pa.array([None, 0.5], pa.float64()),
        tail: pa.array(["aare", "schweiz"], pa.large_string()),
        "other": pa.array([1, 2]),
        relation: pa.array(["lies on", "capital of"]).dictionary_encode(),
        head: pa.array(["bern", "bern"]),
    }
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    assert triples(tmp_path / "a.parquet") == FACTS


def test_a_bad_row_of_a_parquet_file_is_told_by_its_number(tmp_path):
    heads, weights = ["a", None, "", "d", "e"], [1.0, 1.0, 1.0, 2.0, math.nan]
    columns = {"h": heads, "r": ["r"] * 5, "t": ["t"] * 5, "w": weights}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    skipped = Skipped()
    assert triples(tmp_path / "a.parquet", skipped) == [("a", "r", "t", 1.0)]
    assert skipped.n == 4
    assert [said.split(": ")[0].rsplit(", ")[1] for said in skipped.first] == ["row 2", "row 3", "row 4", "row 5"]


def test_a_relation_may_come_first(tmp_path):
    path = write(tmp_path, "cn.txt", "IsA\tdog\tanimal\nAtLocation\tferret\tpet store\n")
    assert [row[:3] for row in triples(path, order="rht")] == [
        ("dog", "IsA", "animal"),
        ("ferret", "AtLocation", "pet store"),
    ]
    with_note = write(tmp_path, "note.tsv", "dog\tsome note\t0.5\tIsA\tanimal\n")
    assert triples(with_note, order="h-wrt") == [("dog", "IsA", "animal", 0.5)]


@pytest.mark.parametrize("order", ["hr", "hrx", "hhrt", "hrtww", ""])
def test_an_order_that_is_none_is_refused(tmp_path, order):
    with pytest.raises(InputError, match="no order of columns"):
        read(write(tmp_path, "a.tsv", "a\tb\tc\n"), order=order)


def test_entities_have_names_descriptions_types_and_counts(tmp_path):
    header = "qid\tlabel\taliases\tdescription\ttypes\tcount\n"
    rows = "Q2\tEarth\tTerra| Gaia ||\tthird planet\tplanet|world\t7\nQ3\t\t\t\t\t\n"
    path = write(tmp_path, "e.tsv", header + rows)
    assert read(path) == [
        {
            "id": "Q2",
            "label": "Earth",
            "aliases": ["Terra", "Gaia"],
            "description": "third planet",
            "types": ["planet", "world"],
            "count": 7,
        },
        {"id": "Q3", "label": None, "aliases": None, "description": None, "types": None, "count": None},
    ]


def test_a_file_of_two_columns_holds_ids_and_labels(tmp_path):
    path = write(tmp_path, "entity2text.txt", '/m/06rf7\tSchleswig-Holstein\n/m/0c94fn\tGary "Rydstrom\n')
    assert [(row["id"], row["label"]) for row in read(path)] == [
        ("/m/06rf7", "Schleswig-Holstein"),
        ("/m/0c94fn", 'Gary "Rydstrom'),
    ]
    described = read(path, columns=("id", "description"))
    assert described[0]["description"] == "Schleswig-Holstein" and described[0]["label"] is None


def test_entities_as_json_lines_may_have_lists_or_bars(tmp_path):
    lines = [
        {"id": "Q1", "name": "one", "synonyms": ["uno", "eins"], "type": "number", "count": 3},
        {"id": 2, "name": "two", "synonyms": "due|zwei", "type": ["number", "even"], "count": None},
    ]
    path = write(tmp_path, "e.jsonl", "\n".join(map(json.dumps, lines)))
    one, two = read(path)
    assert (one["label"], one["aliases"], one["types"], one["count"]) == ("one", ["uno", "eins"], ["number"], 3)
    assert (two["id"], two["aliases"], two["types"]) == ("2", ["due", "zwei"], ["number", "even"])


def test_one_object_of_entities_by_id_is_read(tmp_path):
    whole = {
        "/m/1": {"alternatives": ["Denton, Texas"], "description": "city", "label": "Denton", "wikidata_id": "Q1"},
        "/m/2": {"wikidata_id": "Q2"},
        "/m/3": {"label": 3},
    }
    skipped = Skipped()
    rows = read(write(tmp_path, "entity2wikidata.json", json.dumps(whole)), skipped)
    assert [(row["id"], row["label"], row["aliases"], row["description"]) for row in rows] == [
        ("/m/1", "Denton", ["Denton, Texas"], "city"),
        ("/m/2", None, None, None),
    ]
    assert skipped.n == 1 and "entry 3" in skipped.first[0]
    types = write(tmp_path, "entity2types.json", json.dumps({"Q1": ["Q5", "Q6"]}))
    assert read(types, columns=("id", "types"))[0]["types"] == ["Q5", "Q6"]


def test_every_bad_line_is_told_with_its_number_and_reason(tmp_path):
    lines = [
        *(b"a\tr\tb\t1", b"too\tfew", b"", b"one\ttwo\tthree\t1\tfive", b"\tr\tb\t1", b"a\t\tb\t1", b"a\tr\t\t1"),
        *(b"a\tr\tb\tmuch", b"a\tr\tb\t0", b"a\tr\tb\t1.5", b"a\tr\tb\tnan", b"\xff\tr\tb\t1", b"x\r\tr\tb\t1"),
        *(b"\xff\xfd", b"c\tr\td\t0.25"),
    ]
    cells = {2: "2 cells instead of 3 or 4", 4: "5 cells instead of 3 or 4"}
    empty = {5: "the head is empty", 6: "the relation is empty", 7: "the tail is empty"}
    weights = {8: "the weight is not a number", 9: "not above 0", 10: "up to 1", 11: "not above 0"}
    odd = {12: "is not UTF-8 in column 'head'", 13: "a carriage return inside", 14: "1 cell instead of 3 or 4"}
    reasons = cells | empty | weights | odd
    path = write(tmp_path, "a.tsv", b"\r\n".join(lines))
    skipped = Skipped()
    assert triples(path, skipped, kind="triples", order="hrtw") == [("a", "r", "b", 1.0), ("c", "r", "d", 0.25)]
    assert skipped.n == len(reasons)
    for said, (number, reason) in zip(skipped.first, reasons.items(), strict=False):
        assert said.startswith(f"{path}, line {number}: ") and reason in said
    for number, reason in reasons.items():
        single = write(tmp_path, "single.tsv", lines[number - 1] + b"\na\tr\tb\t1\n")
        alone = Skipped()
        assert len(triples(single, alone, order="hrtw")) == 1
        assert alone.n == 1 and "line 1: " in alone.first[0] and reason in alone.first[0]
    with pytest.raises(InputError, match=r"line 2: has 2 cells instead of 3 or 4: .*--strict"):
        read(path, Skipped(strict=True), order="hrtw")


@pytest.mark.parametrize("mark", ["\t", ","])
@pytest.mark.parametrize("quote", ["", '"'])
@pytest.mark.parametrize("lines", [("a;r;b", "c;r;d;0.5", "e;r;f"), ("a;r;b;1", "c;r;d;0.5", "e;r;f")])
def test_rows_with_and_without_a_weight_may_stand_in_one_file(tmp_path, lines, mark, quote):
    quote = quote if mark == "," else ""
    text = "\n".join(mark.join(f"{quote}{cell}{quote}" for cell in line.split(";")) for line in lines)
    path = write(tmp_path, "a.csv" if mark == "," else "a.tsv", text)
    expected = [("a", "r", "b", 1.0), ("c", "r", "d", 0.5), ("e", "r", "f", 1.0)]
    assert triples(path) == expected
    reverse = write(tmp_path, f"reverse{path.suffix}", f"r{mark}a{mark}b\nr{mark}a{mark}b{mark}0.5")
    assert triples(reverse, order="rht") == [("a", "r", "b", 1.0), ("a", "r", "b", 0.5)]


def test_named_columns_and_other_orders_want_every_cell(tmp_path):
    for text, options in [
        ("head\trelation\ttail\tweight\na\tr\tb\n", {}),
        ("a\tr\tb\n", {"columns": ("head", "relation", "tail", "weight")}),
        ("a\tr\tb\n", {"order": "hwrt"}),
    ]:
        skipped = Skipped()
        assert triples(write(tmp_path, "a.tsv", text), skipped, **options) == []
        assert "3 cells instead of 4" in skipped.first[0]


def test_a_null_character_in_what_is_looked_up_is_told_and_elsewhere_kept(tmp_path):
    skipped = Skipped()
    path = write(tmp_path, "a.tsv", "a\0\tr\tb\nc\tr\0\td\ne\tr\tf\0\n")
    assert triples(path, skipped) == [("c", "r\0", "d", 1.0)]
    assert ["line 1: the head holds a null" in skipped.first[0], "line 3: the tail" in skipped.first[1]] == [True, True]
    told = Skipped()
    rows = ["id\tlabel\taliases\tdescription", "1\ta\0\t\t", "2\tb\tx|y\0|z\t", "3\tc\tx\told\0", "4\0\td\t\t"]
    assert [row["id"] for row in read(write(tmp_path, "e.tsv", "\n".join(rows)), told)] == ["3"]
    assert [said.split(", ")[-1].split(": ")[0] for said in told.first] == ["line 2", "line 3", "line 5"]
    assert "the aliases holds a null character" in told.first[1]


def test_a_blank_id_is_told(tmp_path):
    skipped = Skipped()
    assert triples(write(tmp_path, "a.tsv", "a\tr\tb\n \tr\tb\na\tr\t\u3000\n"), skipped) == [("a", "r", "b", 1.0)]
    assert "line 2: the head is blank" in skipped.first[0] and "line 3: the tail is blank" in skipped.first[1]


def test_a_label_may_end_before_its_gloss(tmp_path):
    path = write(tmp_path, "e.txt", "1\tsaxony, an area, in Germany\n2\tplain\n3\t\n")
    rows = read(path, kind="entities", label_before=", ")
    assert [(row["label"], row["description"]) for row in rows] == [
        ("saxony", "an area, in Germany"),
        ("plain", None),
        (None, None),
    ]
    described = write(tmp_path, "d.tsv", "id\tlabel\tdescription\n1\tBern, city\tseat of government\n")
    [row] = read(described, label_before=", ")
    assert (row["label"], row["description"]) == ("Bern", "seat of government")
    assert triples(write(tmp_path, "t.tsv", "a, b\tr\tc\n"), label_before=", ") == [("a, b", "r", "c", 1.0)]


BAD_JSON = [
    ('{"h": "a\\u0000", "r": "r", "t": "b"}', "the head holds a null character"),
    ('{"h": " ", "r": "r", "t": "b"}', "the head is blank"),
    ('{"h": "a", "r": "r"', "not JSON"),
    ('["a", "r", "b"]', "not an object"),
    ('{"h": "", "r": "r", "t": "b"}', "the head is empty"),
    ('{"r": "r", "t": "b"}', "the head is empty"),
    ('{"h": ["a"], "r": "r", "t": "b"}', "the head is not text"),
    ('{"h": "\\ud800", "r": "r", "t": "b"}', "the head is not text"),
    ('{"h": "a", "r": "r", "t": "b", "w": "0.5"}', "the weight is not a number"),
    ('{"h": "a", "r": "r", "t": "b", "w": 0}', "not above 0"),
    ('{"h": "a", "r": "r", "t": "b"} {"h": "a", "r": "r", "t": "b"}', "not JSON"),
]


@pytest.mark.parametrize(("line", "reason"), BAD_JSON)
def test_a_bad_line_of_json_is_told_and_the_others_are_read(tmp_path, line, reason):
    good = '{"h": "a", "r": "r", "t": "b", "w": 1}'
    skipped = Skipped()
    path = write(tmp_path, "a.jsonl", f"{good}\n\n{line}\n{good}\n")
    assert triples(path, skipped) == [("a", "r", "b", 1.0)] * 2
    assert skipped.n == 1
    assert skipped.first[0].startswith(f"{path}, line 3: ") and reason in skipped.first[0]


def test_json_that_is_not_utf8_is_told(tmp_path):
    skipped = Skipped()
    path = write(tmp_path, "a.jsonl", b'{"h":"a","r":"r","t":"b"}\n{"h":"\xff","r":"r","t":"b"}\n')
    assert len(triples(path, skipped)) == 1
    assert skipped.n == 1 and "line 2: is not UTF-8" in skipped.first[0]


def test_quoted_cells_may_hold_commas_quotes_and_line_ends_and_lines_stay_counted(tmp_path):
    text = 'plain,r,b\n"a, ""x""\nend",r,b\nshort,row\n"c",r,b\n,r,b\n'
    skipped = Skipped()
    path = write(tmp_path, "a.csv", text)
    assert [row[0] for row in triples(path, skipped, kind="triples")] == ["plain", 'a, "x"\nend', "c"]
    assert skipped.n == 2
    assert "line 4: has 2 cells" in skipped.first[0] and "line 6: the head is empty" in skipped.first[1]


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("a.tsv", "one\ncolumn\n", "has one column"),
        ("a.csv", "one\tcolumn\n", "has one column"),
        ("a.json", "[1]", "not one object"),
        ("a.json", "{", "is not JSON"),
        ("a.jsonl", '{"x": 1}\n', "no keys that say"),
        ("a.jsonl", b"\x1f\x8b\x00\n\xff", "not one of its first lines is a JSON object"),
        ("a.parquet", "no parquet", "cannot be read as Parquet"),
        ("a.xyz", "", "does not end in"),
    ],
)
def test_a_file_that_is_no_table_is_a_clear_error(tmp_path, name, content, complaint):
    with pytest.raises(InputError, match=complaint):
        read(write(tmp_path, name, content))


@pytest.mark.parametrize("name", ["a.tsv", "a.csv.gz", "a.jsonl", "a.json", "a.parquet"])
def test_a_missing_file_is_named(tmp_path, name):
    with pytest.raises(InputError, match=f"No file at .*{name}"):
        read(tmp_path / name)


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_cut_off_packed_file_is_named_and_not_taken_for_whole(tmp_path, suffix):
    whole = write(tmp_path, f"a.tsv{suffix}", "".join(f"a{n}\tr\tb{n * 7919}\n" for n in range(20_000))).read_bytes()
    path = tmp_path / f"cut.tsv{suffix}"
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"cut\.tsv.* is cut off or damaged"):
        read(path)


def test_an_empty_file_holds_nothing(tmp_path):
    for name in ("a.tsv", "a.csv", "a.jsonl"):
        assert read(write(tmp_path, name, "")) == []


def test_lines_without_end_are_refused_before_memory_runs_out(tmp_path, monkeypatch):
    monkeypatch.setattr(blocks, "LONGEST_RECORD", 1 << 20)
    path = write(tmp_path, "a.tsv", b"x" * (9 << 20))
    with pytest.raises(InputError, match="line 1 begins a line of more than 1,048,576 bytes"):
        read(path)


def test_many_blocks_give_the_rows_in_order_with_exact_line_numbers(tmp_path):
    lines = [f"head {n}\tr\ttail {n}" for n in range(400_000)]
    lines[250_000] = "broken"
    lines[399_999] = "\tr\tx"
    skipped = Skipped()
    rows = triples(write(tmp_path, "a.tsv", "\n".join(lines)), skipped)
    assert len(rows) == 399_998
    assert rows[250_000][0] == "head 250001"
    assert ["line 250001: " in skipped.first[0], "line 400000: " in skipped.first[1]] == [True, True]


IDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\t\n\r"), min_size=1, max_size=12)
ROWS = st.lists(
    st.one_of(
        st.tuples(IDS, IDS, IDS),
        st.tuples(IDS, IDS),
        st.tuples(IDS, IDS, IDS, IDS),
        st.sampled_from([("", "r", "t"), ("h", "", "t"), ("h", "r", ""), ("\r", "x\ry", "z")]),
        st.just(()),
    ),
    max_size=30,
)


def is_good(row: tuple[str, ...]) -> bool:
    if len(row) != 3 or not all(row) or any("\r" in cell for cell in row):
        return False
    return all(cell.strip() and "\0" not in cell for cell in (row[0], row[2]))


@settings(deadline=None)
@given(ROWS, st.sampled_from(["\n", "\r\n"]), st.booleans(), st.sampled_from(["", ".gz", ".zst"]))
def test_any_ids_come_back_and_exactly_the_bad_lines_are_told(rows, end, last_end, packing):
    text = "\ufeff" + end.join("\t".join(row) for row in rows) + (end if last_end else "")
    skipped = Skipped()
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder), f"a.tsv{packing}", text)
        found = triples(path, skipped, columns=("head", "relation", "tail"))
    bad = [place for place, row in enumerate(rows, 1) if row and not is_good(row)]
    assert [row[:3] for row in found] == [row for row in rows if is_good(row)]
    assert skipped.n == len(bad)
    assert [said.split(", line ")[1].split(":")[0] for said in skipped.first] == [str(number) for number in bad[:5]]


@settings(deadline=None)
@given(
    st.lists(st.tuples(*[st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), min_size=1)] * 3))
)
def test_any_text_written_by_the_csv_module_comes_back(rows):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
        found = triples(path, Skipped(), kind="triples", header=False)
    assert [row[:3] for row in found] == [row for row in rows if row[0].strip() and row[2].strip()]


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2),
    st.floats(0, 2),
    st.text(max_size=5),
    st.lists(st.text(max_size=3), max_size=2),
)


@settings(deadline=None, max_examples=40)
@given(
    st.lists(
        st.fixed_dictionaries({"head": VALUES, "relation": st.text(max_size=4), "tail": VALUES, "weight": VALUES}),
        max_size=8,
    )
)
def test_any_json_is_read_or_told_and_both_ways_of_reading_agree(objects):
    first = {"head": "a", "relation": "r", "tail": "b", "weight": 1.0}
    lines = [json.dumps(told) for told in [first, *objects]]
    with tempfile.TemporaryDirectory() as folder:
        whole = Skipped()
        found = triples(write(Path(folder), "all.jsonl", "\n".join(lines)), whole)
        one_by_one = []
        n_bad = 0
        for line in lines[1:]:  # each beside a good line, so that Arrow reads the block at once where it can
            alone = Skipped()
            one_by_one += triples(write(Path(folder), "one.jsonl", f"{lines[0]}\n{line}"), alone)[1:]
            n_bad += alone.n
    assert found[1:] == one_by_one
    assert whole.n == n_bad == len(objects) - len(one_by_one)
