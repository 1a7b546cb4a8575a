from __future__ import annotations

from pathlib import Path

import pytest

from infuser.errors import InputError
from infuser.tables.conll import read_sentences, spans_of
from infuser.tables.skipped import Place

HERE = Place(Path("a.conll"), 1)
SAMPLE = Path(__file__).parent.parent / "data" / "ner" / "train.conll"


def test_sentences_end_with_blank_lines_and_remember_where_they_begin() -> None:
    sentences = list(read_sentences(SAMPLE))
    assert [one.place.number for one in sentences] == [4, 11, 18, 24]
    assert sentences[0].words == ["buy", "glipizide", "tablets", "in", "Bern"]
    assert sentences[0].tags == ["O", "B-drug", "O", "O", "B-city"]


def test_comments_are_told_from_the_sign(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text("# sent_id = 3\n#\tO\n#NFL\tB-team\n\t\n#hash O\n\n# last\n")
    assert [one.words for one in read_sentences(path)] == [["#", "#NFL"], ["#hash"]]
    path.write_text("# text = Rickets need vitamin E\nRickets\tB-disease\nneed\tO\n")
    assert [one.words for one in read_sentences(path)] == [["Rickets", "need"]]


@pytest.mark.parametrize(
    ("comment", "word"),
    [("# x E", "Bern B-city"), ("# x E", "Bern\tNNP\tB-city"), ("# O", "Bern NNP B-city")],
)
def test_a_comment_that_ends_like_a_tag_is_no_word_of_its_own(comment: str, word: str, tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    for lines in ([comment, "", word], [word, "", comment, "", word], [word, "", comment], [comment, word]):
        path.write_text("\n".join(lines))
        assert {tuple(one.words) for one in read_sentences(path)} == {("Bern",)}


def test_the_sign_alone_in_a_sentence_is_a_word(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text("# NN O\n\nin IN O\nBern NNP B-city\n\n# NN O\n")
    assert [one.words for one in read_sentences(path)] == [["#"], ["in", "Bern"], ["#"]]


SCHEMES = {
    "IOB1": ["I-a", "I-a", "B-a", "O", "I-b", "I-a"],
    "IOB2": ["B-a", "I-a", "B-a", "O", "B-b", "B-a"],
    "IOBES": ["B-a", "E-a", "S-a", "O", "S-b", "S-a"],
    "BILOU": ["B-a", "L-a", "U-a", "O", "U-b", "U-a"],
}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_scheme_gives_the_same_entities(scheme: str) -> None:
    expected = [(0, 2, "a"), (2, 3, "a"), (4, 5, "b"), (5, 6, "a")]
    assert [tuple(span) for span in spans_of(HERE, SCHEMES[scheme])] == expected


def test_types_may_hold_hyphens_and_be_left_out() -> None:
    assert spans_of(HERE, ["B-creative-work", "I-creative-work", "O", "B", "I"]) == [
        (0, 2, "creative-work"),
        (3, 5, "entity"),
    ]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("Bern X-city", "line 2 has the tag 'X-city'. It is O, or B-"),
        ("Bern city", "line 2 has the tag 'city'"),
        ("Bern", "line 2 has no word and tag but 'Bern'"),
        ("\tB-city", "line 2 has no word and tag"),
    ],
)
def test_a_line_that_cannot_be_read_is_named(line: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text(f"in O\n{line}\n")
    with pytest.raises(InputError, match=says):
        list(read_sentences(path))
