"""A knowledge base: candidates with vectors, saved, pickled, compared, and enlarged."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.reduction import ForkingPickler  # how a worker of a DataLoader gets it
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infuser import Candidates, Entities, EntityVectors, KnowledgeBase
from infuser.errors import InputError, SourceError
from infuser.knowledge.candidates.store import build_candidates, mentions_of
from infuser.sources.storage import load_source, save_source
from infuser.types import Annotations, Candidate, Span

MENTIONS = {"Bern": {"Q70": 3, "Q1": 1}, "Aare": {"Q2": 1}, "New York": {"Q60": 1}}
IDS = ["Q70", "Q1", "Q2", "Q60"]
TEXTS = ["Bern lies on the Aare.", "from New York to Bern", "nothing"]


def vectors(ids: Sequence[str] = IDS, *, dim: int = 4, seed: int = 0) -> EntityVectors:
    return EntityVectors.of(ids, np.random.default_rng(seed).normal(size=(len(ids), dim)))


def base_in(way: str, folder: Path) -> KnowledgeBase:
    """Return the same base: in memory, or with candidates and vectors in folders."""
    if way == "memory":
        return KnowledgeBase(Candidates(MENTIONS, max_words=3), vectors(), "places")
    candidates = build_candidates(mentions_of(MENTIONS)).save(folder / "candidates")
    return KnowledgeBase(Candidates(candidates, max_words=3), vectors().save(folder / "vectors"), "places")


both_ways = pytest.mark.parametrize("way", ["memory", "folders"])


@both_ways
def test_it_finds_what_its_candidates_find(way: str, tmp_path: Path) -> None:
    base = base_in(way, tmp_path)
    assert base.annotate(TEXTS) == Candidates(MENTIONS).annotate(TEXTS)
    assert (base.dim, base.name, len(base.store)) == (4, "places", 4)
    [found, *_] = base.annotate(TEXTS)
    rows, priors = base.look_up(found.candidates[0])
    assert [base.store.id_of(row) for row in rows.tolist()] == ["Q70", "Q1"]
    assert priors.tolist() == [0.75, 0.25]


@both_ways
def test_it_is_saved_and_loaded(way: str, tmp_path: Path) -> None:
    base = base_in(way, tmp_path)
    record = json.loads(json.dumps(save_source(base, tmp_path / "saved")))
    again = load_source(record, tmp_path / "saved")
    assert again == base and isinstance(again, KnowledgeBase)
    assert again.annotate(TEXTS) == base.annotate(TEXTS)
    assert np.array_equal(again.store.take(range(4)), base.store.take(range(4)))
    assert (tmp_path / "saved" / "vectors").exists() is (way == "memory")  # folders are named, not copied
    # and once more from what was loaded
    record = save_source(again, tmp_path / "twice")
    assert load_source(record, tmp_path / "twice") == base


@pytest.mark.parametrize("part", ["vectors", "candidates"])
def test_a_folder_that_moved_or_changed_is_told(part: str, tmp_path: Path) -> None:
    base = base_in("folders", tmp_path)
    record = save_source(base, tmp_path / "saved")
    shutil.move(tmp_path / part, tmp_path / "elsewhere")
    with pytest.raises(SourceError, match=f"There is no {part} folder at .*{part}"):
        load_source(record, tmp_path / "saved")
    if part == "vectors":
        vectors(seed=1).save(tmp_path / part)
    else:
        build_candidates(mentions_of({"Bern": {"Q1": 9}})).save(tmp_path / part)
    with pytest.raises(SourceError, match="holds something else now"):
        load_source(record, tmp_path / "saved")


@both_ways
def test_it_travels_to_other_processes(way: str, tmp_path: Path) -> None:
    base = base_in(way, tmp_path)
    found = base.annotate(TEXTS)
    base.look_up(found[0].candidates[0])
    sent = bytes(ForkingPickler.dumps(base))
    arrived = ForkingPickler.loads(sent)
    assert arrived == base and arrived.annotate(TEXTS) == found
    assert (b"Q70" in sent) is (way == "memory")  # the worker opens folders itself


def test_bases_are_equal_if_they_know_the_same() -> None:
    base = KnowledgeBase(Candidates(MENTIONS), vectors())
    assert base == KnowledgeBase(Candidates(MENTIONS), vectors())
    for other in (
        KnowledgeBase(Candidates(MENTIONS), vectors(), "places"),
        KnowledgeBase(Candidates(MENTIONS), vectors(), missing="skip"),
        KnowledgeBase(Candidates({"Bern": {"Q70": 1}}), vectors()),
        KnowledgeBase(Candidates(MENTIONS), vectors(seed=1)),
        KnowledgeBase(Candidates(MENTIONS), vectors([*IDS, "Q5"])),
        KnowledgeBase(Candidates(MENTIONS), vectors(IDS[::-1])),
        KnowledgeBase(Candidates(MENTIONS), vectors(dim=3)),
        "a string",
    ):
        assert base != other


@both_ways
def test_it_learns_further_entities_without_being_changed(way: str, tmp_path: Path) -> None:
    base = base_in(way, tmp_path)
    new = {"Genf": {"Q71": 2}, "Bern": {"Q71": 4}, "Aare river": {"Q2": 1}}
    out = None if way == "memory" else tmp_path / "larger"
    if out is not None:
        with pytest.raises(SourceError, match="name a folder"):
            base.with_entities(new, ["Q71"], np.ones((1, 4)))
    larger = base.with_entities(new, ["Q71"], np.ones((1, 4)), out=out)
    assert (larger.name, larger.missing, len(larger.store), len(base.store)) == ("places", "error", 5, 4)
    [found] = larger.annotate(["from Genf to Bern and the Aare river"])
    by_place = {(span.start, span.end): means for span, means in zip(found.spans, found.candidates, strict=True)}
    assert by_place[(5, 9)] == (Candidate("Q71", 1.0),)
    assert by_place[(13, 17)] == (Candidate("Q71", 0.5), Candidate("Q70", 0.375), Candidate("Q1", 0.125))
    assert (26, 36) in by_place
    assert larger.candidates.max_words == 3  # type: ignore[attr-defined]
    rows, _ = larger.look_up(by_place[(5, 9)])
    assert larger.store.take(rows).tolist() == [[1.0, 1.0, 1.0, 1.0]]
    assert base.annotate(["Genf"])[0].spans == ()
    record = save_source(larger, tmp_path / "saved")
    assert load_source(record, tmp_path / "saved") == larger


def test_further_entities_need_mentions_and_vectors_that_fit() -> None:
    base = KnowledgeBase(Candidates(MENTIONS), vectors())
    with pytest.raises(InputError, match="have a vector already; the first is 'Q70'"):
        base.with_entities({"Bern": {"Q70": 1}}, ["Q70"], np.ones((1, 4)))
    with pytest.raises(InputError, match="3 numbers each, the old ones 4"):
        base.with_entities({"Genf": {"Q71": 1}}, ["Q71"], np.ones((1, 3)))
    other = KnowledgeBase(Fixed(()), vectors())
    with pytest.raises(SourceError, match="Fixed cannot take further mentions"):
        other.with_entities({"Genf": {"Q71": 1}}, ["Q71"], np.ones((1, 4)))


def test_check_tells_how_many_entities_have_a_vector() -> None:
    candidates = Candidates(MENTIONS)
    assert KnowledgeBase(candidates, vectors()).check() == 1.0
    assert KnowledgeBase(candidates, vectors(["Q70", "Q1", "Q2"]), missing="skip").check() == 0.75
    with pytest.raises(SourceError, match=r"1 of 4 entities .*'Q60' is not among its 3 vectors"):
        KnowledgeBase(candidates, vectors(["Q70", "Q1", "Q2"])).check()
    for missing in ("error", "skip"):  # not one: these are vectors of something else
        with pytest.raises(SourceError, match=r"4 of 4 entities .*the first is of 'Bern'"):
            KnowledgeBase(candidates, vectors(["Bern"]), missing=missing).check()  # type: ignore[arg-type]


@dataclass(frozen=True)
class Fixed:
    """Offers the same candidates for "Bern" in every text, and a mention "the" without any."""

    candidates: tuple[Candidate, ...]

    def annotate(self, texts: Sequence[str]) -> list[Annotations]:
        spans = (Span(0, 4, "city", "first"), Span(5, 8, "word", "second"))
        return [Annotations(text, spans, candidates=(self.candidates, ())) for text in texts]

    @classmethod
    def tiny(cls) -> Fixed:
        return cls(())


def test_candidates_without_a_vector_are_left_out_when_told_to() -> None:
    offered = (Candidate("Q9", 0.5), Candidate("Q1", 0.3), Candidate("Q2", 0.2))
    with pytest.raises(SourceError, match="'Q9' is not among its 4 vectors"):
        KnowledgeBase(Fixed(offered), vectors()).annotate(["Bern the"])
    [found] = KnowledgeBase(Fixed(offered), vectors(), missing="skip").annotate(["Bern the"])
    assert found.spans == (Span(0, 4, "city", "Q1"), Span(5, 8, "word", "second"))
    assert [candidate.id for candidate in found.candidates[0]] == ["Q1", "Q2"]
    assert [candidate.prior for candidate in found.candidates[0]] == pytest.approx([0.6, 0.4])
    # a mention that loses all goes; one for which nothing was offered stays as it would beside any other
    [found] = KnowledgeBase(Fixed(offered[:1]), vectors(), missing="skip").annotate(["Bern the"])
    assert found.spans == (Span(5, 8, "word", "second"),) and found.candidates == ((),)
    [found] = KnowledgeBase(Fixed(()), vectors(), missing="skip").annotate(["Bern the"])
    assert len(found.spans) == 2 and found.candidates == ((), ())


@pytest.mark.parametrize(
    ("offered", "said"),
    [
        ([("Q1", 0.0), ("Q2", 1.0)], "'Q1' with the prior 0.0"),
        ([("Q1", float("nan"))], "prior nan"),
        ([("Q1", -1.0)], "prior -1.0"),
        ([("Q1", 0.5), ("Q2", 0.2), ("Q1", 0.3)], r"'Q1' .*2 time\(s\)"),
    ],
)
def test_candidates_that_cannot_be_weighed_are_refused(offered: list[tuple[str, float]], said: str) -> None:
    source = Fixed(tuple(Candidate(*one) for one in offered))
    with pytest.raises(SourceError, match=said):
        KnowledgeBase(source, vectors()).annotate(["Bern the"])


def test_a_prior_too_small_for_float32_is_still_a_candidate() -> None:
    offered = (Candidate("Q1", 1.0), Candidate("Q2", 1e-60))
    _, priors = KnowledgeBase(Fixed(offered), vectors()).look_up(offered)
    assert (priors > 0).all()


def test_it_forgets_when_it_remembers_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("infuser.sources.knowledge_base._MOST_CACHED", 2)
    base = KnowledgeBase(Candidates(MENTIONS), vectors())
    for _ in range(2):
        for id in IDS:
            rows, priors = base.look_up((Candidate(id, 1.0),))
            assert [base.store.id_of(row) for row in rows.tolist()] == [id] and priors.tolist() == [1.0]
        assert len(base._known) <= 2


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"name": "my base"}, "'my base'"),
        ({"name": ""}, "letters, digits"),
        ({"name": "a.b"}, "'a.b'"),
        ({"missing": "ignore"}, "'ignore'"),
        ({"candidates": MENTIONS}, "give a source"),
        ({"vectors": "no/such/folder"}, "no vectors folder"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(SourceError, match=said):
        KnowledgeBase(**{"candidates": Candidates(MENTIONS), "vectors": vectors(), **settings})


def test_a_source_that_offers_no_candidates_is_refused_when_it_finds_something() -> None:
    base = KnowledgeBase(Entities({"Bern": "city"}), vectors())
    with pytest.raises(SourceError, match="needs a source of candidates"):
        base.annotate(TEXTS)
