"""The examples of a cell: chosen once for all seeds, with knowledge in the right places."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from experiments.small_bench import write_bench

from infuser import Entities, Kam
from infuser.errors import InputError
from infuser.experiments.arm import Arm, source_digests
from infuser.experiments.data import Annotator, Data, annotate_part, shuffle_part
from infuser.experiments.grid import make_sources, make_task, read_data
from infuser.experiments.settings import Bench, TaskEntry, read_bench
from infuser.tasks.base import Example, Split, Task
from infuser.types import Annotations, Source

PARTS = ("train", "dev", "test")
NAMES = Entities(["Bern", "Rome", "Oslo", "Paris"])


@dataclass(frozen=True)
class Numbers(Task):
    """Forty examples in train, ten in dev."""

    def read(self, split: Split) -> list[Example]:
        return [{"text": f"text {n}", "label": n % 2} for n in range({"train": 40, "dev": 10, "test": 5}[split])]


def entry(**settings: Any) -> TaskEntry:
    return TaskEntry("numbers", "numbers", {}, **settings)


def texts(examples: Sequence[Example]) -> set[str]:
    return {example["text"] for example in examples}


def test_what_is_held_out_is_not_trained_on_and_always_the_same() -> None:
    data = read_data(Numbers(""), entry(hold_out=0.25))
    assert len(data.dev) == 10 and len(data.train) == 30 and len(data.test) == 10
    assert not texts(data.train) & texts(data.dev)
    assert read_data(Numbers(""), entry(hold_out=10)) == data


def test_fewer_examples_are_a_part_of_more_and_leave_the_held_out_alone() -> None:
    many, few = (read_data(Numbers(""), entry(hold_out=10, n_train=n)) for n in (20, 5))
    assert texts(few.train) < texts(many.train) and few.dev == many.dev and len(few.train) == 5


def test_part_of_the_scored_split_is_the_same_for_all(tmp_path: Path) -> None:
    scored = read_data(Numbers(""), entry(n_score=4)).test
    assert len(scored) == 4 and scored == read_data(Numbers(""), entry(n_score=4, hold_out=3)).test


@dataclass(frozen=True)
class Grouped(Numbers):
    """Five examples belong together."""

    def held_out_groups(self, examples: Sequence[Example]) -> list[int]:
        return [at // 5 for at in range(len(examples))]


def test_groups_are_held_out_whole() -> None:
    data = read_data(Grouped(""), entry(hold_out=10))
    groups = [{int(one["text"].split()[1]) // 5 for one in part} for part in (data.train, data.dev)]
    assert not groups[0] & groups[1] and len(groups[1]) == 2


def test_holding_out_everything_is_refused() -> None:
    with pytest.raises(InputError, match=r"task.numbers.*40 of 40 training examples would be held out"):
        read_data(Numbers(""), entry(hold_out=40))


def test_sizes_and_digests_are_told_and_change_with_the_data() -> None:
    data = read_data(Numbers(""), entry())
    told = data.describe()
    assert told["train"]["n"] == 36 and told["score"]["split"] == "dev"
    changed = replace(data, train=[{**data.train[0], "label": 7}, *data.train[1:]]).describe()
    assert changed["train"]["digest"] != told["train"]["digest"] and changed["score"] == told["score"]


def choices(names: Sequence[str]) -> list[Example]:
    return [{"text": f"Who saw {name}?", "pair": [f"{name} in spring", "nobody"], "label": 0} for name in names]


def spans_of(found: Any) -> list[str]:
    return [found[0].text[span.start : span.end] for span in found[0].spans]


def test_every_choice_gets_its_own_annotations() -> None:
    part = choices(["Bern", "Rome"])
    known = annotate_part(part, [NAMES], None)
    assert [[spans_of(found) for found in one["annotations"]] for one in known] == [
        [["Bern", "Bern"], ["Bern"]],
        [["Rome", "Rome"], ["Rome"]],
    ]


def test_the_placebo_gives_each_example_the_knowledge_of_another() -> None:
    part: list[Example] = [
        {"text": text, "pair": None, "label": 0}
        for text in ("Bern shines", "we left Rome", "they all came to Oslo", "nothing at all")
    ]
    true = annotate_part(part, [NAMES], None)
    false = shuffle_part(true, seed=0)
    assert sorted(len(one["annotations"][0].spans) for one in true) == sorted(
        len(one["annotations"][0].spans) for one in false
    )
    assert [one["annotations"] for one in true] != [one["annotations"] for one in false]
    assert all(one["annotations"][0].text == one["text"] for one in false)


def test_the_placebo_of_choices_keeps_one_tuple_for_each_choice() -> None:
    part = choices(["Bern", "Rome", "Oslo"])
    moved = shuffle_part(annotate_part(part, [NAMES], None), seed=0)
    assert all(len(one["annotations"]) == 2 for one in moved)
    assert all(found[0].text.startswith("Who saw") for one in moved for found in one["annotations"])


def test_annotations_are_remembered_between_calls(tmp_path: Path) -> None:
    part: list[Example] = [{"text": "Bern shines", "pair": None, "label": 0}]
    first = annotate_part(part, [NAMES], tmp_path)
    assert any(tmp_path.iterdir())
    assert annotate_part(part, [NAMES], tmp_path) == first


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return read_bench(write_bench(tmp_path))


def test_sources_are_made_from_their_tables_and_marked_by_content(bench: Bench, tmp_path: Path) -> None:
    before = source_digests(make_sources(bench, bench.arms["kam"]))
    assert len(set(before)) == 2
    (tmp_path / "entities.txt").write_text("other\n", encoding="utf-8")
    after = source_digests(make_sources(bench, bench.arms["kam"]))
    assert after[0] == before[0] and after[1] != before[1]


def test_a_task_is_made_with_its_paths_and_an_unknown_field_is_named(bench: Bench, tmp_path: Path) -> None:
    task = make_task(bench, bench.tasks["ads"])
    assert Path(task.data).resolve() == tmp_path.resolve() and len(task.read("dev")) > 0
    elsewhere = make_task(bench, TaskEntry("x", "table", {"data": "data2", "train": "train.csv", "label": "a/b"}))
    assert (elsewhere.train, elsewhere.label) == ("train.csv", "a/b"), "only data is a path"
    with pytest.raises(InputError, match="data2"):
        elsewhere.read("train")
    with pytest.raises(InputError, match="table has no setting 'texts'"):
        make_task(bench, TaskEntry("x", "table", {"data": ".", "texts": "query"}))
    with pytest.raises(InputError, match="has no data"):
        make_task(bench, TaskEntry("x", "table", {}))


class Keeps:
    """A strategy that injects everything."""

    def select(self, found: Sequence[Annotations], source: Source) -> list[Annotations]:
        return list(found)


PEAK = """
from infuser.experiments.memory import peak_mib, reset_peak

