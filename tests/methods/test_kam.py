"""KAM against a literal NumPy transcription of its description, and its settings one by one."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from methods.kam_reference import forward
from miniatures import PAIRS, TEXTS, Repeats, tiny_host, tiny_tokenizer

import infuser
from infuser.errors import InputError
from infuser.methods import kam_scores

SETTINGS = {
    "default": {},
    "kernel of one": {"kernel_size": 1},
    "kernel of five": {"kernel_size": 5},
    "mean of maps": {"fusion": "mean"},
    "fixed residual link": {"residual": 0.3},
    "no residual link": {"residual": "off"},
    "no cls row": {"cls_row": False},
    "learned alpha": {"learn_alpha": True, "alpha": 0.35},
    "random start": {"start": "random"},
}


def infuse_tiny(*, n_terms: bool = True, layers: int = 3, **settings: object) -> infuser.Infused:
    """Return a tiny BERT with two sources, the second with auxiliary terms, and random new weights."""
    sources = [Repeats(weight=1.0), Repeats(weight=0.4, term="glipizide river")]
    if not n_terms:
        sources[1] = Repeats(weight=0.4)
    host = tiny_host("bert", num_hidden_layers=layers)
    kam = infuser.Kam(**settings)  # type: ignore[arg-type]
    kam.attach(host, sources=sources, with_terms=True)
    torch.manual_seed(1)
    with torch.no_grad():
        for name, weight in host.named_parameters():
            if "knowledge" in name and "alpha" not in name:
                weight.add_(torch.randn_like(weight) * (0.01 if name.endswith("maps") else 0.3))
    return infuser.Infused(host, kam, tiny_tokenizer("bert"), tuple(sources))


def reference(infused: infuser.Infused, batch: dict[str, torch.Tensor]) -> np.ndarray:
    """Return what the NumPy transcription makes of a batch."""
    kam = infused.method
    assert isinstance(kam, infuser.Kam)
    weights = {name: tensor.numpy() for name, tensor in infused.model.state_dict().items()}
    arrays = {name: tensor.numpy() for name, tensor in batch.items()}
    fixed = {"learned": None, "off": 0.0}.get(kam.residual, kam.residual)  # type: ignore[arg-type]
    return np.stack(
        [
            forward(
                weights,
                arrays,
                example,
                n_heads=2,
                n_layers=infused.model.config.num_hidden_layers,
                n_channels=2,
                alpha=kam.alpha,
                map_step=kam.map_step,
                fusion=kam.fusion,
                gates=fixed,  # type: ignore[arg-type]
                cls_row=kam.cls_row,
                gap=kam.kernel_size // 2,
            )
            for example in range(len(arrays["input_ids"]))
        ]
    )


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS.keys())
@pytest.mark.parametrize("way", ["whole", "tiles"])
def test_the_module_agrees_with_a_literal_transcription_of_the_method(
    settings: dict[str, object], way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    infused = infuse_tiny(layers=2, **settings)
    batch = infused.batch(TEXTS[:2], PAIRS[:2])
    assert "knowledge_terms" in batch
    assert not batch["attention_mask"].all()
    if way == "tiles":
        monkeypatch.setattr(kam_scores, "_WHOLE", 0)
        monkeypatch.setattr(kam_scores, "_TILE_BYTES", 0)  # the smallest tiles: halo rows at every height
    with torch.set_grad_enabled(way == "whole"):
        states = infused.model(**batch).last_hidden_state.detach().numpy()
    expected = reference(infused, batch)
    real = batch["attention_mask"].bool().numpy()
    assert np.abs(states - expected)[real].max() < 1e-9
    plain = infused.model(**{k: v for k, v in batch.items() if "knowledge" not in k}).last_hidden_state
    assert np.abs(plain.detach().numpy() - expected)[real].max() > 1e-3


def test_one_text_without_terms_agrees_with_the_transcription_too() -> None:
    infused = infuse_tiny(n_terms=False, layers=3)
    batch = infused.batch(["the old river of the old town"])
    states = infused.model(**batch).last_hidden_state.detach().numpy()
    assert np.abs(states - reference(infused, batch)).max() < 1e-9


def test_an_example_worked_by_hand() -> None:
    # One head, one map, kernel 1, alpha .5: fused = .5 * (2 S + 3 M) + .5 * S = 1.5 S + 1.5 M.
    # S = [[0, 0], [0, 0]] (zero queries), M = [[0, 1], [1, 0]], so each row is softmax(0, 1.5) = (.1824, .8176).
    mixer = infuser.methods.kam.MapMixer(
        1, 1, layer=0, settings=infuser.Kam(alpha=0.5, kernel_size=1, map_step=1.0), shared=False, last=True
    ).double()
    with torch.no_grad():
        mixer.scores.fill_(2.0)
        mixer.maps.fill_(3.0)
    knowledge = infuser.methods.kam.MapKnowledge(
        maps=torch.tensor([[[[0.0, 1.0], [1.0, 0.0]]]], dtype=torch.float64),
        rows=torch.ones(1, 2, dtype=torch.bool),
        columns=torch.ones(1, 2, dtype=torch.bool),
        bypass=None,
    )
    query = torch.zeros(1, 1, 2, 1, dtype=torch.float64)
    value = torch.tensor([[[[10.0], [20.0]]]], dtype=torch.float64)
    out, weights = mixer(query, query, value, None, knowledge, scaling=1.0, dropout=0.0, want_weights=True)
    expected = torch.tensor([[0.182425523, 0.817574476], [0.817574476, 0.182425523]], dtype=torch.float64)
    torch.testing.assert_close(weights[0, 0], expected)
    torch.testing.assert_close(out[0, :, 0, 0], torch.tensor([18.17574476, 11.82425523], dtype=torch.float64))


def test_bert_base_gets_as_many_new_weights_as_the_formula_says() -> None:
    from transformers import BertConfig, BertModel

    with torch.device("meta"):
        host = BertModel(BertConfig())
    infuser.Kam().attach(host, sources=[Repeats()] * 3)
    new = {name: weight.numel() for name, weight in host.named_parameters() if "knowledge" in name}
    kernels = 12 * 15 * 12 * 9
    biases, gates = 11 * 12, 11  # the last layer's bias would be invisible to its softmax, so it has none
    assert sum(new.values()) == kernels + biases + gates == 19_583


def test_a_text_without_knowledge_bypasses_the_method_exactly_when_told_to() -> None:
    texts = ["the old river of the old town", "cheap medicine"]  # nothing repeats in the second
    for settings, bypassed in (({"bypass_empty": True}, True), ({}, False)):
        infused = infuse_tiny(n_terms=False, **settings)
        batch = infused.batch(texts)
        states = infused.model(**batch).last_hidden_state
        plain = infused.model(**{k: v for k, v in batch.items() if "knowledge" not in k}).last_hidden_state
        real = batch["attention_mask"].bool()
        change = (states - plain).abs().amax(-1) * real
        assert change[0].max() > 1e-3
        assert bool(change[1].max() < 1e-12) is bypassed
        with torch.no_grad():
            in_tiles = infused.model(**batch).last_hidden_state
        torch.testing.assert_close(in_tiles[real], states[real])


def test_auxiliary_terms_change_the_answer_and_are_trimmed() -> None:
    infused = infuse_tiny()
    batch = infused.batch(["buy glipizide tablets"])
    with_terms = infused.model(**batch, output_attentions=True)
    n_tokens = batch["input_ids"].shape[1]
    assert with_terms.last_hidden_state.shape[1] == n_tokens
    assert with_terms.attentions[0].shape[-2:] == (n_tokens, n_tokens)
    assert (with_terms.attentions[0].sum(-1) < 1 - 1e-6).all()  # the rest went to the terms
    del batch["knowledge_terms"]
    batch["knowledge_boxes"][..., 0][batch["knowledge_boxes"][..., 4] > n_tokens] = -1
    without = infused.model(**batch).last_hidden_state
    assert (with_terms.last_hidden_state - without).abs().max() > 1e-4


def test_terms_in_a_batch_need_a_model_with_room_for_them() -> None:
    host = tiny_host("bert")
    infuser.Kam().attach(host, sources=[Repeats()])
    batch = infuser.Collator(tiny_tokenizer("bert"), [Repeats(term="river")]).encode(["buy glipizide tablets"])
    with pytest.raises(InputError, match="n_terms"):
        host(**batch)


def test_layers_below_the_first_one_stay_as_they_are() -> None:
    infused = infuse_tiny(first_layer=2, n_terms=False)
    batch = infused.batch(["the old river of the old town"])
    states = infused.model(**batch, output_hidden_states=True).hidden_states
    plain = infused.model(
        **{k: v for k, v in batch.items() if "knowledge" not in k}, output_hidden_states=True
    ).hidden_states
    assert torch.equal(states[2], plain[2])
    assert (states[3] - plain[3]).abs().max() > 1e-3


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"alpha": 1.5}, "alpha=1.5"),
        ({"kernel_size": 2}, "kernel_size=2"),
        ({"fusion": "sum"}, "'sum'"),
        ({"start": "zero"}, "'zero'"),
        ({"residual": "on"}, "'on'"),
    ],
)
def test_a_setting_out_of_range_is_named(settings: dict[str, object], named: str) -> None:
    with pytest.raises(InputError, match=named):
        infuser.Kam(**settings)  # type: ignore[arg-type]


def test_a_first_layer_beyond_the_last_is_refused() -> None:
    with pytest.raises(InputError, match="this host has 2"):
        infuser.Kam(first_layer=2).attach(tiny_host("bert"), sources=[Repeats()])
