from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lama_files import BORN, DANTE, REAL, jsonl, trex

from infuser.errors import InputError
from infuser.tasks.lama_readers import LamaFact, read_facts, read_texts


def worded(facts: Sequence[LamaFact]) -> list[tuple[str, str, str, str]]:
    return [(one.relation, one.prompt("template"), one.prompt("evidence"), one.object) for one in facts]


def test_a_t_rex_fact_gets_the_template_of_its_relation_and_its_first_sentence_with_a_mask(tmp_path: Path):
    evidences = [{"masked_sentence": "cut off"}, {"masked_sentence": "[MASK] saw him."}, {"masked_sentence": "[MASK]!"}]
    [fact] = read_facts(trex(tmp_path, [DANTE | {"evidences": evidences}]), "trex")
    assert worded([fact]) == [("P19", "Dante was born in [MASK] .", "[MASK] saw him.", "Florence")]
    assert fact.type == "N-1"


def test_files_may_be_packed(tmp_path: Path):
    data = trex(tmp_path, [DANTE])
    plain = tmp_path / "TREx" / "P19.jsonl"
    plain.with_name("P19.jsonl.gz").write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    assert [fact.subject for fact in read_facts(data, "trex")] == ["Dante"]


def test_google_re_has_its_three_official_templates_and_joins_two_sentences(tmp_path: Path):
    about = {"place_of_birth": "people/person", "date_of_birth": "people/person", "place_of_death": "people/dead"}
    for relation, path in about.items():
        row = {"pred": f"/{path}/{relation}", "sub_label": "Ann", "obj_label": "1941"}
        jsonl(tmp_path / "Google_RE" / f"{relation}_test.jsonl", [row | {"masked_sentences": ["Ann.", "In [MASK]."]}])
    assert worded(list(read_facts(str(tmp_path), "google-re"))) == [
        ("place_of_birth", "Ann was born in [MASK] .", "Ann. In [MASK].", "1941"),
        ("date_of_birth", "Ann (born [MASK]).", "Ann. In [MASK].", "1941"),
        ("place_of_death", "Ann died in [MASK] .", "Ann. In [MASK].", "1941"),
    ]


ALIVE = {"sub": "alive", "pred": "HasSubevent", "masked_sentences": ["To live is to [MASK]."], "obj_label": "think"}


def test_conceptnet_leaves_out_rows_without_a_subject_label_where_others_have_one(tmp_path: Path):
    path = jsonl(tmp_path / "ConceptNet" / "test.jsonl", [ALIVE, ALIVE | {"sub_label": "life", "obj_label": "eat"}])
    assert [(one.subject, one.object) for one in read_facts(str(tmp_path), "conceptnet")] == [("life", "eat")]
    jsonl(path, [ALIVE, ALIVE | {"sub": None}])
    assert [one.subject for one in read_facts(str(tmp_path), "conceptnet")] == ["alive", ""]


def test_squad_has_one_relation_and_no_subjects(tmp_path: Path):
    row = {"masked_sentences": ["The [MASK] color."], "obj_label": "gold", "sub_label": "Squad", "id": "1"}
    jsonl(tmp_path / "Squad" / "test.jsonl", [row])
    [fact] = read_facts(str(tmp_path), "squad")
    assert (fact.relation, fact.subject, fact.prompt("template")) == ("squad", "", "The [MASK] color.")


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ("{", r"P19.jsonl, line 2 is not JSON"),
        ("[1]", r"P19.jsonl, line 2 is not an object"),
        ({"sub_label": "Dante", "predicate_id": "P19"}, r"P19.jsonl, line 2 has no 'obj_label' but 'sub_label'"),
        (DANTE | {"obj_label": " "}, r"line 2 has no 'obj_label'"),
        (DANTE | {"evidences": "none"}, r"line 2 has 'evidences' that are no list of objects"),
    ],
)
def test_a_malformed_row_gives_file_and_line(row: Mapping[str, Any] | str, why: str, tmp_path: Path):
    with pytest.raises(InputError, match=why):
        list(read_facts(trex(tmp_path, [DANTE, row]), "trex"))


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"obj_label": "gold", "masked_sentences": ["no gap"]}, r"line 1 has no sentence with \[MASK\]"),
        ({"obj_label": "gold", "masked_sentences": "[MASK]"}, r"line 1 has 'masked_sentences' that are no list"),
        ({"obj_label": 7, "masked_sentences": ["[MASK]"]}, r"line 1 has no 'obj_label'"),
    ],
)
def test_a_sentence_without_a_mask_or_an_object_is_refused(row: Mapping[str, Any], why: str, tmp_path: Path):
    jsonl(tmp_path / "Squad" / "test.jsonl", [row])
    with pytest.raises(InputError, match=why):
        list(read_facts(str(tmp_path), "squad"))


