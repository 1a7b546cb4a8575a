"""What linkers learn from: both losses against their formulas, and what must not teach anything."""

from __future__ import annotations

import gc
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from miniatures import tiny_host, tiny_tokenizer
from tiny_infusions import KNOWN_TEXT, tiny_base
from torch import Tensor

import infuser
from infuser.errors import InputError
from infuser.linking.examples import NOTHING, link_examples
from infuser.linking.examples import LinkedText as Linked
from infuser.linking.inference import bases_of
from infuser.linking.objective import FrozenStates, LinkerAlone, LinkingObjective, margin_loss, softmax_loss
from infuser.types import Span

Rows = list[list[tuple[float, int, int]]]


def tensors(rows: Rows) -> tuple[Tensor, Tensor, Tensor]:
    """Return scores, gold and spans of texts, each a list of (score, gold, span), filled up as the collator does."""
    longest = max(1, *map(len, rows))
    filled = [[*row, *[(0.0, -1, 0)] * (longest - len(row))] for row in rows]
    scores = torch.tensor([[one[0] for one in row] for row in filled], dtype=torch.float64, requires_grad=True)
    return (
        scores,
        torch.tensor([[o[1] for o in row] for row in filled]),
        torch.tensor([[o[2] for o in r] for r in filled]),
    )


def by_hand(rows: Rows) -> tuple[float, float]:
    """Return both losses by plain loops over spans."""
    right_ones, wrong_ones, logs = [], [], []
    for row in rows:
        for span in sorted({one[2] for one in row}):
            of_span = [(score, gold) for score, gold, place in row if place == span]
            known = [(score, gold) for score, gold in of_span if gold >= 0]
            if not known:
                continue
            right_ones += [max(0.0, 0.2 - score) for score, gold in known if gold]
            wrong_ones += [max(0.0, 0.2 + score) for score, gold in known if not gold]
            if any(gold for _, gold in known):
                [right] = [score for score, gold in known if gold]
                logs.append(math.log(sum(math.exp(score) for score, _ in known)) - right)
    margin = sum(right_ones) / max(1, len(right_ones)) + sum(wrong_ones) / max(1, len(wrong_ones))
    return margin, sum(logs) / max(1, len(logs))


@st.composite
def texts_with_candidates(draw: st.DrawFn) -> Rows:
    rows: Rows = []
    for _ in range(draw(st.integers(1, 3))):
        row: list[tuple[float, int, int]] = []
        for span in range(draw(st.integers(0, 3))):
            n = draw(st.integers(1, 4))
            right = draw(st.integers(-2, n - 1))  # -2: nobody knows; -1: none of them
            scores = draw(st.lists(st.floats(-3, 3), min_size=n, max_size=n))
            row += [(score, -1 if right == -2 else int(place == right), span) for place, score in enumerate(scores)]
        rows.append(row)
    return rows


@given(texts_with_candidates())
def test_both_losses_are_those_of_a_loop_over_spans(rows: Rows) -> None:
    margin, log = by_hand(rows)
    assert margin_loss(*tensors(rows)[:2]).item() == pytest.approx(margin, abs=1e-12)
    assert softmax_loss(*tensors(rows)).item() == pytest.approx(log, abs=1e-12)


def test_a_span_without_a_right_candidate_gives_exactly_no_gradient_to_the_softmax_loss() -> None:
    scores, gold, spans = tensors([[(0.3, 0, 0), (1.5, 0, 0), (0.1, 1, 1), (0.7, 0, 1)], [(2.0, 0, 0)]])
    softmax_loss(scores, gold, spans).backward()
    assert scores.grad is not None
    assert torch.equal(scores.grad[0, :2], torch.zeros(2, dtype=torch.float64))
    assert torch.equal(scores.grad[1], torch.zeros(4, dtype=torch.float64))
    assert (scores.grad[0, 2:] != 0).all()


