"""The types and relations that a model tells apart: what sources declare, how many, and that they are kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from miniatures import Repeats, tiny_host, tiny_tokenizer
from tiny_infusions import answer, shake

import infuser
from infuser import Entities, Graph, Types, Vocabulary
from infuser.errors import InputError
from infuser.seals import seal
from infuser.sources import Known, Selective
from infuser.types import OTHER


def test_a_vocabulary_lists_what_each_source_declares_and_other_last() -> None:
    cities = Entities({"Bern": "city", "Geneva": "city", "Aare": "river"}, n_terms=1)
    sources = [Repeats(), cities, Graph([("Aare", "flows through", "Bern")])]
    vocabulary = Vocabulary.of(sources)
    assert vocabulary.types[:2] == ((OTHER,), ("city", "river", OTHER))
    assert vocabulary.relations[0] == (OTHER,)
    assert "flows through" in vocabulary.relations[2]
    assert all(names[-1] == OTHER for names in (*vocabulary.types, *vocabulary.relations))
    assert len(vocabulary.types) == len(vocabulary.relations) == 3 and vocabulary.with_terms
    assert not Vocabulary.of([Repeats()]).with_terms


def test_numbers_are_places_in_the_list_and_what_is_not_listed_is_other() -> None:
    vocabulary = Vocabulary((("city", "river", OTHER),), (("near", OTHER),))
    assert [vocabulary.type_of(0, label) for label in ("city", "river", "lake", "", OTHER)] == [0, 1, 2, 2, 2]
    assert [vocabulary.relation_of(0, name) for name in ("near", "far")] == [0, 1]


def test_rare_types_count_as_other_beyond_the_most_that_are_told_apart() -> None:
    names = {f"{kind}-{number}": kind for kind, many in (("a", 3), ("b", 2), ("c", 1)) for number in range(many)}
    source = Entities(names)
    assert Vocabulary.of([source], max_types=3).types == (("a", "b", OTHER),)
    assert Vocabulary.of([source], max_types=1).types == ((OTHER,),)
    assert Vocabulary.of([source]).types == (("a", "b", "c", OTHER),)
    with pytest.raises(InputError, match="max_types is 0; it must be 1 or more"):
        Vocabulary.of([source], max_types=0)
    infused = infuser.infuse(tiny_host("bert"), Types(), sources=source, max_types=2, tokenizer=tiny_tokenizer("bert"))
    assert infused.vocabulary.types == (("a", OTHER),)
    assert infused.collator().vocabulary == infused.vocabulary


def test_a_type_called_other_is_the_last_one() -> None:
    assert Vocabulary.of([Entities({"x": OTHER, "y": "city"})]).types == (("city", OTHER),)


def test_a_wrapped_source_declares_what_the_one_inside_declares() -> None:
    source = Entities({"Bern": "city"})
    assert Vocabulary.of([Selective(source, Known({"Bern": 0.5}))]) == Vocabulary.of([source])


def test_the_vocabulary_is_saved_and_holds_when_another_source_would_declare_another_order(tmp_path: Path) -> None:
    source = Entities({"Bern": "city", "Geneva": "city", "Aare": "river"}, n_terms=1)
    infused = infuser.infuse(tiny_host("bert"), Types(vectors="both"), sources=source, tokenizer=tiny_tokenizer("bert"))
    shake(infused.model)
    infused.save(tmp_path / "saved")
    card = json.loads((tmp_path / "saved" / "infuser.json").read_text())
    assert card["types"] == [["city", "river", OTHER]] and card["with_terms"] is True
    assert card["relations"] == [list(infused.vocabulary.relations[0])]

    other: dict[str, Any] = {"Rhine": "river", "Aare": "river", "lake": "lake", "Bern": "city"}
    replaced = Entities(other, n_terms=1)
    assert Vocabulary.of([replaced]).types != infused.vocabulary.types
    again = infuser.load(tmp_path / "saved", sources=[replaced])
    assert again.vocabulary == infused.vocabulary
    texts = ["Bern lies on the Aare"]
    with torch.no_grad():
        expected = answer(infused.model, infused.batch(texts))
        assert torch.equal(answer(again.model, again.batch(texts)), expected)
        assert torch.equal(answer(again.model, infused.with_sources([replaced]).batch(texts)), expected)


def test_a_card_from_before_there_were_types_is_read_with_what_its_sources_declare(tmp_path: Path) -> None:
    source = Entities({"Bern": "city"})
    infused = infuser.infuse(tiny_host("bert"), sources=source, tokenizer=tiny_tokenizer("bert"))
    infused.save(tmp_path / "saved")
    path = tmp_path / "saved" / "infuser.json"
    card = json.loads(path.read_text())
    del card["types"], card["relations"]
    path.write_text(json.dumps(card))
    seal(tmp_path / "saved")
    assert infuser.load(tmp_path / "saved").vocabulary == infused.vocabulary
