"""`annotate`: the same bytes however it is made, what it refuses, what it notices."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.reduction import ForkingPickler  # how a DataLoader hands a data set to its workers
from pathlib import Path
from typing import Any, Self

import pytest
from sources.annotating.child import SlowWords, files_of

from infuser import registry
from infuser.errors import InfuserError, InputError, SourceError
from infuser.sources import Correlation, Entities, Graph
from infuser.sources.annotating import Annotated, annotate, read_annotations, shards
from infuser.types import Annotations, join_pair

WORDS = ["Bern", "lies on", "Aare", "far", "New York", "buy", "glipizide", "in a", "pharmacy", "🙂", "Zürich"]
SOURCES = [Entities.tiny(), Graph.tiny(), Correlation({("buy", "pharmacy"): 2.0, ("buy", "shop"): 1.0}, n_terms=1)]


def make_examples(n: int, seed: int = 0) -> list[dict[str, Any]]:
    chance = random.Random(seed)
    return [
        {
            "text": " ".join(chance.choices(WORDS, k=8)),
            "pair": " ".join(chance.choices(WORDS, k=4)) if chance.random() < 0.5 else None,
        }
        for _ in range(n)
    ]


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "TEXTS", 40)


def test_every_text_is_there_in_order_with_what_each_source_says(tmp_path: Path) -> None:
    examples = make_examples(130)
    annotated = annotate(examples, SOURCES, tmp_path / "out")
    joined = [join_pair(example["text"], example["pair"]) for example in examples]
    expected = list(zip(*(source.annotate(joined) for source in SOURCES), strict=True))
    assert len(annotated) == 130 and annotated.source_names == ["entities", "graph", "correlation"]
    assert [dict(example) for example in annotated] == [
        {**example, "annotations": found} for example, found in zip(examples, expected, strict=True)
    ]
    assert annotated[-1]["text"] == examples[-1]["text"] and annotated.annotations(45) == expected[45]
    assert [len(batch) for batch in read_annotations(tmp_path / "out").batches(64)] == [64, 64, 2]
    assert sum(shard.num_rows for shard in annotated.shards()) == 130
    with pytest.raises(IndexError):
        annotated[130]


def test_the_number_of_workers_and_the_cache_change_no_byte(tmp_path: Path) -> None:
    examples = make_examples(130)
    annotate(examples, SOURCES, tmp_path / "alone")
    expected = files_of(tmp_path / "alone")
    assert sorted(expected) == ["about.json", "frequencies.arrow", *(f"shard-{n:05d}.arrow" for n in range(4))]
    annotate(examples, SOURCES, tmp_path / "team", workers=2, cache=tmp_path / "cache")
    annotate(examples, SOURCES, tmp_path / "known", cache=tmp_path / "cache")
    assert files_of(tmp_path / "team") == files_of(tmp_path / "known") == expected


def test_long_texts_make_smaller_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "CHARACTERS", 100)
    annotated = annotate(["Bern " * 15] * 5, SOURCES[:1], tmp_path / "out")
    assert [shard["n_texts"] for shard in annotated.about["shards"]] == [2, 2, 1]


def test_a_finished_run_asks_nothing_again(tmp_path: Path) -> None:
    examples = make_examples(90)
    annotate(examples, [SlowWords()], tmp_path / "out")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("shard-*")}
    told: list[tuple[int, int]] = []
    annotate(examples, [SlowWords()], tmp_path / "out", progress=lambda done, of: told.append((done, of)))
    assert told == [(90, 90)]
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("shard-*")} == before


def test_a_run_that_failed_goes_on_where_it_stopped(tmp_path: Path) -> None:
    examples = make_examples(130)
    annotate(examples, [SlowWords()], tmp_path / "whole")
    failing = _FailsOnce(fails_at=3)
    with pytest.raises(RuntimeError, match="the third"):
        annotate(examples, [failing], tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        *("progress.json", "shard-00000.arrow", "shard-00000.json", "shard-00001.arrow", "shard-00001.json")
    ]
    with pytest.raises(SourceError, match="not finished"):
        Annotated(tmp_path / "out")
    told: list[int] = []
    again = annotate(examples, [_FailsOnce(fails_at=99)], tmp_path / "out", progress=lambda done, of: told.append(done))
    assert told[0] == 80 and told[-1] == 130
    assert [one["annotations"][0].spans for one in again] == [
        one["annotations"][0].spans for one in Annotated(tmp_path / "whole")
    ]


def test_a_kill_just_before_the_end_is_mended_too(tmp_path: Path) -> None:
    examples, out = make_examples(90), tmp_path / "out"
    records: dict[str, bytes] = {}

    def keep(done: int, of: int) -> None:
        records.update((path.name, path.read_bytes()) for path in out.glob("*.json"))

    annotate(examples, SOURCES, out, progress=keep)
    whole = files_of(out)
    assert "progress.json" in records
    for name, content in records.items():
        (out / name).write_bytes(content)
    (out / "shard-00002.json").write_bytes(b'{"number": 2, "fi')  # half written by a disk that was full
    (out / ".about.json.77.part").write_text("{")
    annotate(examples, SOURCES, out)
    assert files_of(out) == whole


@registry.SOURCES.register("fails-once")
class _FailsOnce(SlowWords):
    """Fails when asked for the n-th time; not part of its settings, so that both runs have one fingerprint."""

    def __init__(self, fails_at: int) -> None:
        super().__init__()
        object.__setattr__(self, "fails_at", fails_at)
        object.__setattr__(self, "n_asked", 0)

    def annotate(self, texts: Sequence[str]) -> list[Annotations]:
        object.__setattr__(self, "n_asked", self.n_asked + 1)  # type: ignore[attr-defined]
        if self.n_asked == self.fails_at:  # type: ignore[attr-defined]
            raise RuntimeError("the third")
        return super().annotate(texts)


def test_another_input_or_source_is_refused_and_restart_helps(tmp_path: Path) -> None:
    examples, out = make_examples(50), tmp_path / "out"
    annotate(examples, SOURCES[:1], out)
    before = files_of(out)
    with pytest.raises(InputError, match=r"input\.sha256 was .*--restart"):
        annotate(make_examples(50, seed=1), SOURCES[:1], out)
    with pytest.raises(InputError, match=r"sources\.0\.fingerprint was .*another --out"):
        annotate(examples, [Entities(["Bern"])], out)
    assert files_of(out) == before
    assert annotate(make_examples(50, seed=1), SOURCES[:1], out, restart=True)[0]["text"] != examples[0]["text"]
    annotate(examples, SOURCES[:1], out, restart=True)
    assert files_of(out) == before


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    for restart in (False, True):
        with pytest.raises(InputError, match=r"thesis\.txt"):
            annotate(["Bern"], SOURCES[:1], tmp_path, restart=restart)
    assert files_of(tmp_path) == {"thesis.txt": b"years of work"}


@pytest.mark.parametrize(
    "name", [".thesis.part", ".about.json.old.part", "shard-new.arrow", "shard-00000.arrow/thesis"]
)
def test_files_that_only_look_like_ours_are_left_alone(tmp_path: Path, name: str) -> None:
    theirs = tmp_path / name
    theirs.parent.mkdir(exist_ok=True)
    theirs.write_text("years of work")
    for restart in (False, True):
        with pytest.raises(InputError, match=name.split("/")[0]):
            annotate(["Bern"], SOURCES[:1], tmp_path, restart=restart)
    assert theirs.read_text() == "years of work"


def test_going_on_clears_what_a_killed_run_left_and_nothing_else(tmp_path: Path) -> None:
    annotate(["Bern"], SOURCES[:1], tmp_path)
    (tmp_path / ".shard-00000.arrow.77.part").write_text("half")
    (tmp_path / ".thesis.part").write_text("years of work")
    annotate(["Bern"], SOURCES[:1], tmp_path)
    assert sorted(path.name for path in tmp_path.glob(".*")) == [".thesis.part"]


def test_a_run_that_finished_nothing_blocks_nobody(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="I refuse"):
        annotate(["Bern"], [_Refuses()], tmp_path)
    assert annotate(["Aare"], SOURCES[:1], tmp_path)[0]["text"] == "Aare"


@pytest.mark.parametrize("content", ["", "{", "[]", '{"kind": "annotations", "digest": "no"}'])
def test_restart_helps_when_the_record_is_damaged(tmp_path: Path, content: str) -> None:
    annotate(["Bern"], SOURCES[:1], tmp_path)
    whole = files_of(tmp_path)
    (tmp_path / "about.json").write_text(content)
    with pytest.raises(InputError, match=r"about\.json is damaged.*--restart"):
        annotate(["Bern"], SOURCES[:1], tmp_path)
    annotate(["Bern"], SOURCES[:1], tmp_path, restart=True)
    assert files_of(tmp_path) == whole


@pytest.mark.parametrize("file", ["about.json", "shard-00001.arrow", "frequencies.arrow"])
@pytest.mark.parametrize("harm", ["cut", "flip", "remove"])
def test_a_damaged_file_is_named_and_never_believed(tmp_path: Path, file: str, harm: str) -> None:
    examples, out = make_examples(90), tmp_path / "out"
    annotate(examples, SOURCES, out)
    whole = files_of(out)
    path = out / file
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    if harm == "remove":
        path.unlink()
    else:
        path.write_bytes(content if harm == "flip" else content[:-7])
    with pytest.raises(SourceError, match=file):
        _read_all(out)
    if file != "about.json":  # a shard is made again, and only that
        annotate(examples, SOURCES, out)
        assert files_of(out) == whole


def _read_all(out: Path) -> None:
    annotated = Annotated(out)
    assert [len(example["annotations"]) for example in annotated]
    assert len(annotated.frequencies())


def test_every_flipped_byte_of_a_shard_is_noticed(tmp_path: Path) -> None:
    annotate(make_examples(3), SOURCES, tmp_path)
    path = tmp_path / "shard-00000.arrow"
    content = path.read_bytes()
    for at in range(0, len(content), 97):
        path.write_bytes(content[:at] + bytes([content[at] ^ 16]) + content[at + 1 :])
        with pytest.raises(SourceError, match="shard-00000"):
            Annotated(tmp_path)[0]


@pytest.mark.slow
def test_a_worker_that_dies_is_one_clear_error_and_the_rest_stays(tmp_path: Path) -> None:
    texts = [*(f"text {n}" for n in range(100)), "poison", *(f"more {n}" for n in range(50))]
    with pytest.raises(InfuserError, match=r"killed by signal 9.*memory.*run the same again"):
        annotate(texts, [SlowWords()], tmp_path / "out", workers=2)
    assert not (tmp_path / "out" / "about.json").exists()
    assert (tmp_path / "out" / "progress.json").exists()


@dataclass(frozen=True)
class _Refuses:
    why: str = "no"

    def annotate(self, texts: Sequence[str]) -> list[Annotations]:
        raise SourceError(f"I refuse: {self.why}")

    @classmethod
    def tiny(cls) -> Self:
        return cls()


@pytest.mark.slow
def test_an_error_in_a_worker_arrives_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="I refuse: no") as caught:
        annotate(["Bern"], [_Refuses()], tmp_path / "out", workers=1)
    assert "annotate_rows" in "".join(caught.value.__notes__)


def test_a_source_that_cannot_travel_is_refused_before_the_work(tmp_path: Path) -> None:
    from infuser.sources import Phrases

    with pytest.raises(InputError, match="worker processes"):
        annotate(["Bern"], [Phrases(chunker=lambda text: [])], tmp_path / "out", workers=1)


def test_a_source_that_cannot_be_written_down_is_not_mixed_with_an_earlier_run(tmp_path: Path) -> None:
    from infuser.sources import Phrases

    source = Phrases(chunker=lambda text: [(0, 4)])
    annotated = annotate(["Bern"], [source], tmp_path / "out")
    assert annotated.about["made_with"]["sources"] == [{"name": "phrases", "fingerprint": None}]
    with pytest.raises(InputError, match="cannot be written down"):
        annotate(["Bern"], [source], tmp_path / "out")


@pytest.mark.parametrize(
    ("examples", "said"),
    [
        ([], "no texts"),
        (iter(["Bern"]), "only once"),
        (["Bern", 7], "Example 1 .* int"),
        ([{"words": "Bern"}], "Example 0 .* NoneType"),
        (["Bern \ud83d"], "lone surrogate"),
    ],
)
def test_an_input_that_cannot_be_used_is_explained(examples: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        annotate(examples, SOURCES, tmp_path / "out")


def test_an_input_that_changes_while_it_is_read_is_noticed(tmp_path: Path) -> None:
    class Growing:
        n_read = 0

        def __iter__(self) -> Any:
            self.n_read += 1
            return iter([f"Bern {n}" for n in range(self.n_read)])

    growing = Growing()
    iter(growing)
    with pytest.raises(InputError, match="changed while it was read"):
        annotate(growing, SOURCES[:1], tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_two_runs_do_not_write_to_one_folder_at_once(tmp_path: Path) -> None:
    class Nested(SlowWords):
        def annotate(self, texts: Sequence[str]) -> list[Annotations]:
            with pytest.raises(InputError, match="Another process is writing"):
                annotate(["Bern"], SOURCES[:1], tmp_path / "out")
            return super().annotate(texts)

    assert len(annotate(["Bern"], [Nested()], tmp_path / "out")) == 1


def test_workers_of_a_data_loader_receive_the_path_only(tmp_path: Path) -> None:
    annotated = annotate(make_examples(90), SOURCES, tmp_path / "out").with_labels(list(range(90)))
    assert annotated[3]["annotations"]
    message = bytes(ForkingPickler.dumps(annotated))
    again = ForkingPickler.loads(message)
    assert len(message) < 2_000 and [dict(one) for one in again] == [dict(one) for one in annotated]
    assert again[41]["label"] == 41
    with pytest.raises(InputError, match=r"90 texts .* 3 labels"):
        annotated.with_labels([1, 2, 3])


def test_no_file_stays_open_however_many_shards_there_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "TEXTS", 2)
    annotated = annotate(make_examples(120), SOURCES[:1], tmp_path / "out")
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
    assert len([example["annotations"] for example in annotated]) == 120
    assert before == 0 or len(os.listdir("/proc/self/fd")) <= before + 2


def test_the_folder_says_what_it_was_made_with(tmp_path: Path) -> None:
    annotate(["Bern", "Aare"], SOURCES[:1], tmp_path / "out", about={"data": "texts.csv"})
    about = json.loads((tmp_path / "out" / "about.json").read_text(encoding="utf-8"))
    assert about["kind"] == "annotations" and about["n_texts"] == 2 and about["about"] == {"data": "texts.csv"}
    assert about["records"][0]["settings"]["names"]["Bern"] == "city"
    assert about["made_with"]["input"]["n_texts"] == 2
