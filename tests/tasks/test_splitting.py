"""The one hold-out rule: labels in proportion, whole groups, the same for the same seed."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infuser.errors import InputError
from infuser.tasks.splitting import hold_out, subset

LABELS = st.lists(st.sampled_from("abc"), min_size=2, max_size=80)


@given(LABELS, st.sampled_from([0.1, 0.3, 0.5]), st.integers(0, 3))
def test_every_label_gives_its_share_at_least_one_and_never_all(labels: list[str], share: float, seed: int) -> None:
    held = hold_out(len(labels), share=share, seed=seed, strata=labels)
    assert held == hold_out(len(labels), share=share, seed=seed, strata=labels)
    for label, n in Counter(labels).items():
        n_held = sum(labels[place] == label for place in held)
        assert n_held < n and (n == 1 or n_held >= 1)
        assert abs(n_held - share * n) <= 1, "in proportion, up to rounding"


def test_few_of_many_labels_are_as_many_as_asked_for() -> None:
    labels = [str(place % 20) for place in range(60)]
    assert len(hold_out(60, share=10, strata=labels)) == 10


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from("ab")), min_size=2, max_size=60))
def test_groups_are_held_out_whole(examples: list[tuple[int, str]]) -> None:
    groups, labels = [group for group, _ in examples], [label for _, label in examples]
    if len(set(groups)) == 1:
        with pytest.raises(InputError, match="are in one group"):
            hold_out(len(examples), share=0.2, strata=labels, groups=groups)
        return
    held = hold_out(len(examples), share=0.2, strata=labels, groups=groups)
    assert {groups[place] for place in held}.isdisjoint({group for at, group in enumerate(groups) if at not in held})
    assert len(held) < len(examples)


def test_a_number_holds_out_that_many_and_another_seed_others() -> None:
    labels = ["yes", "no"] * 20
    one, other = (hold_out(40, share=10, seed=seed, strata=labels) for seed in (0, 1))
    assert len(one) == len(other) == 10 and one != other
    assert Counter(labels[place] for place in one) == {"yes": 5, "no": 5}
    assert len(hold_out(40, share=0.25)) == 10 and hold_out(40, share=0) == set()


@given(LABELS, st.integers(1, 60))
def test_a_smaller_subset_is_a_part_of_a_larger_one(labels: list[str], n: int) -> None:
    few, more = (subset(len(labels), wanted, strata=labels) for wanted in (n, n + 5))
    assert set(few) <= set(more) and len(few) == min(n, len(labels)) and few == sorted(few)
    assert subset(len(labels), None) == list(range(len(labels)))
