from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pytest

from infuser.errors import SourceError
from infuser.registry import SOURCES
from infuser.sources import Correlation, Entities, Graph, Phrases
from infuser.sources.storage import load_source, save_source
from infuser.types import Annotations, Source


@dataclass(frozen=True)
class Shouts:
    """Knows nothing; used to see how sources are stored."""

    loud: int = 1

    def annotate(self, texts: Sequence[str]) -> list[Annotations]:
        return [Annotations(text) for text in texts]

    @classmethod
    def tiny(cls) -> Self:
        return cls()


@dataclass(frozen=True)
class OwnForm(Shouts):
    def to_json(self) -> dict[str, Any]:
        return {"volume": self.loud * 10}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        return cls(data["volume"] // 10)


@dataclass(frozen=True)
class OwnFiles(Shouts):
    def save(self, directory: Path) -> None:
        (directory / "loud.json").write_text(json.dumps(self.loud))

    @classmethod
    def load(cls, directory: Path) -> Self:
        return cls(json.loads((directory / "loud.json").read_text()))


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SOURCES, "_classes", dict(SOURCES._classes))  # the tests' own names do not stay
    SOURCES.register("own-form")(OwnForm)
    SOURCES.register("own-files")(OwnFiles)


def no_chunks(text: str) -> Iterable[tuple[int, int]]:
    return []


@pytest.mark.parametrize(
    "source",
    [
        Entities({"Zürich": "city", "東京": "city"}, fold_accents=True, overlaps="keep"),
        Phrases(["near me"], fold_case=False),
        Correlation({("a", "b"): 0.1 + 0.2, ("a", "c"): -1.5}, n_terms=3, minimum=0.1),
        Graph([("a", "r", "b"), ("b", "s", "c", 0.25)], aliases={"a": ["alpha", "A"]}, hops=3, decay=0.3),
    ],
)
def test_every_setting_comes_back(source: Source, tmp_path: Path) -> None:
    record = json.loads(json.dumps(save_source(source, tmp_path)))
    assert load_source(record, tmp_path) == source
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("registered")
def test_a_source_may_have_a_form_of_its_own(tmp_path: Path) -> None:
    assert save_source(OwnForm(7), tmp_path) == {"name": "own-form", "settings": {"volume": 70}}
    assert load_source(save_source(OwnForm(7), tmp_path), tmp_path) == OwnForm(7)


@pytest.mark.usefixtures("registered")
def test_a_source_may_write_files_of_its_own(tmp_path: Path) -> None:
    record = save_source(OwnFiles(7), tmp_path / "new")
    assert record == {"name": "own-files", "files": True}
    assert load_source(record, tmp_path / "new") == OwnFiles(7)
    with pytest.raises(SourceError, match=r"'own-files' cannot be read.*sources="):
        load_source(record, tmp_path / "elsewhere")


@pytest.mark.parametrize("source", [Phrases(chunker=no_chunks), Shouts()])
def test_a_source_that_cannot_be_saved_is_asked_for_when_loading(source: Source, tmp_path: Path) -> None:
    record = json.loads(json.dumps(save_source(source, tmp_path)))
    assert "settings" not in record
    with pytest.raises(SourceError, match=r"could not be saved.*infuser.load\(\.\.\., sources="):
        load_source(record, tmp_path)


def test_the_record_says_which_setting_cannot_be_saved(tmp_path: Path) -> None:
    assert "'chunker'" in save_source(Phrases(chunker=no_chunks), tmp_path)["needs"]


@pytest.mark.parametrize(
    ("record", "says"),
    [
        ({"name": "entites", "settings": {}}, "Did you mean 'entities'"),
        ({"name": "os.system", "settings": {"command": "true"}}, "No source is called 'os.system'"),
        ({"name": "entities"}, "its settings are missing"),
        ({"name": "entities", "settings": {"nammes": []}}, "'entities' cannot be read"),
        ({"name": "entities", "settings": {"names": [""]}}, "1 of 1 entity names are empty"),
        ({"name": "entities", "files": True}, "'entities' cannot be read"),
        ({"settings": {}}, "has no name"),
        ([], "has no name"),
    ],
)
def test_a_damaged_record_is_a_clear_error(record: Any, says: str, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=says):
        load_source(record, tmp_path)
