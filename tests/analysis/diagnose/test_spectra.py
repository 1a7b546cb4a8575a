from __future__ import annotations

import pytest
import torch
from miniatures import HOSTS
from tiny_infusions import KNOWN_TEXT, examples, infuse_tiny

from infuser.analysis.diagnose.directions import feature_matrix, singular_values
from infuser.errors import InputError
from infuser.signals import Collator

TEXTS = [{**example, "label": 0} for example in examples("sequence-classification")]


@pytest.mark.parametrize("host", HOSTS)
def test_features_are_what_enters_the_head_with_knowledge_and_without_dropout(host: str) -> None:
    infused = infuse_tiny(host, "sequence-classification")
    infused.model.train()
    features = feature_matrix(infused.model, TEXTS, infused.collator(), batch_size=3)
    assert infused.model.training
    assert features.shape == (4, 16)
    again = feature_matrix(infused.model, TEXTS, infused.collator(), batch_size=4)
    torch.testing.assert_close(features, again, atol=1e-9, rtol=0)
    out = infused.model.eval().base_model(**infused.batch([KNOWN_TEXT]))
    pooled = getattr(out, "pooler_output", None)
    first, mean = out.last_hidden_state[:, 0], out.last_hidden_state.mean(1)
    torch.testing.assert_close(features[:1], pooled if pooled is not None else mean if host == "eurobert" else first)
    plain = feature_matrix(infused.model, TEXTS, Collator(infused.tokenizer))
    assert (features - plain).abs().max() > 1e-6


def test_of_many_examples_the_same_few_are_taken_at_equal_distances() -> None:
    infused = infuse_tiny("bert", "sequence-classification")
    many = [TEXTS[0]] * 3 + [TEXTS[1]] * 3
    few = feature_matrix(infused.model, many, infused.collator(), most=2)
    torch.testing.assert_close(few, feature_matrix(infused.model, TEXTS[:2], infused.collator()))
    with pytest.raises(InputError, match="0 examples"):
        feature_matrix(infused.model, [], infused.collator())


def test_singular_values_come_largest_first() -> None:
    features = torch.tensor([[0.0, 3.0, 0.0], [4.0, 0.0, 0.0], [0.0, 3.0, 0.0]])
    assert singular_values(features) == pytest.approx([18**0.5, 4.0, 0.0], abs=1e-9)
