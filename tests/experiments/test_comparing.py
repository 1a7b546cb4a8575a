from __future__ import annotations

import json
from pathlib import Path

import pytest
from miniatures import tiny_host, tiny_tokenizer

from infuser import Graph, Kam, TrainSettings
from infuser.experiments.comparing import Trial, run_trial
from infuser.training.steps import StepReport

TERMS = {"glipizide": "drug", "aare": "river", "zurich": "city", "codeine": "drug", "rhone": "river", "basel": "city"}


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
        checkpoint=str(tmp_path / "host"),
        method=Kam(),
        sources=[Graph([(term, "is a", topic) for term, topic in TERMS.items()])],
        train=pairs,
        dev=pairs[:6],
        test=pairs[6:],
        settings=TrainSettings(epochs=1, batch_size=6, learning_rate=1e-3),
    )


def test_three_arms_are_trained_alike_on_the_same_seeds(trial: Trial, tmp_path: Path) -> None:
    arms = run_trial(trial, seeds=[0, 1], out=tmp_path / "out")
    assert [arm.name for arm in arms] == ["plain", "kam", "placebo"]
    plain, kam, placebo = arms
    assert all(len(arm.scores_per_seed) == 2 and len(arm.scores_per_seed[0]) == 12 for arm in arms)
    assert plain.extra_weights == 0 < kam.extra_weights == placebo.extra_weights
    assert (kam.scores_per_seed[0] != placebo.scores_per_seed[0]).any()
    assert (kam.scores_per_seed[0] != kam.scores_per_seed[1]).any()
    assert (tmp_path / "out/model/infuser.json").exists()


def test_a_stopped_comparison_goes_on_where_it_stopped(trial: Trial, tmp_path: Path) -> None:
    class Stop(Exception):
        pass

    def stop_in_the_third(arm: str, seed: int, report: StepReport | None) -> None:
        if arm == "placebo":
            raise Stop

    with pytest.raises(Stop):
        run_trial(trial, seeds=[0], out=tmp_path / "stopped", tell=stop_in_the_third)
    trained: set[str] = set()

    def note(arm: str, seed: int, report: StepReport | None) -> None:
        if report is not None:
            trained.add(arm)

    resumed = run_trial(trial, seeds=[0], out=tmp_path / "stopped", tell=note)
    assert trained == {"placebo"}
    whole = run_trial(trial, seeds=[0], out=tmp_path / "whole")
    for one, other in zip(resumed, whole, strict=True):
        assert one.scores_per_seed[0].tolist() == other.scores_per_seed[0].tolist()


@pytest.mark.slow
def test_runs_side_by_side_give_the_same_as_one_after_the_other(trial: Trial, tmp_path: Path) -> None:
    ended: list[tuple[str, int]] = []

    def note(arm: str, seed: int, report: StepReport | None) -> None:
        if report is None:
            ended.append((arm, seed))

    beside = run_trial(trial, seeds=[0], out=tmp_path / "beside", n_workers=2, tell=note)
    after = run_trial(trial, seeds=[0], out=tmp_path / "after")
    assert sorted(ended) == [("kam", 0), ("placebo", 0), ("plain", 0)]
    for one, other in zip(beside, after, strict=True):
        assert one.scores_per_seed[0] == pytest.approx(other.scores_per_seed[0], abs=1e-5)


def test_a_run_made_with_other_knowledge_is_not_used_again(trial: Trial, tmp_path: Path) -> None:
    from dataclasses import replace

    run_trial(trial, seeds=[0], out=tmp_path)
    steps: list[str] = []
    other = replace(trial, sources=[Graph([("glipizide", "is a", "drug")])])
    run_trial(other, seeds=[0], out=tmp_path, tell=lambda arm, seed, report: steps.append(arm) if report else None)
    assert set(steps) == {"plain", "kam", "placebo"}
    run = json.loads((tmp_path / "runs/kam-0.json").read_text())
    assert {"scores", "metrics", "seconds", "history", "extra_weights"} <= run.keys()