def test_without_any_right_candidate_the_softmax_loss_is_zero_and_can_be_trained_on() -> None:
    scores, gold, spans = tensors([[(0.3, 0, 0), (1.5, -1, 1)]])
    loss = softmax_loss(scores, gold, spans)
    loss.backward()
    assert loss.item() == 0
    assert scores.grad is not None
    assert torch.equal(scores.grad, torch.zeros_like(scores))


def test_candidates_that_nobody_knows_teach_nothing() -> None:
    scores, gold, _ = tensors([[(0.3, -1, 0), (0.0, 1, 1), (0.1, 0, 1)]])
    margin_loss(scores, gold).backward()
    assert scores.grad is not None
    assert scores.grad[0].tolist() == [0.0, -1.0, 1.0]


@pytest.fixture
def infused() -> infuser.Infused:
    torch.manual_seed(0)
    host = tiny_host("bert", "masked-lm")
    return infuser.infuse(host, infuser.Kar(), sources=[tiny_base()], tokenizer=tiny_tokenizer("bert"))


def an_example(infused: infuser.Infused) -> dict[str, object]:
    place = KNOWN_TEXT.index("river")
    linked = Linked(KNOWN_TEXT, (Span(place, place + 5, id="Q8"),))
    [example] = link_examples([linked], bases_of(infused.sources))
    return example


def test_the_loss_of_the_head_counts_where_there_are_labels(infused: infuser.Infused) -> None:
    batch = infused.collator()([an_example(infused)])
    alone = LinkingObjective(infused.model, ["base"])(**batch)
    assert set(alone.parts) == {"linking"}
    batch["labels"] = batch["input_ids"].clone()
    joint = LinkingObjective(infused.model, ["base"])(**batch)
    assert set(joint.parts) == {"linking", "masked words"}
    assert joint.loss.item() == pytest.approx(sum(part.item() for part in joint.parts.values()))


@pytest.mark.parametrize("loss", ["margin", "softmax"])
def test_a_linker_alone_has_the_loss_that_it_has_inside_the_encoder(infused: infuser.Infused, loss: Any) -> None:
    infused.model.train(False)
    examples = [an_example(infused), {**an_example(infused), "pair": None}]
    states = FrozenStates(infused, "base", examples)
    inside = LinkingObjective(infused.model, ["base"], loss=loss)(**infused.collator()(examples))
    alone = LinkerAlone(infused, "base", loss=loss).eval()(**states.collate(states.examples))
    assert alone.loss.item() == pytest.approx(inside.loss.item(), rel=1e-5)  # the states are kept in 32 bits
    assert alone.loss.item() > 0


def test_a_batch_that_teaches_nothing_is_refused(infused: infuser.Infused) -> None:
    with pytest.raises(InputError, match="nothing to learn"):
        LinkingObjective(infused.model, ["base"])(**infused.batch([KNOWN_TEXT]))


def test_an_unknown_loss_is_named(infused: infuser.Infused) -> None:
    batch = infused.collator()([an_example(infused)])
    with pytest.raises(InputError, match="'hinge'"):
        LinkingObjective(infused.model, ["base"], loss="hinge")(**batch)  # type: ignore[arg-type]


def test_nothing_is_what_spans_mean_that_are_no_gold_mention(infused: infuser.Infused) -> None:
    gold = an_example(infused)["gold"]
    assert sorted(gold["base"], key=str) == sorted([NOTHING] * 5 + ["Q8"])  # type: ignore[index]


def test_the_states_of_a_killed_run_are_removed_and_those_of_a_living_one_stay(
    infused: infuser.Infused, tmp_path: Path
) -> None:
    examples = [an_example(infused)]
    (tmp_path / ".states.77.part").write_bytes(bytes(100))
    living = FrozenStates(infused, "base", examples, folder=tmp_path)
    [own] = tmp_path.iterdir()
    assert own.name != ".states.77.part"
    second = FrozenStates(infused, "base", examples, folder=tmp_path)
    assert len(list(tmp_path.iterdir())) == 2
    del living, second
    gc.collect()
    assert list(tmp_path.iterdir()) == []