reset_peak()
before = peak_mib()
block = bytearray(64 * 2**20)
block[::4096] = b"x" * len(block[::4096])  # touched, or the system does not give it
print(peak_mib() - before)
"""


def test_the_peak_of_memory_is_that_of_the_work_since() -> None:
    """In a new process, because some systems cannot reset the peak of one that needed more before."""
    child = subprocess.run([sys.executable, "-c", PEAK], capture_output=True, text=True, check=True)
    assert float(child.stdout) > 48


@pytest.mark.parametrize("select", [None, Keeps()])
def test_training_texts_are_annotated_by_sources_that_were_fitted_to_the_other_folds(select: Any) -> None:
    def example(flower: str) -> Example:
        return {"text": f"a {flower} in Bern", "entities": [(len(flower) + 6, len(flower) + 10, "city")]}

    names = Entities({"rose": "city", "Bern": "city"})
    train = [example("rose" if number == 4 else "tree") for number in range(10)]
    data = Data.from_examples(train, [example("rose")], [example("rose")])
    arm, known = Annotator().annotate(data, Arm(Kam(), [names], select=select))
    found = {
        part: [[span.id for span in one["annotations"][0].spans] for one in getattr(known, part)] for part in PARTS
    }
    assert arm.sources[0].ignored == ("rose",), "the one text with a rose refutes it"  # type: ignore[attr-defined]
    assert found["dev"] == found["test"] == [["Bern"]]
    assert found["train"][4] == ["rose", "Bern"], "what its own labels say is not used on a text"

    _, known = Annotator().annotate(data, Arm(Kam(), [names], fit=False))
    assert [span.id for span in known.test[0]["annotations"][0].spans] == ["rose", "Bern"]
