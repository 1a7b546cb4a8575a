from __future__ import annotations

from pathlib import Path

import pytest

from infuser.errors import SourceError
from infuser.knowledge.names.store import Name, NameStore
from infuser.sources import Entities
from infuser.sources.storage import load_source, save_source
from infuser.types import Span

NAMES = ["Bern", "Zürich", "Zurich Airport", "bern"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    store = NameStore.build(NAMES, ["city", "city", "airport", "bear"], ["Q70", "Q72", "Q15", "b1"], fold_accents=True)
    return store.save(tmp_path / "names")


def test_a_folder_finds_what_the_list_finds(folder: Path) -> None:
    opened = NameStore.open(folder)
    texts = ["From BERN to zürich airport", "Zurich", "nothing"]
    built = NameStore.build(NAMES, fold_accents=True).gazetteer
    assert opened.gazetteer.find(texts) == built.find(texts)
    assert [mention.names for mention in opened.gazetteer.find(texts)[0]] == [(0, 3), (2,)]
    assert [opened.name(number) for number in (0, 2)] == [
        Name("Bern", "city", "Q70"),
        Name("Zurich Airport", "airport", "Q15"),
    ]
    assert len(opened) == 4


def test_names_without_ids_are_their_own(tmp_path: Path) -> None:
    NameStore.build(["Bern"]).save(tmp_path / "names")
    assert NameStore.open(tmp_path / "names").name(0) == Name("Bern", "entity", "Bern")


def test_entities_of_a_folder_carry_its_labels_ids_and_folding(folder: Path) -> None:
    source = Entities(folder)
    assert source.fold_accents
    [found] = source.annotate(["bern Bern ZURICH"])
    assert found.spans == (Span(0, 4, "bear", "b1"), Span(5, 9, "city", "Q70"), Span(10, 16, "city", "Q72"))


def test_a_saved_source_names_its_folder_and_refuses_another_one(folder: Path, tmp_path: Path) -> None:
    record = save_source(Entities(str(folder)), tmp_path / "unused")
    assert load_source(record, tmp_path).annotate(["Bern"]) == Entities(folder).annotate(["Bern"])
    NameStore.build(["Basel"]).save(folder)
    with pytest.raises(SourceError, match="holds something else now than when it was saved"):
        load_source(record, tmp_path)
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    with pytest.raises(SourceError, match="There is no gazetteer folder"):
        load_source(record, tmp_path)
