"""In how many texts an entity is mentioned: counted against a count by hand, for one source and for all."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from infuser.errors import InputError
from infuser.sources import Entities
from infuser.sources.annotating import annotate, frequencies, read_frequencies, shards
from infuser.types import Source

NAMES = ["Bern", "Aare", "New York", "Zürich", "Genève", "🙂"]


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(shards, "TEXTS", 30)
    monkeypatch.setattr(frequencies, "_MOST_ROWS", 10)  # so that sums of sums happen
    chance = random.Random(0)
    return [" and ".join(chance.choices([*NAMES, "nothing"], k=chance.randrange(1, 6))) for _ in range(200)]


def test_counts_are_those_of_a_count_by_hand(texts: list[str], tmp_path: Path) -> None:
    sources: list[Source] = [Entities(NAMES[:4]), Entities(NAMES[2:])]
    annotate(texts, sources, tmp_path)
    found = [source.annotate(texts) for source in sources]
    for place in (0, 1):
        n_texts = Counter(id for one in found[place] for id in {span.id for span in one.spans})
        n_mentions = Counter(span.id for one in found[place] for span in one.spans)
        read = read_frequencies(tmp_path, place)
        assert dict(read) == dict(n_texts) and len(read) == 4 and read.n_texts == 200
        assert {id: read.mentions(id) for id in read} == dict(n_mentions)
    both = read_frequencies(tmp_path)
    either = Counter(
        id for one, other in zip(*found, strict=True) for id in {span.id for span in (*one.spans, *other.spans)}
    )
    assert dict(both) == dict(either)
    assert both["New York"] == read_frequencies(tmp_path, 0)["New York"]  # a text counts once, found by whomever
    assert both.counts(["Bern", "unheard of", "🙂"]).tolist() == [either["Bern"], 0, either["🙂"]]
    assert both.get("unheard of", 0) == 0 and both.mentions("unheard of") == 0 and "Bern" in both
    ranked = sorted(either, key=lambda id: (-either[id], -both.mentions(id), id))
    assert [count.id for count in both.most_frequent(3)] == ranked[:3]


def test_spans_without_an_id_are_no_entities(tmp_path: Path) -> None:
    from infuser.sources import Phrases

    read = annotate(["near me"], [Phrases(["near me"])], tmp_path).frequencies()
    assert len(read) == 0 and list(read) == [] and read.counts(["near me"]).tolist() == [0]
    assert read.most_frequent(5) == []


def test_a_source_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    annotated = annotate(["Bern"], [Entities(["Bern"])], tmp_path)
    with pytest.raises(InputError, match="no source 1"):
        annotated.frequencies(1)