def test_templates_need_both_places_and_a_relation_of_google_re_a_known_name(tmp_path: Path):
    data = trex(tmp_path, [DANTE])
    jsonl(tmp_path / "relations.jsonl", [BORN | {"template": "born in [Y]"}])
    with pytest.raises(InputError, match=r"template 'born in \[Y\]' without \[X\] or \[Y\]"):
        list(read_facts(data, "trex"))
    row = {"pred": "/people/person/height", "sub_label": "Ann", "obj_label": "tall"}
    jsonl(tmp_path / "Google_RE" / "place_of_birth_test.jsonl", [row])
    with pytest.raises(InputError, match=r"line 1 is about 'height', not about place_of_birth"):
        list(read_facts(data, "google-re"))


def test_what_is_not_there_is_named(tmp_path: Path):
    jsonl(tmp_path / "relations.jsonl", [BORN])
    with pytest.raises(InputError, match=r"no TREx/P\*.jsonl for any of the 1 relations"):
        list(read_facts(str(tmp_path), "trex"))
    with pytest.raises(InputError, match=r"holds no Squad/test.jsonl, but relations.jsonl"):
        list(read_facts(str(tmp_path), "squad"))
    with pytest.raises(InputError, match=r"no part 'squat'; it has trex, google-re, conceptnet, squad"):
        list(read_facts(str(tmp_path), "squat"))  # type: ignore[arg-type]
    [fact] = read_facts(trex(tmp_path, [DANTE]), "trex")
    with pytest.raises(
        InputError, match=r"P19.jsonl, line 1 has no sentence with \[MASK\]. Ask with prompt='template'"
    ):
        fact.prompt("evidence")


@settings(max_examples=25)
@given(st.text(min_size=1).filter(str.strip), st.text(min_size=1).filter(str.strip))
def test_any_names_come_back_as_they_are_written(tmp_path_factory: pytest.TempPathFactory, subject: str, name: str):
    data = trex(tmp_path_factory.mktemp("lama"), [DANTE | {"sub_label": subject, "obj_label": name}])
    [fact] = read_facts(data, "trex")
    assert (fact.subject, fact.object) == (subject.strip(), name.strip())


@pytest.mark.usefixtures("offline")
def test_the_hub_has_a_row_per_sentence_and_its_facts_are_the_same(tmp_path: Path):
    born = DANTE | {"template": BORN["template"], "type": "N-1"}
    rows = [born | {"masked_sentence": text} for text in ("none", "In [MASK].", "At [MASK].")]
    jsonl(tmp_path / "trex" / "train.jsonl", [*rows, born | {"uuid": "e", "obj_label": "Pisa", "masked_sentence": "?"}])
    first, second = read_facts(f"datasets:{tmp_path / 'trex'}", "trex")
    assert worded([first]) == [("P19", "Dante was born in [MASK] .", "In [MASK].", "Florence")]
    assert (second.object, second.sentence, second.type) == ("Pisa", "", "N-1")

    google = {"pred": "/people/person/date_of_birth", "sub_label": "Ann", "obj_label": "1941", "uuid": "a"}
    rows = [google | {"template": "[X] (born [Y]).", "masked_sentence": text} for text in ("Ann.", "In [MASK].")]
    jsonl(tmp_path / "google" / "train.jsonl", rows)
    [fact] = read_facts(f"datasets:{tmp_path / 'google'}", "google-re")
    assert worded([fact]) == [("date_of_birth", "Ann (born [MASK]).", "Ann. In [MASK].", "1941")]


def test_texts_are_the_lines_of_a_file_or_of_all_txt_files_below_a_folder(tmp_path: Path):
    (tmp_path / "more").mkdir()
    (tmp_path / "a.txt").write_text("one\n\n two \n")
    (tmp_path / "more" / "b.txt.gz").write_bytes(gzip.compress(b"three"))
    (tmp_path / "readme.md").write_text("not a text")
    assert read_texts(str(tmp_path)) == ["one", "two", "three"]
    assert read_texts(str(tmp_path / "a.txt")) == ["one", "two"]
    (tmp_path / "a.txt").write_bytes(b"fine\n\xff\n")
    with pytest.raises(InputError, match=r"a.txt, line 2 is not UTF-8"):
        read_texts(str(tmp_path))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="There are no texts in"):
        read_texts(str(tmp_path / "empty"))


@pytest.mark.shared
def test_the_real_files_hold_the_published_numbers_of_facts():
    if not REAL.is_dir():
        pytest.skip(f"no data at {REAL}")
    google_re = Counter(fact.relation for fact in read_facts(str(REAL), "google-re"))
    assert google_re == {"place_of_birth": 2937, "date_of_birth": 1825, "place_of_death": 766}
    t_rex = Counter(fact.relation for fact in read_facts(str(REAL), "trex"))  # 28 of the 41 relations are there
    assert (t_rex.total(), len(t_rex), t_rex["P19"]) == (22881, 28, 944)
    assert sum(1 for _ in read_facts(str(REAL), "squad")) == 305
