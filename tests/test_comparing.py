"""compare(): plain, infused and placebo on the same seeds and data, resumed where it stopped."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from miniatures import tiny_host, tiny_tokenizer

from infuser import Correlation, Entities, Graph, Kam, TrainSettings
from infuser.comparing import Comparison, compare
from infuser.errors import InputError
from infuser.experiments.arm import Arm
from infuser.experiments.cell import Cell
from infuser.experiments.data import Data, can_write
from infuser.training import StepReport

TERMS = {"glipizide": "drug", "aare": "river", "zurich": "city", "codeine": "drug", "rhone": "river", "basel": "city"}


@dataclass(frozen=True)
class Trial:
    checkpoint: Path
    arm: Arm
    data: Data
    settings: TrainSettings

    def compare(self, **options: Any) -> Comparison:
        return compare(
            self.checkpoint, self.arm, self.data, **{"seeds": 1, "settings": self.settings, "text": False, **options}
        )


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    tiny_host("bert", "sequence-classification", num_labels=2).float().save_pretrained(tmp_path / "host")
    tiny_tokenizer("bert").save_pretrained(tmp_path / "host")
    pairs = [
        {"text": f"buy {term}", "pair": f"the old {topic}", "label": int(TERMS[term] == topic)}
        for term in TERMS
        for topic in ("drug", "river", "city")
    ]
    return Trial(
        tmp_path / "host",
        Arm(Kam(), [Graph([(term, "is a", topic) for term, topic in TERMS.items()])]),
        Data.from_examples(pairs, pairs[:6], pairs[6:], labels=("no", "yes")),
        TrainSettings(epochs=1, batch_size=6, learning_rate=1e-3),
    )


def predictions(comparison: Comparison) -> dict[str, list[Any]]:
    return {name: [one["predictions"] for one in results] for name, results in comparison.results.items()}


def test_three_arms_are_trained_alike_on_the_same_seeds(trial: Trial, tmp_path: Path) -> None:
    found = trial.compare(seeds=[0, 1], out=tmp_path / "out")
    assert list(found.results) == ["plain", "kam", "placebo"]
    answers = predictions(found)
    assert all(len(of_arm) == 2 and len(of_arm[0]) == 12 for of_arm in answers.values())
    extra = {name: results[0]["extra_weights"] for name, results in found.results.items()}
    assert extra["plain"] == 0 < extra["kam"] == extra["placebo"]
    assert answers["kam"][0] != answers["placebo"][0] and answers["kam"][0] != answers["kam"][1]
    assert (found.model("kam") / "infuser.json").exists() and found.model("plain").exists()
    assert len(found.load("kam").sources) == 1
    assert found.load("plain").config.id2label == {0: "no", 1: "yes"}, "the best where nothing helps"


def test_a_comparison_has_a_table_a_verdict_a_page_and_a_best_arm(trial: Trial, tmp_path: Path) -> None:
    found = trial.compare(seeds=2, out=tmp_path / "out")
    assert all(name in found.table() for name in ("plain", "kam", "placebo"))
    assert "plain" in found.verdict and "AUC" in found.verdict
    assert {(one.arm, one.against) for one in found.statistics.differences} == {
        ("kam", "plain"),
        ("placebo", "plain"),
        ("kam", "placebo"),
    }
    page = found.to_html(tmp_path / "report.html").read_text()
    assert found.verdict[:20] in page and (tmp_path / "report.json").exists()
    helps = [one.arm for one in found.statistics.differences if one.verdict == "helps" and one.against == "plain"]
    assert found.best == (helps[0] if helps == ["kam"] else "plain"), "what shows no evidence is dropped"


def test_the_same_knowledge_as_text_is_an_arm_of_every_comparison(trial: Trial) -> None:
    graph = Graph([(term, "is a", topic) for term, topic in TERMS.items()], n_terms=1)
    trial = replace(trial, arm=Arm(Kam(), [graph]))
    found = trial.compare(text=True)
    assert list(found.results) == ["plain", "kam", "text", "placebo"]
    assert found.results["text"][0]["extra_weights"] == 0
    assert ("kam", "text") in [(one.arm, one.against) for one in found.statistics.differences]
    mine = compare(trial.checkpoint, [trial.arm, Arm("text", trial.arm.sources, name="mine")], trial.data, seeds=1)
    assert list(mine.results) == ["plain", "kam", "mine", "placebo"], "one is enough"


def test_knowledge_as_text_is_a_rival_in_whatever_order_arms_are_given(trial: Trial) -> None:
    graph = Graph([(term, "is a", topic) for term, topic in TERMS.items()], n_terms=1)
    found = compare(trial.checkpoint, [Arm("text", [graph]), Arm(Kam(), [graph])], trial.data, seeds=1)
    assert list(found.results) == ["plain", "kam", "text", "placebo"]
    assert found.results["placebo"][0]["extra_weights"] > 0, "it is the placebo of kam"


def test_where_nothing_can_be_written_there_is_no_arm_that_reads_text(
    trial: Trial, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    said = "No text arm: the sources provide neither types nor terms."
    silent = replace(trial, arm=Arm(Kam(), [Entities(list(TERMS))]))
    with caplog.at_level("INFO", logger="infuser"):
        found = silent.compare(text=True, placebo=False)
    assert list(found.results) == ["plain", "kam"] and found.notes == (said,)
    assert said in found.table() and said in found.to_html(tmp_path / "page.html").read_text() and said in caplog.text
    mine = Arm("text", silent.arm.sources, name="mine")
    asked = compare(silent.checkpoint, [silent.arm, mine], silent.data, seeds=1, settings=silent.settings)
    assert list(asked.results) == ["plain", "kam", "mine", "placebo"] and said not in asked.table()


def test_whether_anything_can_be_written_is_seen_in_the_training_texts() -> None:
    texts = [{"text": f"the river {number}"} for number in range(1000)] + [{"text": "buy glipizide"}] * 10
    assert can_write(texts, [Entities({"glipizide": "drug"})])
    assert not can_write(texts, [Entities({"codeine": "drug"})]) and not can_write(texts, [Entities(["river"])])
    assert not can_write([], [Entities({"glipizide": "drug"})])
    choices = [{"text": ["the river", "buy glipizide"], "pair": "a shop"}]
    assert can_write(choices, [Entities({"glipizide": "drug"})])
    ties = {("river", "glipizide"): 0.5}
    assert not can_write(texts, [Correlation(ties)]) and can_write(texts, [Correlation(ties, n_terms=1)])


def test_the_card_of_a_kept_model_shows_the_comparison_and_keeps_it(trial: Trial, tmp_path: Path) -> None:
    found = trial.compare(seeds=2, out=tmp_path / "out")
    card = (found.model("kam") / "README.md").read_text()
    assert found.table().strip() in card and "| placebo |" in card and "[" in found.table()
    found.load("kam").save(tmp_path / "again")
    assert found.table().strip() in (tmp_path / "again" / "README.md").read_text()
    assert not (found.model("plain") / "README.md").exists()


def test_without_a_folder_nothing_is_kept(trial: Trial) -> None:
    found = trial.compare(placebo=False)
    assert list(found.results) == ["plain", "kam"] and not found.folder.exists()
    with pytest.raises(InputError, match=r"No model of 'kam' was kept. Give compare\(out=FOLDER\)"):
        found.model("kam")


def test_a_stopped_comparison_resumes_where_it_stopped(trial: Trial, tmp_path: Path) -> None:
    class Stop(Exception):
        pass

    def stop_in_the_third(cell: Cell, report: StepReport | None) -> None:
        if cell.method == "placebo":
            raise Stop

    with pytest.raises(Stop):
        trial.compare(out=tmp_path / "stopped", progress=stop_in_the_third)
    trained: set[str] = set()

    def note(cell: Cell, report: StepReport | None) -> None:
        if report is not None:
            trained.add(cell.method)

    resumed = trial.compare(out=tmp_path / "stopped", progress=note)
    assert trained == {"placebo"}
    assert predictions(resumed) == predictions(trial.compare(out=tmp_path / "whole"))


@pytest.mark.slow
def test_cells_side_by_side_give_the_same_as_one_after_the_other(trial: Trial, tmp_path: Path) -> None:
    ended: list[tuple[str, int]] = []

    def note(cell: Cell, report: StepReport | None) -> None:
        if report is None:
            ended.append((cell.method, cell.seed))

    beside = predictions(trial.compare(out=tmp_path / "beside", workers=2, progress=note))
    after = predictions(trial.compare(out=tmp_path / "after"))
    assert sorted(ended) == [("kam", 0), ("placebo", 0), ("plain", 0)]
    for name, of_arm in after.items():
        for one, other in zip(beside[name][0], of_arm[0], strict=True):
            assert one == pytest.approx(other, abs=1e-5)


def test_a_cell_made_with_other_knowledge_is_not_used_again(trial: Trial, tmp_path: Path) -> None:
    trial.compare(out=tmp_path / "out")
    steps: list[str] = []
    other = replace(trial, arm=Arm(Kam(), [Graph([("glipizide", "is a", "drug")])]))
    other.compare(out=tmp_path / "out", progress=lambda cell, report: steps.append(cell.method) if report else None)
    assert set(steps) == {"kam", "placebo"}, "the plain encoder is the same"


def test_arms_that_cannot_be_compared_are_refused(trial: Trial) -> None:
    with pytest.raises(InputError, match="No arm has knowledge"):
        compare(trial.checkpoint, Arm(), trial.data)
    with pytest.raises(InputError, match="names of their own"):
        compare(trial.checkpoint, [trial.arm, trial.arm], trial.data)
    with pytest.raises(InputError, match="has no sources"):
        Arm(Kam())
    with pytest.raises(InputError, match="has knowledge but no method"):
        Arm(None, trial.arm.sources)


def test_each_experiment_in_a_folder_keeps_its_own_models(trial: Trial, tmp_path: Path) -> None:
    first = trial.compare(out=tmp_path / "out")
    other = replace(trial, settings=replace(trial.settings, epochs=2)).compare(out=tmp_path / "out")
    assert first.model("kam") != other.model("kam") and first.model("kam").exists()
    again = trial.compare(out=tmp_path / "out")
    assert again.model("kam") == first.model("kam")


def test_test_examples_without_labels_are_refused_before_any_training(trial: Trial) -> None:
    hidden = [{key: value for key, value in example.items() if key != "label"} for example in trial.data.test]
    with pytest.raises(InputError, match="have no labels"):
        compare(trial.checkpoint, trial.arm, replace(trial.data, test=hidden))


def test_a_test_set_of_one_label_is_refused_before_any_training(trial: Trial) -> None:
    alike = [{**example, "label": 1} for example in trial.data.test]
    trained: list[Cell] = []
    with pytest.raises(InputError, match="different labels"):
        compare(
            trial.checkpoint,
            trial.arm,
            replace(trial.data, test=alike),
            settings=trial.settings,
            progress=lambda cell, report: trained.append(cell),
        )
    assert not trained


def test_a_method_by_its_name_has_the_settings_that_train_uses(trial: Trial) -> None:
    assert Arm("kam", trial.arm.sources) == trial.arm
    assert Arm("kar", trial.arm.sources).method.threshold == -100


def test_examples_without_a_test_part_are_scored_on_the_dev_part_itself(trial: Trial) -> None:
    data = Data.from_examples(trial.data.train)
    assert data.test is data.dev and data.scored == "dev" and 0 < len(data.dev) < len(trial.data.train)
