from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest

from infuser.analysis.explanation import Explanation
from infuser.errors import InputError

Explain = Callable[..., Explanation]


def test_explanation_survives_json(explain: Explain) -> None:
    told = explain(n_terms=2, answer_plain={"yes": np.float32(0.25)})
    again = Explanation.from_dict(json.loads(json.dumps(told.to_dict(), allow_nan=False)))
    assert again.words == told.words and again.terms == told.terms and again.answer_plain == {"yes": 0.25}
    np.testing.assert_allclose(again.maps["graph"], told.maps["graph"])
    np.testing.assert_allclose(again.infused, told.infused, atol=1e-6)
    with pytest.raises(InputError, match="Not an explanation"):
        Explanation.from_dict({"wrods": []})


def test_matrices_that_do_not_fit_the_words_are_refused(explain: Explain) -> None:
    with pytest.raises(InputError, match=r"shape \(2, 2\).*\(10, 10\)"):
        explain(plain=np.eye(2))
    with pytest.raises(InputError, match=r"map 'graph' has shape \(10, 10\).*\(10, 12\)"):
        explain(n_terms=2, maps={"graph": np.eye(10)})
    bad = np.eye(10)
    bad[3, 3] = np.nan
    with pytest.raises(InputError, match="1 values that are not finite"):
        explain(infused=bad)
    with pytest.raises(InputError, match="list of words is empty"):
        Explanation(words=[], plain=np.empty((0, 0)), infused=np.empty((0, 0)))


def test_place_names_the_layer_and_the_head_or_their_mean(explain: Explain) -> None:
    assert explain().place.startswith("layer 3, mean over heads")
    assert explain(head=5).place.startswith("layer 3, head 5")


def test_largest_changes_come_first_and_unchanged_pairs_stay_out() -> None:
    plain = np.full((3, 3), 1 / 3)
    infused = plain.copy()
    infused[1] = [0.1, 0.3, 0.6]
    told = Explanation(words=["a", "b", "c"], plain=plain, infused=infused)
    assert told.largest_changes() == [(1, 2), (1, 0), (1, 1)]
    assert told.largest_changes(1) == [(1, 2)]
