"""Named entities as a task: parts, golds, training, comparisons, benches."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cli.commands import save_checkpoint
from tasks.small_ner import CITIES, DRUGS, NAMES, examples_of, write_task

from infuser import Arm, Data, Entities, Kam, TrainSettings, compare
from infuser.errors import InputError, UnknownNameError
from infuser.experiments.arm import Host, make_model
from infuser.experiments.cell import Cell, Setup, run_cell
from infuser.experiments.data import Annotator
from infuser.experiments.grid import read_results, run_bench
from infuser.experiments.settings import read_bench
from infuser.experiments.summary import summarise
from infuser.tasks.base import Training
from infuser.tasks.ner import Ner, find_entities, split_texts

FAST = TrainSettings(epochs=3, batch_size=8, learning_rate=1e-2, group_by_length=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_task(tmp_path_factory.mktemp("ner"))
    save_checkpoint(folder / "tiny")
    return folder


def files_of(folder: Path, **options: Any) -> Data:
    parts = {"dev": folder / "dev.conll", "test": folder / "test.conll"}
    return Data.from_table(folder / "train.conll", **parts, task="ner", **options)


def test_labels_are_the_tags_of_the_training_part(folder: Path) -> None:
    task = Ner(str(folder), dev="dev.conll", test="test.conll")
    assert task.types == ("City", "Drug")
    assert task.head_options()["id2label"] == {0: "O", 1: "B-City", 2: "I-City", 3: "B-Drug", 4: "I-Drug"}
    assert task.head == "token-classification" and task.metrics[0] == "entity-f1"


def test_few_examples_are_drawn_by_the_data_seed_alone(folder: Path) -> None:
    some, more, same = (files_of(folder, n_train=n) for n in (10, 20, 10))
    assert len(some.train) == 10 and some.train == same.train
    assert all(example in more.train for example in some.train)  # fewer are a part of more
    assert files_of(folder, n_train=10, seed=1).train != some.train
    task = Ner(str(folder), dev="dev.conll", test="test.conll")
    assert Data.from_task(task, score_on="test", n_train=10).train == some.train


def test_a_part_without_a_file_is_held_out(folder: Path) -> None:
    data = Data.from_table(folder / "train.conll", task="ner")
    assert (len(data.train), len(data.dev)) == (58, 6) and data.test is data.dev
    assert not any(example in data.train for example in data.dev)


def test_examples_in_memory_make_the_same_task() -> None:
    data = Data.from_examples(examples_of(DRUGS[:4], CITIES[:4]), examples_of(DRUGS[4:], CITIES[4:]))
    assert data.labels == ["O", "B-City", "I-City", "B-Drug", "I-Drug"] and data.metric == "entity-f1"


def test_golds_say_what_training_has_seen(folder: Path) -> None:
    golds = files_of(folder).golds()
    assert golds is not None and golds[0]["text"] == "buy naproxen in geneva"
    assert golds[0]["entities"] == [[4, 12, "Drug"], [16, 22, "City"]]
    assert golds[0]["seen"] == ["geneva", "naproxen"]
    assert golds[-1]["text"].split()[-1] == "sion" and golds[-1]["seen"] == []


def test_entities_that_are_cut_off_count_as_missed(folder: Path) -> None:
    task, text = Ner(""), "bern " + "the " * 100 + "basel"
    example = {"text": text, "entities": [(0, 4, "City"), (405, 410, "City")]}
    golds = task.golds([example], [])
    assert task.score(golds, [[[0, 4, "City", 1.0]]])["entity-recall"] == 0.5


def test_long_texts_are_split_at_sentences_and_never_inside_an_entity_of_training() -> None:
    text = "He took Warfarin twice. Then New. York fever came back again today."
    long = {"text": text, "entities": [[8, 16, "drug"], [29, 44, "disease"]]}
    assert [text[start:end] for start, end, _ in long["entities"]] == ["Warfarin", "New. York fever"]
    first, *others = split_texts([long], 8, "train")
    assert first == {"text": "He took Warfarin twice.", "entities": [(8, 16, "drug")]}
    assert others[0]["text"].startswith("Then New. York fever") and others[0]["entities"] == [(5, 20, "disease")]
    *_, cut = [one for one in split_texts([long], 3, "test") if one["entities"]]
    assert cut["entities"][0][1] > len(cut["text"])  # the window does not know of the entity, which counts as missed
    assert split_texts([{"text": text}], 100, "test") == [{"text": text}]


def test_a_metric_that_does_not_judge_entities_is_an_error() -> None:
    with pytest.raises(InputError, match=r"'accuracy' does not judge entities\. Take entity-f1,"):
        Ner("", metric="accuracy")
    with pytest.raises(UnknownNameError, match="Did you mean 'entity-f1'"):
        Ner("", metric="entity-f2")
    assert Ner("", metric="entity-f1-unseen").metrics[0] == "entity-f1-unseen"


@pytest.mark.slow
def test_training_finds_entities_and_resumes_where_it_was_stopped(folder: Path, tmp_path: Path) -> None:
    data = files_of(folder)

    def trained(epochs: int, checkpoints: Path | None = None) -> tuple[Any, Any]:
        model, collator, _ = make_model(data.task, Host(str(folder / "tiny")), Arm())
        steps: list[int] = []

        def stop(report: Any) -> None:
            steps.append(report.step)
            if epochs < 3 and report.step == 8 * epochs + 1:
                raise KeyboardInterrupt

        training = Training(model, collator, FAST, progress=stop, checkpoints=checkpoints)
        return data.task.solve(training, data.train, data.test, data.dev), steps

    import torch

    results = []
    for _ in range(2):
        torch.manual_seed(0)
        results.append(trained(3))
    whole, steps = results[0]
    assert len(steps) == 24
    assert [one["metrics"]["entity-f1"] for one in whole.history][-1] > 0.6
    assert data.task.score(data.golds(), whole.predictions)["entity-f1-seen"] > 0.6
    assert all(len(one) == 4 and 0 < one[3] <= 1 for found in whole.predictions for one in found)
    torch.manual_seed(0)
    with pytest.raises(KeyboardInterrupt):
        trained(1, tmp_path)
    torch.manual_seed(0)
    again, steps = trained(3, tmp_path)
    assert steps[0] == 9  # the first epoch is not computed again, and its score is known
    assert again.history == whole.history and again.predictions == whole.predictions


@pytest.mark.parametrize("precision", ["no", "bf16"])
def test_a_model_answers_in_the_precision_that_it_was_trained_in(folder: Path, precision: Any) -> None:
    import torch

    data = files_of(folder)
    model, collator, _ = make_model(data.task, Host(str(folder / "tiny")), Arm())
    answered: list[tuple[bool, torch.dtype]] = []
    model.classifier.register_forward_hook(
        lambda module, given, logits: answered.append((module.training, logits.dtype))
    )
    training = Training(model, collator, replace(FAST, epochs=1, mixed_precision=precision), progress=False)
    data.task.solve(training, data.train[:4], data.test, data.dev[:2])
    expected = torch.bfloat16 if precision == "bf16" else torch.float32
    assert {dtype for learns, dtype in answered} == {expected} and answered[-1][0] is False


@pytest.mark.slow
def test_a_comparison_prints_what_the_dictionary_reaches_alone(folder: Path, tmp_path: Path) -> None:
    data, arm = files_of(folder), Arm(Kam(), [Entities(NAMES)])
    found = compare(folder / "tiny", arm, data, seeds=1, settings=FAST, out=tmp_path)
    [kam] = found.results["kam"]
    assert kam["rules"]["dictionary alone"]["scores"]["entity-f1"] == 1.0  # the list knows all names
    assert "rules" not in found.results["plain"][0] and "rules" not in found.results["placebo"][0]
    assert kam["notes"]["dictionary alone"] == 1.0
    assert kam["notes"]["entities"] == 72 and set(kam["notes"]["F1 by type"]) == {"City", "Drug"}
    table = found.table()
    assert "entity-f1 without a method (knowledge of kam, text): dictionary alone 1.000, dictionary + plain" in table
    assert found.rules[0] in found.to_html(tmp_path / "report.html").read_text()
    assert found.statistics.n_examples == 36 and "entity-f1" in found.verdict
    model = found.load("kam")
    again = find_entities(model.model, model.collator(), data.test)
    assert [[one[:3] for one in text] for text in again] == [[one[:3] for one in text] for text in kam["predictions"]]


BENCH = """
seeds = [0]
host.tiny = { checkpoint = "tiny" }
source.names = { kind = "entities", file = "names.csv" }
[method]
plain = {}
kam = { kind = "kam", sources = ["names"] }
[task.shop]
kind = "ner"
data = "."
dev = "dev.conll"
test = "test.conll"
score_on = "test"
n_train = 24
[train]
epochs = 1
batch_size = 8
learning_rate = 0.01
"""


@pytest.mark.slow
def test_a_bench_has_a_table_with_the_rules_below(folder: Path, tmp_path: Path) -> None:
    (folder / "bench.toml").write_text(BENCH)
    bench = read_bench(folder / "bench.toml")
    run_bench(bench, tmp_path)
    table = summarise(bench, read_results(tmp_path, bench), rounds=100)
    assert table.columns[0].metrics[0] == "entity-f1" and table.row("kam").entries[0].first.difference is not None
    notes = "\n".join(table.notes)
    assert "shop: trained on 24 examples, 16 held out, 36 of test scored." in notes
    assert "shop: entity-f1 without a method (knowledge of kam): dictionary alone 1.000, dictionary + plain" in notes
    assert "F1 by type: City" in notes


def test_a_trial_on_fewer_examples_has_seen_fewer_mentions(folder: Path) -> None:
    data, settings = files_of(folder), TrainSettings(epochs=1, batch_size=8)
    setup = Setup(Host(str(folder / "tiny")), Arm(), data, settings, n_train=2, on_dev=True)
    result, _ = run_cell(Cell("tiny", "plain", "shop", 0, trial=0), setup, Annotator())
    seen = {mention for gold in result["golds"] for mention in gold["seen"]}
    assert len(seen) < 4 and len(result["golds"]) == len(data.dev)
