from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from infuser.errors import InputError
from infuser.tables.brat import read_brat
from infuser.tables.skipped import BadRow

TEXT = "Breast and ovarian cancer.\r\nAspirin helps."
MARKS = """R1\tHelps Arg1:T3 Arg2:T2
T1\tDisease 0 6;19 25\tBreast cancer
T2\tDisease 11 25\tovarian cancer
T3\tDrug 28 35\tAspirin
E1\tHelp:T3
N1\tReference T3 ChEBI:15365\taspirin
R2\tCause Arg1:T3 Arg2:E1
"""


def write(folder: Path, marks: str, text: str = TEXT) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "a.txt").write_bytes(text.encode())
    (folder / "a.ann").write_text(marks)
    return folder


def test_mentions_with_gaps_keep_their_pieces_and_line_ends_count(tmp_path: Path) -> None:
    left_out: Counter[str] = Counter()
    [document] = read_brat(write(tmp_path, MARKS), left_out)
    assert document.text == TEXT and document.name == "a"
    assert [span.pieces for span in document.spans] == [((0, 6), (19, 25)), ((11, 25),), ((28, 35),)]
    [relation] = document.relations
    assert (relation.label, relation.head, relation.tail) == ("Helps", "T3", "T2")
    assert left_out == {"events": 1, "normalisations": 1, "relations of events": 1}


def test_a_byte_order_mark_is_no_character(tmp_path: Path) -> None:
    folder = write(tmp_path, "T3\tDrug 28 35\tAspirin")
    (folder / "a.txt").write_bytes(b"\xef\xbb\xbf" + TEXT.encode())
    [document] = read_brat(folder)
    assert document.text == TEXT and document.spans[0].start == 28


def test_flat_mentions_have_no_overlaps_and_prefer_those_without_gaps(tmp_path: Path) -> None:
    [document] = read_brat(write(tmp_path, MARKS))
    assert [span.ids for span in document.flat_spans()] == [("T2",), ("T3",)]
    [alone] = read_brat(write(tmp_path, MARKS.splitlines()[1]) / "a.ann")
    assert [(span.start, span.end) for span in alone.flat_spans()] == [(0, 25)]
    [nested] = read_brat(write(tmp_path, "T1\tOrgan 0 6\tBreast\nT2\tDisease 0 25\tBreast and ovarian cancer"))
    assert [span.label for span in nested.flat_spans()] == ["Disease"]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("T1\tDrug 27 34\tAspirin", "has the mention 'Aspirin', but '\\nAspiri' stands at 27 34"),
        ("T1\tDrug 28 99\tAspirin", "has the offsets 28 99, not in order inside 42 characters"),
        ("T1\tDisease 19 25;0 6\tcancer Breast", "has the offsets 19 25;0 6, not in order"),
        ("T1\tDrug 28 35", "has no annotation of BRAT but 'T1\\tDrug 28 35'"),
        ("T1\tDrug 28\tAspirin", "has no annotation of BRAT but 'T1\\tDrug 28\\tAspirin'"),
        ("R1\tHelps Arg1:T8 Arg2:T9", "has a relation of 'T8', which no line marks"),
        ("T3\tDrug 28 35\tAspirin\nT3\tDrug 28 35\tAspirin", "has the id 'T3' a second time"),
        ("what?", "has no annotation of BRAT but 'what?'"),
    ],
)
def test_a_line_that_cannot_be_read_is_named(line: str, says: str, tmp_path: Path) -> None:
    folder = write(tmp_path, line)
    with pytest.raises(BadRow) as error:
        list(read_brat(folder))
    assert str(error.value).startswith(f"{folder / 'a.ann'}, line {1 + line.count(chr(10))} {says}")


def test_a_missing_half_of_a_pair_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"holds no \.ann file"):
        list(read_brat(tmp_path))
    (write(tmp_path, MARKS) / "a.txt").unlink()
    with pytest.raises(InputError, match=r"There is no file .*a\.txt"):
        list(read_brat(tmp_path))
    with pytest.raises(InputError, match=r"There is no file .*b\.ann"):
        list(read_brat(tmp_path / "b.ann"))


def test_a_text_that_is_not_utf_8_is_an_error(tmp_path: Path) -> None:
    (write(tmp_path, MARKS) / "a.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match=r"a\.txt is not in UTF-8"):
        list(read_brat(tmp_path))
