"""One exported classifier for the tests of the runtime: tracing takes seconds."""

from __future__ import annotations

from pathlib import Path

import pytest
from miniatures import tiny_host, tiny_tokenizer
from tiny_infusions import shake

from infuser import Entities, Infused, Kam, infuse

NAMES = {"bridge": "building", "river": "water", "old town": "place", "glipizide": "drug"}


@pytest.fixture(scope="session")
def infused() -> Infused:
    host = tiny_host("bert", "sequence-classification", num_hidden_layers=1)
    infused = infuse(host, Kam(), sources=[Entities(NAMES)], tokenizer=tiny_tokenizer("bert"))
    shake(infused.model)
    return infused


@pytest.fixture(scope="session")
def folder(infused: Infused, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The exported form of the classifier."""
    folder = tmp_path_factory.mktemp("exported") / "model"
    infused.export(folder)
    return folder
