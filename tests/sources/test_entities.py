from __future__ import annotations

from pathlib import Path

import pytest

from infuser.errors import SourceError
from infuser.knowledge.names.store import NameStore
from infuser.sources import Entities
from infuser.types import Annotations, Link, Span


def test_mentions_carry_label_and_id_and_tie_their_own_words() -> None:
    source = Entities({"Bern": "city", "New York": "city"})
    text = "From bern to New York"
    assert source.annotate([text]) == [
        Annotations(
            text,
            (Span(5, 9, label="city", id="Bern"), Span(13, 21, label="city", id="New York")),
            (Link(0, 0), Link(1, 1)),
        )
    ]


def test_names_without_labels_are_entities() -> None:
    assert Entities(["Bern"]).annotate(["Bern"])[0].spans == (Span(0, 4, label="entity", id="Bern"),)


def test_duplicate_names_are_one_name() -> None:
    assert Entities(["Bern", " Bern", "Bern"]) == Entities(["Bern"])
    assert len(Entities(["Bern", "bern", "BERN"]).annotate(["Bern"])[0].spans) == 1


def test_of_names_alike_the_one_spelled_like_the_text_wins_otherwise_the_first() -> None:
    source = Entities({"us": "pronoun", "US": "country"}, stop_words=())
    assert [span.label for span in source.annotate(["us US Us"])[0].spans] == ["pronoun", "country", "pronoun"]


def test_overlapping_names_are_kept_when_asked() -> None:
    names = ["New York", "York Times", "New York Times"]
    text = "New York Times"
    assert [span.id for span in Entities(names).annotate([text])[0].spans] == ["New York Times"]
    kept = Entities(names, overlaps="keep").annotate([text])[0]
    assert [span.id for span in kept.spans] == ["New York", "New York Times", "York Times"]
    assert [(link.source, link.target) for link in kept.links] == [(0, 0), (1, 1), (2, 2)]


def test_an_empty_list_finds_nothing() -> None:
    assert Entities([]).annotate(["Bern"]) == [Annotations("Bern")]


def test_later_changes_of_the_given_list_do_not_reach_the_source() -> None:
    names = {"Bern": "city"}
    source = Entities(names)
    names["Aare"] = "river"
    assert source.annotate(["Aare"])[0].spans == ()


def test_empty_names_and_wrong_settings_are_refused() -> None:
    with pytest.raises(SourceError, match="1 of 2 entity names are empty or blank, the first is number 2"):
        Entities({"Bern": "city", " ": "nothing"})
    with pytest.raises(SourceError, match="entity labels are no text, for example 3"):
        Entities({"Bern": 3})  # type: ignore[dict-item]
    with pytest.raises(SourceError, match="given as one string"):
        Entities("Bern")
    with pytest.raises(SourceError, match="'longest' or 'keep'"):
        Entities(["Bern"], overlaps="drop")  # type: ignore[arg-type]


def test_a_damaged_folder_is_named(tmp_path: Path) -> None:
    folder = NameStore.build(["Bern"]).save(tmp_path / "names")
    (folder / "about.json").write_text("no JSON")
    for given in (folder, str(folder)):
        with pytest.raises(SourceError, match=r"about\.json is damaged"):
            Entities(given)


def test_the_types_of_a_list_are_its_labels_the_most_frequent_first(tmp_path: Path) -> None:
    names = {"Aare": "river", "Bern": "city", "Thun": "city", "NZZ": "newspaper"}
    assert Entities(names).span_types == ("city", "river", "newspaper")
    folder = NameStore.build(list(names), list(names.values())).save(tmp_path / "names")
    assert Entities(folder).span_types == ("city", "river", "newspaper")
    assert Entities(["Bern"]).span_types == ("entity",)
