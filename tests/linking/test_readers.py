"""Linked texts from files: our own JSON lines, ELEVANT's, both of AIDA's formats, and PubTator."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infuser.errors import InputError
from infuser.linking.examples import LinkedText
from infuser.linking.readers import read_links
from infuser.tables.skipped import Skipped
from infuser.types import Span

AIDA = """-DOCSTART- (1 EU)
EU\tB\tEU\t--NME--
rejects
German\tB\tGerman\tGermany\thttp://en.wikipedia.org/wiki/Germany\t11867\t/m/0345h
lamb
.

Peter\tB\tPeter Blackburn\t--NME--
Blackburn\tI\tPeter Blackburn\t--NME--

-DOCSTART- (2 Rare)
The
Java\tB\tJava Sea\tJava_\\u0028island\\u0029\thttp://en.wikipedia.org/wiki/Java
Sea\tI\tJava Sea\tJava_\\u0028island\\u0029\thttp://en.wikipedia.org/wiki/Java
Japan\tB\tJapan\tJapan
"""
KNOWBERT = """DOCSTART_1_EU
EU
rejects
MMSTART_11867\tGermany
German
MMEND
lamb
.
*NL*
*NL*
MMSTART_9974
European
Commission
MMEND
said
DOCEND
DOCSTART_2_X
Yes
DOCEND
"""


def write(folder: Path, content: str, name: str = "links.txt") -> Path:
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return path


def lines(*records: object) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def words_of(linked: LinkedText) -> list[tuple[str, str]]:
    return [(linked.text[span.start : span.end], span.id) for span in linked.spans]


def test_our_own_format_has_texts_spans_and_what_is_labelled(tmp_path):
    rows = lines(
        {
            "text": "Bern on the Aare",
            "spans": [{"start": 12, "end": 16, "id": "Q2"}, {"start": 0, "end": 4, "id": "Q70"}],
        },
        {"text": "Bern or bern", "spans": [{"start": 0, "end": 4, "id": "Q70"}], "labelled": [0, 7], "name": "second"},
    )
    first, second = read_links(write(tmp_path, rows))
    assert first == LinkedText("Bern on the Aare", (Span(0, 4, id="Q70"), Span(12, 16, id="Q2")))
    assert second == LinkedText("Bern or bern", (Span(0, 4, id="Q70"),), (0, 7), "second")


def test_elevant_gives_wikidata_ids_and_counts_what_is_no_entity(tmp_path):
    labels = [("Q70", [0, 4]), ("<NIL>", [5, 7]), ("QUANTITY", [8, 11]), ("Q1", [0, 4]), ("Q70", [0, 4])]
    record = {
        "text": "Bern on the Aare",
        "title": "a",
        "evaluation_span": [0, 8],
        "labels": [{"span": span, "entity_id": id} for id, span in labels],
    }
    left_out: Counter[str] = Counter()
    [linked] = read_links(write(tmp_path, lines(record)), left_out=left_out)
    assert linked == LinkedText("Bern on the Aare", (Span(0, 4, id="Q70"), Span(0, 4, id="Q1")), (0, 8), "a")
    assert left_out == {"<NIL>": 1, "QUANTITY": 1}
    record["evaluation_span"] = [0, 16]
    assert read_links(write(tmp_path, lines(record)))[0].labelled is None


def test_aida_is_put_together_with_spaces_and_a_line_per_sentence(tmp_path):
    left_out: Counter[str] = Counter()
    first, second = read_links(write(tmp_path, AIDA), skipped=Skipped(strict=True), left_out=left_out)
    assert (first.text, first.name) == ("EU rejects German lamb .\nPeter Blackburn", "1 EU")
    assert words_of(first) == [("German", "Germany")]
    assert (second.text, second.name) == ("The Java Sea Japan", "2 Rare")
    assert words_of(second) == [("Java Sea", "Java_(island)"), ("Japan", "Japan")]
    assert left_out == {"--NME--": 2}


def test_knowberts_aida_is_read_with_titles_or_else_numbers(tmp_path):
    first, second = read_links(write(tmp_path, KNOWBERT), skipped=Skipped(strict=True))
    assert (first.text, first.name) == ("EU rejects German lamb .\nEuropean Commission said", "1_EU")
    assert words_of(first) == [("German", "Germany"), ("European Commission", "9974")]
    assert second == LinkedText("Yes", name="2_X")


def test_a_packed_file_is_read_too(tmp_path):
    path = tmp_path / "links.jsonl.gz"
    path.write_bytes(gzip.compress(lines({"text": "Bern", "spans": []}).encode()))
    assert read_links(path) == [LinkedText("Bern")]


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ("{broken", "not JSON"),
        ('"a text"', "is not an object"),
        (json.dumps({"text": 5, "spans": []}), "no text with spans"),
        (json.dumps({"text": "Bern"}), "no text with spans"),
        (json.dumps({"text": "Bern \ud800", "spans": []}), "no text with spans"),
        (json.dumps({"text": "Bern", "spans": [], "labelled": [0, 9]}), "labelled is not inside"),
        (json.dumps({"text": "Bern", "spans": [{"start": 0, "end": 5, "id": "Q70"}]}), "not inside the text of 4"),
        (json.dumps({"text": "Bern", "spans": [{"start": 0, "end": "4", "id": "Q70"}]}), "not inside the text of 4"),
        (json.dumps({"text": "Bern", "spans": [{"start": 0, "end": 4, "id": 70}]}), "no text: '70'"),
        (json.dumps({"text": "Bern", "spans": ["Q70"]}), "not inside the text of 4"),
    ],
)
def test_what_is_wrong_is_told_with_file_and_line_and_reading_goes_on(tmp_path, bad, why):
    good = lines({"text": "Bern", "spans": [{"start": 0, "end": 4, "id": "Q70"}]})
    path, skipped = write(tmp_path, f"{good}\n{bad}\n{good}"), Skipped()
    texts = read_links(path, skipped=skipped)
    assert [words_of(text) for text in (texts[0], texts[-1])] == [[("Bern", "Q70")]] * 2
    assert skipped.n == 1
    assert skipped.first[0].startswith(f"{path}, line 3: ")
    assert why in skipped.first[0]
    with pytest.raises(InputError, match="line 3"):
        read_links(path, skipped=Skipped(strict=True))


@pytest.mark.parametrize(
    ("content", "why", "mentions"),
    [
        ("-DOCSTART- (1 A)\nBern\tX\tBern\tBern\nAare\tB\tAare\tAare\n", "not word, B or I", ["Aare"]),
        ("-DOCSTART- (1 A)\nBern\tI\tBern\tBern\nAare\tB\tAare\tAare\n", "not word, B or I", ["Aare"]),
        ("DOCSTART_1\nMMSTART_1\tBern\nBern\nMMSTART_2\tAare\nAare\nMMEND\n", "without MMEND", ["Aare"]),
        ("DOCSTART_1\nMMEND\nMMSTART_2\tAare\nAare\nMMEND\n", "MMEND without", ["Aare"]),
    ],
)
def test_a_bad_line_of_aida_costs_its_mention_but_no_other(tmp_path, content, why, mentions):
    skipped = Skipped()
    [linked] = read_links(write(tmp_path, content), skipped=skipped)
    assert [word for word, _ in words_of(linked)] == mentions
    assert skipped.n == 1
    assert why in skipped.first[0]


def test_a_file_of_no_known_format_or_without_texts_is_one_clear_error(tmp_path):
    with pytest.raises(InputError, match="Cannot tell how links are written"):
        read_links(write(tmp_path, "just some text\n"))
    with pytest.raises(InputError, match="Cannot tell how links are written"):
        read_links(write(tmp_path, ""))
    with pytest.raises(InputError, match=r"holds no linked texts .*line 1: no text with spans"):
        read_links(write(tmp_path, '{"spans": []}\n'))
    with pytest.raises(InputError, match="No format of linked texts is called 'conll'"):
        read_links(write(tmp_path, AIDA), format="conll")
    with pytest.raises(InputError, match="No file at"):
        read_links(tmp_path / "absent.jsonl")


WORDS = st.text("abcÄß-.,'", min_size=1, max_size=5)
SENTENCES = st.lists(
    st.lists(st.tuples(WORDS, st.sampled_from(["", "Q1", "B_(x)"])), min_size=1, max_size=6), min_size=1
)


@settings(max_examples=50, deadline=None)
@given(sentences=SENTENCES)
def test_both_forms_of_aida_give_back_every_word_and_mention(tmp_path_factory, sentences):
    table = "\n\n".join(
        "\n".join(f"{word}\tB\t{word}\t{id}" if id else word for word, id in sentence) for sentence in sentences
    )
    marked = "\n*NL*\n".join(
        "\n".join(f"MMSTART_1\t{id}\n{word}\nMMEND" if id else word for word, id in sentence) for sentence in sentences
    )
    text = "\n".join(" ".join(word for word, _ in sentence) for sentence in sentences)
    for content in (f"-DOCSTART- (1 A)\n{table}\n", f"DOCSTART_1 A\n{marked}\nDOCEND\n"):
        [linked] = read_links(write(tmp_path_factory.mktemp("aida"), content), skipped=Skipped(strict=True))
        assert linked.text == text
        assert words_of(linked) == [pair for sentence in sentences for pair in sentence if pair[1]]


LINKING = Path(__file__).parents[3] / "shared" / "data" / "linking"
PUBLISHED = {  # texts, mentions, mentions without an entity
    "derczynski": (183, 210, 82),
    "kore50": (50, 143, 1),
    "msnbc-updated": (20, 653, 86),
    "news-fair-v2-no-coref": (120, 943, 492),
    "oke-2015-eval": (101, 536, 128),
    "oke-2015-train": (95, 301, 40),
    "oke-2016-eval": (55, 287, 53),
    "oke-2016-train": (196, 869, 180),
    "rss-500": (500, 518, 482),
    "wiki-fair-v2-no-coref": (120, 1918, 977),
}


@pytest.mark.shared
def test_published_linking_sets_are_read_whole():
    if not LINKING.is_dir():
        pytest.skip(f"no data at {LINKING}")
    for name, counts in PUBLISHED.items():
        left_out: Counter[str] = Counter()
        path = LINKING / f"{name}.benchmark.jsonl"
        texts = read_links(path, skipped=Skipped(strict=True), left_out=left_out)
        assert (len(texts), sum(len(one.spans) for one in texts), left_out.total()) == counts


def test_mentions_of_pubtator_have_one_span_for_each_entity(tmp_path):
    lines = ["7|t|MODY and X", "7|a|None.", "7\t0\t4\tMODY\tGene\t6927,3172", "7\t9\t10\tX\tGene\t-"]
    left_out: Counter[str] = Counter()
    [linked] = read_links(write(tmp_path, "\n".join(lines)), skipped=Skipped(strict=True), left_out=left_out)
    assert linked == LinkedText("MODY and X None.", (Span(0, 4, id="6927"), Span(0, 4, id="3172")), name="7")
    assert left_out == {"no id": 1}


@pytest.mark.shared
def test_links_of_biored_are_read_whole():
    path, left_out = LINKING.parent / "bio" / "BioRED" / "Test.PubTator", Counter[str]()
    if not path.is_file():
        pytest.skip(f"no data at {path}")
    texts = read_links(path, skipped=Skipped(strict=True), left_out=left_out)
    places = {(one.name, span.start, span.end) for one in texts for span in one.spans}
    assert (len(texts), len(places) + left_out.total(), left_out) == (100, 3535, {"no id": 12})
