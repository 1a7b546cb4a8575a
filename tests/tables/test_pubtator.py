from __future__ import annotations

from pathlib import Path

import pytest

from infuser.tables.pubtator import read_pubtator
from infuser.tables.skipped import BadRow, Skipped

BIORED = Path(__file__).parents[3] / "shared" / "data" / "bio" / "BioRED"
TITLE, ABSTRACT = "Aspirin and ulcers.", "Aspirin causes breast and ovarian cancer."
DOCUMENT = f"""7|t|{TITLE}
7|a|{ABSTRACT}
7\t0\t7\tAspirin\tChemical\tD001
7\t12\t18\tulcers\tDisease\t-
7\t35\t60\tbreast and ovarian cancer\tDisease\tD002|D003\tbreast cancer|ovarian cancer
7\t20\t27\tAspirin\tChemical\tD001;c|SUB|A|12|G,D001
7\tCause\tD001\tD002\tNovel

8|t|No abstract.
"""


def write(folder: Path, content: str) -> Path:
    path = folder / "a.pubtator"
    path.write_text(content)
    return path


def test_offsets_count_title_one_space_and_abstract(tmp_path: Path) -> None:
    document, short = read_pubtator(write(tmp_path, DOCUMENT))
    assert document.text == f"{TITLE} {ABSTRACT}" and document.name == "7"
    words = [document.text[span.start : span.end] for span in document.spans]
    assert words == ["Aspirin", "ulcers", "breast and ovarian cancer", "Aspirin"]
    assert (short.text, short.spans) == ("No abstract.", ())


def test_a_bar_divides_ids_of_composite_mentions_only(tmp_path: Path) -> None:
    document, _ = read_pubtator(write(tmp_path, DOCUMENT))
    assert [span.ids for span in document.spans] == [
        ("D001",),
        (),
        ("D002", "D003"),
        ("D001", "c|SUB|A|12|G"),
    ]
    [relation] = document.relations
    assert (relation.label, relation.head, relation.tail) == ("Cause", "D001", "D002")


def test_a_mention_may_have_no_id_beside_others_and_a_start_is_a_number(tmp_path: Path) -> None:
    lines = ["7\t0\t7\tAspirin\tChemical\tD001, -1", "7\t--5\tD001\tD002"]
    [document] = read_pubtator(write(tmp_path, "\n".join([f"7|t|{TITLE}", f"7|a|{ABSTRACT}", *lines])))
    assert [span.ids for span in document.spans] == [("D001",)]
    assert [one.label for one in document.relations] == ["--5"], "no number, so it is the name of a relation"


def test_a_title_begins_the_next_document_without_a_blank_line(tmp_path: Path) -> None:
    assert [one.name for one in read_pubtator(write(tmp_path, "1|t|A\n1|a|B\n2|t|C\n"))] == ["1", "2"]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("7\t1\t8\tAspirin\tChemical\tD001", "has the mention 'Aspirin', but 'spirin ' stands at 1 8"),
        ("7\t50\t99\tcancer\tDisease\tD001", "has the offsets 50 99, not in order inside 61 characters"),
        ("7\t-1\t7\tAspirin\tChemical\tD001", "has the offsets -1 7"),
        ("7\t0\t7x\tAspirin\tChemical\tD001", "has a mention without end, words or type"),
        ("7\t0\t7\tAspirin", "has a mention without end, words or type"),
        ("7\tCause\tD001", "has neither a mention nor a relation"),
        ("9\tCause\tD001\tD002", "has the document '9' among the lines of '7'"),
        ("7|a|Once more.", "has no abstract of '7' but '7|a|Once more.'"),
    ],
)
def test_a_line_that_cannot_be_read_is_named_and_counted_where_that_is_wanted(
    line: str, says: str, tmp_path: Path
) -> None:
    path = write(tmp_path, f"7|t|{TITLE}\n7|a|{ABSTRACT}\n{line}\n")
    with pytest.raises(BadRow) as error:
        list(read_pubtator(path))
    assert str(error.value).startswith(f"{path}, line 3 {says}")
    skipped = Skipped()
    [document] = read_pubtator(path, skipped)
    assert (document.spans, document.relations, skipped.n) == ((), (), 1)


def test_a_mention_before_any_title_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BadRow, match="line 1 begins a document without a title"):
        list(read_pubtator(write(tmp_path, "7\t0\t7\tAspirin\tChemical\tD001\n")))


@pytest.mark.shared
def test_biored_is_read_whole() -> None:
    if not BIORED.is_dir():
        pytest.skip(f"no data at {BIORED}")
    counts = []
    for part in ("Train", "Dev", "Test"):
        documents = list(read_pubtator(BIORED / f"{part}.PubTator"))
        spans = sum(len(one.spans) for one in documents)
        counts.append((len(documents), spans, sum(len(one.relations) for one in documents)))
        assert sum(len(one.flat_spans()) for one in documents) == spans
    assert counts == [(400, 13351, 4178), (100, 3533, 1162), (100, 3535, 1163)]
