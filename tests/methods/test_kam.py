"""KAM against a literal NumPy transcription of its description, and its settings one by one."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from methods.kam_reference import forward
from miniatures import PAIRS, TEXTS, Repeats, tiny_host, tiny_tokenizer
from tiny_infusions import Kinds, RepeatsAndTerms, plain
from tiny_infusions import infuse_tiny as infuse_on

import infuser
from infuser.errors import CheckpointError, InputError
from infuser.hosts import is_new_weight
from infuser.methods import kam_scores
from infuser.seals import seal
from infuser.training import TrainSettings, train
from infuser.training.steps import parameter_groups
from infuser.types import Vocabulary

OLD = "the old river of the old town"
PAPER = {name: value for name, value in asdict(infuser.Kam.paper()).items() if value != getattr(infuser.Kam(), name)}

SETTINGS = {
    "default": {},
    "kernel of one": {"kernel_size": 1},
    "kernel of five": {"kernel_size": 5},
    "mean of maps": {"fusion": "mean"},
    "bias": {"fusion": "bias"},
    "bias by type": {"fusion": "bias", "channels": "types"},
    "maps by type": {"channels": "types"},
    "fixed residual link": {"residual": 0.3},
    "no residual link": {"residual": "off"},
    "no cls row": {"cls_row": False},
    "learned alpha": {"learn_alpha": True, "alpha": 0.35},
    "no limit": {"limit": "off"},
    "terms for all words": {"term_scope": "text"},
    "the paper's form": PAPER,
}


def infuse_tiny(*, n_terms: bool = True, layers: int = 3, sources: object = (), **settings: object) -> infuser.Infused:
    """Return a tiny BERT with two sources, the second with auxiliary terms, and random new weights."""
    used = list(sources) or [Kinds(), RepeatsAndTerms(weight=0.4) if n_terms else Repeats(weight=0.4)]  # type: ignore
    host, kam = tiny_host("bert", num_hidden_layers=layers), infuser.Kam(**settings)  # type: ignore[arg-type]
    infused = infuser.infuse(host, kam, sources=used, tokenizer=tiny_tokenizer("bert"))
    torch.manual_seed(1)
    with torch.no_grad():
        for name, weight in host.named_parameters():
            if "knowledge" in name and "alpha" not in name:
                large = not name.endswith(("maps", "term_gates"))
                weight.add_(torch.randn_like(weight) * (0.3 if large else 0.01))
    return infused


def reference(infused: infuser.Infused, batch: dict[str, torch.Tensor]) -> np.ndarray:
    """Return what the NumPy transcription makes of a batch."""
    kam, vocabulary = infused.method, infused.vocabulary
    assert isinstance(kam, infuser.Kam)
    n_kinds = [
        len(types) + len(relations) for types, relations in zip(vocabulary.types, vocabulary.relations, strict=True)
    ]
    starts = [sum(n_kinds[:source]) for source in range(len(n_kinds))] if kam.channels == "types" else None
    weights = {name: tensor.numpy() for name, tensor in infused.model.state_dict().items()}
    arrays = {name: tensor.numpy() for name, tensor in batch.items()}
    return np.stack(
        [
            forward(
                weights,
                arrays,
                example,
                n_heads=2,
                n_layers=infused.model.config.num_hidden_layers,
                n_channels=sum(n_kinds) if starts else len(n_kinds),
                starts=starts,
                settings=asdict(kam),
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
    without = infused.model(**plain(batch)).last_hidden_state
    assert np.abs(without.detach().numpy() - expected)[real].max() > 1e-3


def test_one_text_without_terms_agrees_with_the_transcription_too() -> None:
    infused = infuse_tiny(n_terms=False, layers=3)
    batch = infused.batch(["the old river of the old town"])
    states = infused.model(**batch).last_hidden_state.detach().numpy()
    assert np.abs(states - reference(infused, batch)).max() < 1e-9


def test_an_example_worked_by_hand() -> None:
    # One head, one map, kernel 1, alpha .5: fused = .5 * (2 S + 3 M) + .5 * S = 1.5 S + 1.5 M.
    # S = [[0, 0], [0, 0]] (zero queries), M = [[0, 1], [1, 0]], so each row is softmax(0, 1.5) = (.1824, .8176).
    mixer = infuser.methods.kam.MapMixer(
        1,
        1,
        layer=0,
        settings=infuser.Kam(alpha=0.5, kernel_size=1, map_step=1.0, limit="off"),
        shared=False,
        last=True,
    ).double()
    with torch.no_grad():
        mixer.scores.fill_(2.0)
        mixer.maps.fill_(3.0)
    knowledge = infuser.methods.kam.MapKnowledge(
        maps=torch.tensor([[[[0.0, 1.0], [1.0, 0.0]]]], dtype=torch.float64),
        rows=torch.ones(1, 2, dtype=torch.bool),
    )
    query = torch.zeros(1, 1, 2, 1, dtype=torch.float64)
    value = torch.tensor([[[[10.0], [20.0]]]], dtype=torch.float64)
    out, weights = mixer(query, query, value, None, knowledge, scaling=1.0, dropout=0.0, want_weights=True)
    expected = torch.tensor([[0.182425523, 0.817574476], [0.817574476, 0.182425523]], dtype=torch.float64)
    torch.testing.assert_close(weights[0, 0], expected)
    torch.testing.assert_close(out[0, :, 0, 0], torch.tensor([18.17574476, 11.82425523], dtype=torch.float64))


def test_a_calm_example_worked_by_hand() -> None:
    # One head, one map, kernel 1, alpha .5, limit 2: a map weight of 6 adds 2 tanh(.5 * 6 / 2) = 1.8103 to a full cell.
    # The score kernel's weight of 3 makes 1 + .5 tanh(3) = 1.4975 times the score; S = 0 here, so that
    # each row is softmax(0, 1.8103) = (.1406, .8594).
    settings = infuser.Kam(alpha=0.5, kernel_size=1, map_step=1.0, limit=2.0)
    mixer = infuser.methods.kam.MapMixer(1, 1, layer=0, settings=settings, shared=False, last=True).double()
    with torch.no_grad():
        mixer.scores.fill_(3.0)
        mixer.maps.fill_(6.0)
    kernel, bias = mixer.folded(torch.zeros((), dtype=torch.float64))
    torch.testing.assert_close(kernel.flatten(), torch.tensor([1.497527, 1.810297]).double(), atol=1e-6, rtol=0)
    assert bias is None
    maps = torch.tensor([[[[0.0, 1.0], [1.0, 0.0]]]], dtype=torch.float64)
    knowledge = infuser.methods.kam.MapKnowledge(maps=maps, rows=torch.ones(1, 2, dtype=torch.bool))
    query = torch.zeros(1, 1, 2, 1, dtype=torch.float64)
    _, weights = mixer(query, query, query, None, knowledge, scaling=1.0, dropout=0.0, want_weights=True)
    torch.testing.assert_close(weights[0, 0, 0], torch.tensor([0.140602, 0.859398]).double(), atol=1e-6, rtol=0)


def test_bert_base_gets_as_many_new_weights_as_the_formula_says() -> None:
    from transformers import BertConfig, BertModel

    with torch.device("meta"):
        host = BertModel(BertConfig())
    infuser.Kam().attach(host, sources=[Repeats()] * 3, vocabulary=Vocabulary.of([Repeats()] * 3))
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
        real = batch["attention_mask"].bool()
        change = (states - infused.model(**plain(batch)).last_hidden_state).abs().amax(-1) * real
        assert change[0].max() > 1e-3
        assert bool(change[1].max() < 1e-12) is bypassed
        with torch.no_grad():
            in_tiles = infused.model(**batch).last_hidden_state
        torch.testing.assert_close(in_tiles[real], states[real])


def with_terms(**settings: Any) -> tuple[infuser.Infused, dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """Return a tiny infusion, a batch with a term tied to its second word, and the same batch without the term."""
    infused = infuse_tiny(sources=[RepeatsAndTerms(weight=0.4)], layers=1, **settings)
    batch = infused.batch(["buy glipizide on the river"])
    assert "knowledge_terms" in batch
    without = ("knowledge_terms", "knowledge_ties", "knowledge_tie_weights")
    return infused, batch, {name: tensor for name, tensor in batch.items() if name not in without}


def test_a_closed_gate_reads_nothing_of_the_terms_and_learns_at_once() -> None:
    for fusion in ("conv", "bias"):
        infused, batch, without = with_terms(fusion=fusion)
        gates = infused.model.encoder.layer[0].attention.self.knowledge.term_gates
        with torch.no_grad():
            gates.zero_()
        there, gone = (infused.model(**one, output_attentions=True).last_hidden_state for one in (batch, without))
        assert torch.equal(there, gone)  # bit for bit
        there.square().sum().backward()
        infused.model.zero_grad()
        infused.model(**batch).last_hidden_state[0, 2, 0].backward()
        opening = gates.grad < 0  # a step against its gradient opens a gate; one that would close stays at 0
        infused.model.zero_grad()
        (-infused.model(**batch).last_hidden_state[0, 2, 0]).backward()
        assert (opening | (gates.grad < 0)).all()
        assert not (opening & (gates.grad < 0)).any()


@torch.no_grad()
def test_a_fresh_bias_answers_as_before_bit_for_bit() -> None:
    sources = [Kinds(), Repeats(weight=0.4)]
    for dtype in (torch.float64, torch.float32):
        host = tiny_host("bert").to(dtype)
        before = infuser.Collator(tiny_tokenizer("bert")).encode([OLD, "cheap medicine"])
        expected = host(**before).last_hidden_state
        infused = infuser.infuse(host, infuser.Kam(fusion="bias"), sources=sources, tokenizer=tiny_tokenizer("bert"))
        assert torch.equal(infused.model(**infused.batch([OLD, "cheap medicine"])).last_hidden_state, expected)


def test_a_term_is_read_by_the_tokens_of_its_mention_and_by_the_first_one() -> None:
    for scope, everywhere in (("mention", False), ("text", True)):
        infused, batch, without = with_terms(term_scope=scope, term_gate=0.5)
        change = infused.model(**batch).last_hidden_state - infused.model(**without).last_hidden_state
        touched = (change.abs().amax(-1) > 1e-6)[0]
        first, last = (int(x) for x in batch["knowledge_ties"][0, 0, 2:4])
        assert touched[first:last].all()
        assert touched[0]
        rest = [place for place in range(1, len(touched)) if not first <= place < last]
        assert touched[rest].all() if everywhere else not touched[rest].any()


def test_a_gate_of_one_is_plain_attention_over_text_and_terms() -> None:
    infused, batch, _ = with_terms(term_scope="text", term_gate=1.0)
    attention = infused.model.encoder.layer[0].attention.self
    with torch.no_grad():
        for weight in attention.knowledge.parameters():
            weight.zero_()  # maps add nothing
    seen: dict[str, Any] = {}
    attention.register_forward_hook(lambda module, args, out: seen.update(states=args[0], out=out[0]))
    infused.model(**batch)
    terms = infused.model.embeddings(input_ids=batch["knowledge_terms"])
    both = torch.cat([seen["states"], terms], dim=1)
    query, key, value = (
        layer(x).unflatten(-1, (2, -1)).transpose(1, 2)
        for layer, x in ((attention.query, seen["states"]), (attention.key, both), (attention.value, both))
    )
    scores = query @ key.transpose(2, 3) / query.shape[-1] ** 0.5
    scores[..., seen["states"].shape[1] :] += torch.log(torch.tensor(0.2))  # a tie of weight .2 counts as that
    expected = (torch.softmax(scores, -1) @ value).transpose(1, 2).flatten(2)
    torch.testing.assert_close(seen["out"], expected)


def test_terms_in_a_batch_need_a_model_with_room_for_them() -> None:
    host = tiny_host("bert")
    infuser.Kam().attach(host, sources=[Repeats()], vocabulary=Vocabulary.of([Repeats()]))
    batch = infuser.Collator(tiny_tokenizer("bert"), [Repeats(term="river")]).encode(["buy glipizide tablets"])
    with pytest.raises(InputError, match="n_terms"):
        host(**batch)


@pytest.mark.parametrize("settings", [{}, {"kernel_size": 5}, {"fusion": "bias"}, {"alpha": 1.0}], ids=str)
@pytest.mark.parametrize("size", [1.0, 1e6])
def test_a_map_never_moves_a_score_by_more_than_the_limit(settings: dict[str, Any], size: float) -> None:
    kam = infuser.Kam(limit=2.5, **settings)
    mixer = infuser.methods.kam.MapMixer(4, 3, layer=0, settings=kam, shared=False, last=True).double()
    with torch.no_grad():
        for weight in mixer.parameters():
            weight.copy_(size * torch.randn_like(weight).sign())
    kernel = mixer.folded(torch.zeros((), dtype=torch.float64))[0]
    moved = kernel[:, 4:].abs().sum((-1, -2))
    assert moved.max() <= 2.5 + 1e-9
    assert moved.min() > 2.4
    identity = infuser.Kam(limit=2.5, **settings)
    plain_kernel = infuser.methods.kam.MapMixer(4, 3, layer=0, settings=identity, shared=False, last=True).double()
    deviation = (kernel - plain_kernel.folded(torch.zeros((), dtype=torch.float64))[0])[:, :4].abs().sum((1, 2, 3))
    assert deviation.max() <= kam.alpha + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("host_rate", [2e-5, 5e-4])
def test_strengths_stay_small_at_any_learning_rate_of_the_host(host_rate: float) -> None:
    sources = [Kinds(), RepeatsAndTerms(weight=0.4)]
    host = tiny_host("bert", "sequence-classification")
    infused = infuser.infuse(host, infuser.Kam(limit=2.0), sources=sources, tokenizer=tiny_tokenizer("bert"))
    examples = [{"text": text, "label": place % 2} for place, text in enumerate((*TEXTS, *PAIRS, OLD, "the old town"))]
    settings = TrainSettings(epochs=200, batch_size=len(examples), learning_rate=host_rate, metric="accuracy")
    train(infused.model, examples, infused.collator(), settings=settings, progress=False)
    for layer in infused.model.bert.encoder.layer:
        mixer = layer.attention.self.knowledge
        strengths = mixer.map_kernel().abs().sum((-1, -2))
        assert 0.05 < strengths.max() <= 2.0  # it did learn
        assert mixer.open_terms(strengths).max() < 1
        centre = mixer.map_kernel()[:, :, 1, 1].abs().mean()
        assert mixer.map_kernel()[:, :, 0].abs().mean() < 0.1 * centre


def test_new_weights_train_at_their_own_rate_unless_training_names_one() -> None:
    for settings, new_rate, rate, decay in (({}, None, 1e-4, 20.0), ({}, 1e-2, 1e-2, 0.2), (PAPER, None, 5e-4, 0.0)):
        model = infuse_tiny(n_terms=False, **settings).model
        new = {id(weight) for name, weight in model.named_parameters() if "knowledge" in name}
        for group in parameter_groups(model, 5e-4, new_rate, 0.01):
            known = {id(weight) for weight in group["params"]} & new
            if known and not settings:
                assert known == new
            if known:
                assert group["highest"] == rate
                assert group["weight_decay"] == pytest.approx(decay)


def test_a_model_of_an_earlier_version_is_refused(tmp_path: Path) -> None:
    infuse_tiny(n_terms=False).save(tmp_path / "old")
    card = json.loads((tmp_path / "old" / "infuser.json").read_text())
    card["method"]["settings"]["term_bias"] = -8.0  # all had it, and their weights meant something else
    (tmp_path / "old" / "infuser.json").write_text(json.dumps(card))
    seal(tmp_path / "old")
    with pytest.raises(CheckpointError, match="train it again"):
        infuser.load(tmp_path / "old", sources=[Kinds(), Repeats()])


def test_typed_maps_are_those_of_one_source_per_type() -> None:
    texts = [OLD, "the green river of the green old town"]
    typed = infuse_tiny(sources=[Kinds()], channels="types")
    kinds = [f"{place} {kind}" for place, names in enumerate((("o", "t", "other"), ("3", "other"))) for kind in names]
    batch = typed.batch(texts)
    assert set(batch["knowledge_kinds"][batch["knowledge_weights"] > 0].tolist()) == {0, 2, 3, 4}
    apart = infuser.infuse(
        tiny_host("bert", num_hidden_layers=3),
        infuser.Kam(),
        sources=[Repeats()] * len(kinds),
        tokenizer=tiny_tokenizer("bert"),
    )
    apart.model.load_state_dict(typed.model.state_dict())
    by_source = {**batch, "knowledge_boxes": batch["knowledge_boxes"].clone()}
    is_box = by_source["knowledge_boxes"][..., 0] >= 0
    by_source["knowledge_boxes"][..., 0][is_box] = batch["knowledge_kinds"][is_box]
    one, other = typed.model(**batch).last_hidden_state, apart.model(**by_source).last_hidden_state
    real = batch["attention_mask"].bool()
    torch.testing.assert_close(one[real], other[real])
    wrong = {**batch, "knowledge_kinds": torch.zeros_like(batch["knowledge_kinds"])}
    assert (typed.model(**wrong).last_hidden_state - one)[real].abs().max() > 1e-3


def test_typed_maps_of_a_batch_without_knowledge_change_nothing() -> None:
    for fusion in ("bias", "conv"):
        infused = infuse_tiny(sources=[Kinds()], channels="types", fusion=fusion, limit=3.0)
        with torch.no_grad():
            for layer in infused.model.encoder.layer:
                if fusion == "conv":
                    layer.attention.self.knowledge.scores.zero_()
                    layer.attention.self.knowledge.gate = torch.nn.Parameter(torch.zeros(()))
                    layer.attention.self.knowledge.bias = None
        batch = infused.batch(["cheap medicine"])
        assert not (batch["knowledge_weights"] > 0).any()
        states = infused.model(**batch).last_hidden_state
        torch.testing.assert_close(states, infused.model(**plain(batch)).last_hidden_state)


def test_typed_maps_refuse_boxes_of_a_source_that_the_model_has_not() -> None:
    infused = infuse_tiny(sources=[Kinds()], channels="types")
    batch = infuser.Collator(tiny_tokenizer("bert"), [Kinds(), Kinds()]).encode([OLD])
    with pytest.raises(InputError, match="source 1, counted from 0, but the model was infused with 1 source"):
        infused.model(**batch)


def test_bias_gives_the_same_answer_with_and_without_attention_weights() -> None:
    infused = infuse_tiny(n_terms=False, fusion="bias", channels="types")
    batch = infused.batch([OLD, "cheap medicine"])
    real = batch["attention_mask"].bool()
    shown = infused.model(**batch, output_attentions=True)
    torch.testing.assert_close(shown.last_hidden_state[real], infused.model(**batch).last_hidden_state[real])
    assert len(shown.attentions) == 3


def test_layers_below_the_first_one_stay_as_they_are() -> None:
    infused = infuse_tiny(first_layer=2, n_terms=False)
    batch = infused.batch(["the old river of the old town"])
    states = infused.model(**batch, output_hidden_states=True).hidden_states
    before = infused.model(**plain(batch), output_hidden_states=True).hidden_states
    assert torch.equal(states[2], before[2])
    assert (states[3] - before[3]).abs().max() > 1e-3


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"alpha": 1.5}, "alpha=1.5"),
        ({"kernel_size": 2}, "kernel_size=2"),
        ({"fusion": "sum"}, "'sum'"),
        ({"start": "zero"}, "'zero'"),
        ({"residual": "on"}, "'on'"),
        ({"channels": "words"}, "'words'"),
        ({"limit": 0}, "limit=0"),
        ({"start": "random"}, "limit='off'"),
        ({"term_gate": 2}, "term_gate=2"),
        ({"term_scope": "page"}, "'page'"),
        ({"own_rate": 0.0}, "own_rate=0.0"),
        ({"decay": 1.0}, "decay=1.0"),
    ],
)
def test_a_setting_out_of_range_is_named(settings: dict[str, object], named: str) -> None:
    with pytest.raises(InputError, match=named):
        infuser.Kam(**settings)  # type: ignore[arg-type]


def test_a_first_layer_beyond_the_last_is_refused() -> None:
    with pytest.raises(InputError, match="this host has 2"):
        infuser.Kam(first_layer=2).attach(tiny_host("bert"), sources=[Repeats()], vocabulary=Vocabulary.of([Repeats()]))


def test_what_does_not_start_at_zero_does_not_decay_to_it() -> None:
    for kam in (infuser.Kam(limit="off"), infuser.Kam(learn_alpha=True)):
        model = infuse_on("bert", method=kam, shaken=False).model
        new = {id(weight) for name, weight in model.named_parameters() if is_new_weight(name)}
        groups = [group for group in parameter_groups(model, 2e-5, None, 0.01) if id(group["params"][0]) in new]
        assert groups and all(group["weight_decay"] == 0 for group in groups)
