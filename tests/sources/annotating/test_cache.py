"""Sources that remember: what is asked again, what is not, and what damage does."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Self

import pytest
from sources.annotating.child import SlowWords

from infuser.registry import SOURCES
from infuser.sources import Entities, Graph, Phrases
from infuser.sources.annotating import CachedSource, fingerprint, with_cache
from infuser.sources.annotating.cache import flush_caches
from infuser.sources.annotating.fingerprints import describe
from infuser.types import Annotations, Source

TEXTS = ["Bern lies on the Aare", "New York", "", "nothing", "Bern 🙂 Bern"]


@dataclass(frozen=True)
class Counted(SlowWords):
    """Counts the texts it is asked about."""

    asked: list[str] = field(default_factory=list)

    def annotate(self, texts: Sequence[str]) -> list[Annotations]:
        self.asked.extend(texts)
        return super().annotate(texts)


def fresh(folder: Path) -> tuple[Counted, CachedSource]:
    source = Counted()
    return source, CachedSource(source, folder)


def test_only_what_is_new_is_asked(tmp_path: Path) -> None:
    source, remembered = fresh(tmp_path)
    expected = SlowWords().annotate(TEXTS)
    assert remembered.annotate(TEXTS) == expected and source.asked == TEXTS
    assert remembered.annotate(TEXTS[::-1]) == expected[::-1] and source.asked == TEXTS
    assert remembered.annotate([*TEXTS, "more"])[:5] == expected and source.asked == [*TEXTS, "more"]
    remembered.flush()
    later, again = fresh(tmp_path)
    assert again.annotate([*TEXTS, "new", "new"])[:5] == expected
    assert later.asked == ["new"] and (again.n_known, again.n_asked) == (6, 1)


def test_answers_are_written_when_there_are_many(tmp_path: Path) -> None:
    source, remembered = fresh(tmp_path)
    texts = [f"text {n}" for n in range(5_000)]
    for start in range(0, 5_000, 250):
        remembered.annotate(texts[start : start + 250])
    assert len(list(tmp_path.glob("*.keys"))) == 2  # of 2,250 texts each
    assert remembered.annotate(texts) == SlowWords().annotate(texts) and len(source.asked) == 5_000
    later, again = fresh(tmp_path)
    again.annotate(texts)
    assert later.asked == texts[4_500:]


def test_what_was_written_meanwhile_is_found_before_and_after_sorting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("infuser.sources.annotating.cache._MOST_UNSORTED", 30)
    source, remembered = fresh(tmp_path)
    for start in range(0, 100, 10):
        remembered.annotate([f"text {n}" for n in range(start, start + 10)])
        remembered.flush()
    texts = [f"text {n}" for n in range(100)]
    assert remembered.annotate(texts) == SlowWords().annotate(texts) and len(source.asked) == 100


@pytest.mark.parametrize("ending", ["arrow", "keys"])
@pytest.mark.parametrize("harm", ["cut", "flip"])
def test_a_damaged_entry_is_dropped_with_a_warning_and_asked_again(
    tmp_path: Path, ending: str, harm: str, caplog: pytest.LogCaptureFixture
) -> None:
    _, remembered = fresh(tmp_path)
    expected = remembered.annotate(TEXTS)
    remembered.flush()
    (path,) = tmp_path.glob(f"*.{ending}")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content if harm == "flip" else content[:-3])
    source, again = fresh(tmp_path)
    with caplog.at_level(logging.WARNING):
        assert again.annotate(TEXTS) == expected
    assert source.asked == TEXTS and path.name in caplog.text and "damaged" in caplog.text
    again.flush()
    last, healed = fresh(tmp_path)
    assert healed.annotate(TEXTS) == expected and last.asked == []


def test_a_cache_that_cannot_be_written_does_not_stop_the_work(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("in the way")
    _, remembered = fresh(tmp_path / "file" / "cache")
    with caplog.at_level(logging.WARNING):
        assert remembered.annotate(TEXTS) == SlowWords().annotate(TEXTS)
        remembered.flush()
    assert "not cached" in caplog.text


def test_several_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    def write(number: int) -> None:
        _, remembered = fresh(tmp_path)
        remembered.annotate([f"text {number} {n}" for n in range(20)] + ["shared"])
        remembered.flush()

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    source, remembered = fresh(tmp_path)
    remembered.annotate([f"text {number} {n}" for number in range(8) for n in range(20)] + ["shared"])
    assert source.asked == []
    assert not list(tmp_path.glob(".*"))


def test_a_worker_receives_it_without_what_it_knows(tmp_path: Path) -> None:
    remembered = CachedSource(Entities.tiny(), tmp_path)
    answers = remembered.annotate(TEXTS)
    remembered.flush()
    again = ForkingPickler.loads(ForkingPickler.dumps(remembered))
    assert again.annotate(TEXTS) == answers and again.n_asked == 0
    assert isinstance(again, Source)


def test_a_source_that_cannot_be_written_down_is_asked_every_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    listed, chunked = Entities.tiny(), Phrases(chunker=lambda text: [])
    with caplog.at_level(logging.WARNING):
        kept, plain = with_cache([listed, chunked], tmp_path)
    assert isinstance(kept, CachedSource) and plain is chunked
    assert "phrases" in caplog.text and "not cached" in caplog.text
    assert with_cache([listed], None) == [listed]
    kept.annotate(TEXTS)
    flush_caches([kept, plain])
    assert len(list(tmp_path.rglob("*.keys"))) == 1


def test_sources_that_answer_differently_have_different_fingerprints() -> None:
    sources: list[Source] = [
        Entities(["Bern"]),
        Entities(["Bern"], fold_case=False),
        Entities(["Aare"]),
        Phrases(["Bern"]),
        Graph.tiny(),
    ]
    prints = [fingerprint(source) for source in sources]
    assert None not in prints and len(set(prints)) == 5
    assert fingerprint(Entities(["Bern"])) == prints[0]
    assert fingerprint(Phrases(chunker=lambda text: [])) is None


@SOURCES.register("remembering-test")
@dataclass(frozen=True)
class _FromPlace:
    place: str

    def annotate(self, texts: Sequence[str]) -> list[Annotations]:
        return [Annotations(text) for text in texts]

    @classmethod
    def tiny(cls) -> Self:
        return cls("tiny")


def test_a_path_counts_by_its_content_not_by_its_name(tmp_path: Path) -> None:
    for name, content in (("one", "same"), ("two", "same"), ("three", "other")):
        (tmp_path / name / "deep").mkdir(parents=True)
        (tmp_path / name / "deep" / "weights").write_text(content)
    one, two, three = (fingerprint(_FromPlace(str(tmp_path / name))) for name in ("one", "two", "three"))
    assert one == two != three
    (tmp_path / "two" / "deep" / "weights").rename(tmp_path / "two" / "weights")
    assert fingerprint(_FromPlace(str(tmp_path / "two"))) != one
    assert fingerprint(_FromPlace("no such place")) not in (one, three)


def test_a_package_that_is_named_counts_by_its_version() -> None:
    import numpy

    assert describe(_FromPlace("numpy"))["versions"] == {"numpy": numpy.__version__}
