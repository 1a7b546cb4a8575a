"""The reader of WordNet's files, on a small sample written by hand and on lines drawn at random."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infuser.errors import SourceError
from infuser.knowledge.facts import ENTITIES, TRIPLES
from infuser.knowledge.readers.wordnet import (
    RELATIONS,
    SUBJECTS,
    Pointer,
    parse_line,
    read_counts,
    read_synsets,
    read_wordnet,
)

SAMPLE = Path(__file__).parents[1] / "data" / "wordnet"


def by_lemma(lemma: str):
    return [synset for synset in read_synsets(SAMPLE).values() if lemma in synset.lemmas]


def test_a_synset_has_words_gloss_subject_counts_and_what_it_is_a_kind_of():
    (dog,), (animal,), (rollo,) = by_lemma("dog"), by_lemma("animal"), by_lemma("Rollo")
    assert dog.lemmas == ("dog", "domestic dog", "Canis familiaris")
    assert dog.counts == (42, 0, 0)
    assert dog.gloss == "an animal that barks and lives with people"
    assert dog.lex_file == 5
    assert dog.hypernyms == (animal.id,)
    assert rollo.hypernyms == ()
    assert [(pointer.symbol, pointer.target) for pointer in rollo.pointers] == [("@i", dog.id)]


def test_every_synset_of_the_file_is_read_in_order_and_points_to_known_ones():
    synsets = read_synsets(SAMPLE)
    lines = [line for line in (SAMPLE / "data.noun").read_text().splitlines() if not line.startswith("  ")]
    assert [synset_id[1:] for synset_id in synsets] == [line[:8] for line in lines]
    assert all(pointer.target in synsets for synset in synsets.values() for pointer in synset.pointers)


def test_two_meanings_of_a_word_are_two_synsets():
    assert len(by_lemma("mastiff")) == 2


def test_counts_cover_all_parts_of_speech_and_leave_out_zeros():
    counts = read_counts(SAMPLE)
    assert counts["a00000200", "gray"] == 4
    assert counts["r00000100", "plumb"] == 3
    assert min(counts.values()) > 0


def test_without_sense_counts_all_counts_are_zero(tmp_path):
    shutil.copy(SAMPLE / "data.noun", tmp_path)
    assert {count for synset in read_synsets(tmp_path).values() for count in synset.counts} == {0}


def test_an_adjective_loses_its_place_mark_and_a_satellite_is_an_adjective():
    synset = parse_line("00013662 00 s 02 galore(ip) 0 a_la_carte(a) 1 001 & 00013160 a 0000 | in plenty  \n")
    assert synset.id == "a00013662"
    assert synset.lemmas == ("galore", "a la carte")
    assert synset.pointers == (Pointer("&", "a00013160", "0000"),)


def test_a_verb_may_end_in_sentence_frames():
    synset = parse_line("00001740 29 v 01 breathe 0 001 * 00005041 v 0000 02 + 02 00 + 08 00 | draw air  \n")
    assert synset.lemmas == ("breathe",)
    assert len(synset.pointers) == 1


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("00001740 03 n 01 entity 0 000", "no ' | '"),
        ("00001740 03 n 02 entity 0 000 | cut", "only 7 fields"),
        ("00001740 03 x 01 entity 0 000 | type", "unknown type 'x'"),
        ("1740 03 n 01 entity 0 000 | offset", "eight digits"),
        ("00001740 03 n 01 entity 0 002 @ 00001740 n 0000 | count", "2 pointers announced, 1 found"),
        ("00001740 03 n 00 000 | nothing", "no words"),
        ("00001740 03 n 01 physical entity 0 000 | a space in a word", "invalid literal"),
    ],
)
def test_a_malformed_line_is_reported_with_file_line_and_reason(tmp_path, line, complaint):
    (tmp_path / "data.noun").write_text("  1 licence\n00000001 03 n 01 thing 0 000 | fine\n" + line + "\n")
    with pytest.raises(SourceError) as caught:
        read_synsets(tmp_path)
    assert f"{tmp_path / 'data.noun'}, line 3" in str(caught.value)
    assert complaint in str(caught.value)


def test_a_malformed_sense_count_is_reported_with_its_line(tmp_path):
    shutil.copy(SAMPLE / "data.noun", tmp_path)
    (tmp_path / "index.sense").write_text("dog%1:05:00:: 00003928 1 42\ndog without a key\n")
    with pytest.raises(SourceError, match=r"index\.sense, line 2"):
        read_synsets(tmp_path)


def test_missing_binary_and_unknown_files_are_clear_errors(tmp_path):
    with pytest.raises(SourceError, match="infuser assets fetch wordnet"):
        read_synsets(tmp_path)
    (tmp_path / "data.noun").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SourceError, match="is not text"):
        read_synsets(tmp_path)
    with pytest.raises(SourceError, match="No part of speech is called 'noun'"):
        read_synsets(tmp_path, "noun")


WORDS = st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="_|"), min_size=1, max_size=12)
LEMMAS = st.lists(WORDS, min_size=1, max_size=3).map(" ".join)
OFFSETS = st.integers(0, 99_999_999).map("{:08d}".format)
POINTERS = st.builds(
    Pointer,
    st.sampled_from(["@", "~", "@i", "#m", "+", ";c"]),
    st.builds(str.__add__, st.sampled_from("nvar"), OFFSETS),
    st.integers(0, 0xFFFF).map("{:04x}".format),
)
GLOSSES = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=60).map(str.strip)


@given(OFFSETS, st.integers(3, 28), st.lists(LEMMAS, min_size=1, max_size=30), st.lists(POINTERS, max_size=20), GLOSSES)
def test_what_is_written_as_a_line_is_read_back(offset, lex_file, lemmas, pointers, gloss):
    words = " ".join(f"{lemma.replace(' ', '_')} {place % 16:x}" for place, lemma in enumerate(lemmas))
    tail = "".join(f"{symbol} {target[1:]} {target[0]} {words} " for symbol, target, words in pointers)
    line = f"{offset} {lex_file:02d} n {len(lemmas):02x} {words} {len(pointers):03d} {tail}| {gloss}  \n"
    synset = parse_line(line)
    assert (synset.id, synset.lex_file, synset.lemmas) == (f"n{offset}", lex_file, tuple(lemmas))
    assert synset.pointers == tuple(pointers)
    assert synset.gloss == gloss
    assert synset.counts == (0,) * len(lemmas)


FILES = {
    "data.noun": "00000100 05 n 02 dog 0 domestic_dog 0 "
    "003 @ 00000200 n 0000 + 00000400 v 0101 + 00000400 v 0201 | barks\n"
    "00000200 03 n 01 animal 0 001 ~ 00000100 n 0000 | lives\n",
    "data.verb": "00000400 38 v 01 dog 0 001 + 00000100 n 0101 01 + 08 00 | follow\n",
    "data.adj": "00000500 00 a 01 doggy 0 001 & 00000600 s 0000 | like a dog\n00000600 44 s 01 dogged(p) 0 000 | \n",
    "data.adv": "00000700 02 r 01 doggedly 0 001 \\ 00000500 a 0101 | in a dogged way\n",
    "index.sense": "dog%1:05:00:: 00000100 1 42\ndomestic_dog%1:05:00:: 00000100 1 2\n",
}


@pytest.fixture
def folder(tmp_path):
    for name, content in FILES.items():
        (tmp_path / name).write_text("  1 licence\n" * name.startswith("data") + content)
    return tmp_path


def test_synsets_are_entities_and_pointers_triples_in_all_parts_of_speech(folder):
    batches = list(read_wordnet(folder))
    entities = [row for batch in batches if batch.schema == ENTITIES for row in batch.to_pylist()]
    triples = [tuple(row.values()) for batch in batches if batch.schema == TRIPLES for row in batch.to_pylist()]
    assert entities[0] == {
        "id": "n00000100",
        "label": "dog",
        "aliases": ["domestic dog"],
        "description": "barks",
        "types": ["noun.animal"],
        "count": 44,
    }
    assert [row["types"] for row in entities[1:]] == [
        ["noun.Tops"],
        ["verb.motion"],
        ["adj.all"],
        ["adj.ppl"],
        ["adv.all"],
    ]
    assert (entities[4]["label"], entities[4]["description"]) == ("dogged", None)
    assert triples == [
        ("n00000100", "hypernym", "n00000200", 1.0),
        ("n00000100", "derivationally related", "v00000400", 1.0),  # once, though two words point there
        ("n00000200", "hyponym", "n00000100", 1.0),
        ("v00000400", "derivationally related", "n00000100", 1.0),
        ("a00000500", "similar to", "a00000600", 1.0),
        ("r00000700", "pertainym", "a00000500", 1.0),
    ]


def test_a_pointer_or_subject_that_wordnet_does_not_know_is_an_error(folder):
    for old, new, complaint in ((" @ ", " ? ", r"pointer '\?'"), (" 05 n", " 77 n", "file 77")):
        (folder / "data.noun").write_text(FILES["data.noun"].replace(old, new))
        with pytest.raises(SourceError, match=complaint):
            list(read_wordnet(folder))


def test_every_relation_has_a_name_of_its_own_and_every_subject_too():
    assert len(set(RELATIONS.values())) == len(RELATIONS) == 26
    assert len(set(SUBJECTS)) == 45
