"""Types against an example worked by hand and a slow, literal transcription; what its gate and its names can do."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from miniatures import PAIRS, TEXTS, tiny_host, tiny_tokenizer
from numpy.typing import NDArray
from tiny_infusions import KNOWN_TEXT, answer, infuse_tiny, plain, shake
from torch import Tensor
from torch.nn.functional import pad
from transformers.pipelines.base import pad_collate_fn

import infuser
from infuser import Entities, Types
from infuser.errors import InputError, SourceError
from infuser.methods.types import PLACES, TiedNames, TypeKnowledge, TypeVectors, open_gate
from infuser.types import OTHER, Source, Vocabulary

CITIES = {"Bern": "city", "river": "water", "old bridge": "building", "town": "city"}
ROWS = [KNOWN_TEXT, "the train from Bern to the town", "cheap medicine"]


def infuse_types(
    *sources: Source, host: str = "bert", shaken: bool = True, padding_side: str = "right", **settings: Any
) -> infuser.Infused:
    infused = infuser.infuse(
        tiny_host(host),
        Types(**settings),
        sources=sources or [Entities(CITIES, n_terms=1)],
        tokenizer=tiny_tokenizer(host, padding_side=padding_side),
    )
    if shaken:
        shake(infused.model)
        for name, weight in infused.model.named_parameters():
            if name.endswith("name_gates"):
                weight.data.abs_()  # open
    return infused


def states_of(infused: infuser.Infused, texts: list[str], **options: Any) -> Tensor:
    batch = infused.batch(texts)
    with torch.no_grad():
        return answer(infused.model, {**batch, **options}) * batch["attention_mask"][..., None]


def watched(infused: infuser.Infused, batch: Mapping[str, Tensor]) -> dict[str, tuple[Tensor, Tensor]]:
    """Return the states that each place of the method gets and returns in one call."""
    seen: dict[str, tuple[Tensor, Tensor]] = {}
    embeddings: Any = infused.model.base_model.embeddings
    hooks = [
        layer.register_forward_hook(lambda _, args, out, name=name: seen.__setitem__(name, (args[0], out)))
        for name, layer in embeddings.knowledge.named_children()
    ]
    with torch.no_grad():
        infused.model(**batch)
    for hook in hooks:
        hook.remove()
    return seen


def test_an_example_worked_by_hand() -> None:
    vocabulary = Vocabulary((("city", OTHER),), (("type", OTHER),), with_terms=True)
    layer = TypeVectors(2, vocabulary, settings=Types(vectors="both", step=10.0, name_step=2.0), with_names=True)
    layer.double()
    with torch.no_grad():
        layer.vectors[PLACES.index("begin")] = torch.tensor([0.1, 0.0])  # E = (1, 0): held divided by ten
        layer.vectors[PLACES.index("end")] = torch.tensor([0.0, 0.2])  # E = (0, 2)
        layer.name_gates[0] = math.atanh(0.5) / 2  # g = 0.5
        layer.from_state.weight[0, 0] = math.log(3)
    states = torch.tensor([[[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]]], dtype=torch.float64)
    zeros = torch.zeros(2, dtype=torch.long)
    # the mention is token 1 and token 2; its type's name is tied to both with a weight of 1
    names = TiedNames(
        torch.tensor([[[2.0, -2.0]]]), zeros[None, :1], zeros[None, :1], torch.tensor([[[0.0, 1.0, 1.0]]])
    )
    known = TypeKnowledge(zeros, torch.tensor([1, 2]), zeros, zeros, torch.tensor([0, 2]), torch.ones(2), names)
    # f_1 = (1, 0) + .5 (2, -2) = (2, -1), f_2 = (0, 2) + (1, -1) = (1, 1)
    # 2 sigmoid(log 3 * 1) = 1.5, 2 sigmoid(0) = 1
    expected = [[[1.0, 1.0], [1 + 1.5 * 2, 0 - 1.5], [0 + 1.0, 1 + 1.0]]]
    torch.testing.assert_close(layer(states, known), torch.tensor(expected, dtype=torch.float64))


def literally(
    infused: infuser.Infused, place: str, states: NDArray[np.float64], batch: dict[str, NDArray[Any]]
) -> NDArray[np.float64]:
    """Return what one place makes of the states, token by token, by the formula of the method's docstring."""
    state = {name: tensor.numpy() for name, tensor in infused.model.state_dict().items()}
    mine = {
        name.rpartition(f"knowledge.{place}.")[2]: value for name, value in state.items() if f".{place}." in f".{name}"
    }
    words, method = state["embeddings.word_embeddings.weight"], infused.method
    assert isinstance(method, Types)
    out = states.copy()
    for text, mask in enumerate(batch["attention_mask"]):
        mentions = [tuple(span) for span in batch["knowledge_spans"][text] if span[3] > span[2]]
        ties = [
            (tie, weight)
            for tie, weight in zip(
                batch["knowledge_ties"][text], batch["knowledge_tie_weights"][text].astype(float), strict=True
            )
            if weight
        ]

        def learned(source: int, kind: int, where: str) -> NDArray[np.float64]:
            before = sum(len(types) for types in infused.vocabulary.types[:source])
            row: NDArray[np.float64] = method.step * mine["vectors"][(before + kind) * 5 + PLACES.index(where)]
            return row

        def name(tie: Any, text: int = text) -> NDArray[np.float64]:
            before = sum(len(relations) for relations in infused.vocabulary.relations[: tie[0]])
            gate = math.tanh(max(0.0, method.name_step * mine["name_gates"][before + tie[1]]))
            pieces = batch["knowledge_terms"][text][tie[4] : tie[5]]
            mean = sum(words[piece] for piece in pieces) / len(pieces)
            normed: NDArray[np.float64] = (mean - mean.mean()) / math.sqrt(mean.var() + 1e-5)
            return gate * normed

        for token in range(int(mask.sum())):
            f = np.zeros(states.shape[-1])
            for source, kind, start, end in mentions:
                if start <= token < end:
                    one, first, last = end - start == 1, token == start, token == end - 1
                    where = "single" if one else "begin" if first else "end" if last else "inside"
                    f += learned(source, kind, where) if "vectors" in mine else 0
                if place == "top" and token == 0:
                    f += learned(source, kind, "text") / len(mentions) if "vectors" in mine else 0
            for tie, weight in ties if "name_gates" in mine else ():
                f += weight * name(tie) if tie[2] <= token < tie[3] else 0
                f += name(tie) / len(ties) if place == "top" and token == 0 else 0
            x = states[text, token]
            gate = mine["from_state.weight"][0] @ x + mine["from_types.weight"][0] @ f + mine["from_state.bias"][0]
            out[text, token] = x + 2 / (1 + math.exp(-gate)) * f
    return out


@pytest.mark.parametrize("vectors", ["learned", "names", "both"])
def test_the_method_agrees_with_a_literal_transcription(vectors: str) -> None:
    sources = [Entities({"Aare": "river"}, n_terms=0), Entities({**CITIES, "old town": "district"}, n_terms=1)]
    infused = infuse_types(*sources, vectors=vectors)
    batch = infused.batch(ROWS)
    arrays = {name: tensor.numpy() for name, tensor in batch.items()}
    seen = watched(infused, batch)
    assert set(seen) == {"bottom", "top"}
    for place, (before, after) in seen.items():
        expected = literally(infused, place, before.numpy(), arrays)
        real = batch["attention_mask"].bool().numpy()
        np.testing.assert_allclose(after.numpy()[real], expected[real], atol=1e-10, rtol=0)
        assert (after - before).abs().max() > 1e-2


@pytest.mark.parametrize("vectors", ["learned", "names", "both"])
def test_tokens_without_a_mention_stay_as_they_are(vectors: str) -> None:
    infused = infuse_types(vectors=vectors)
    batch = infused.batch(ROWS)
    token = torch.arange(batch["input_ids"].shape[1])
    spans = batch["knowledge_spans"]
    covered = ((token >= spans[..., 2:3]) & (token < spans[..., 3:4])).any(dim=1)
    assert covered.any() and not covered[2].any()
    seen = watched(infused, batch)
    before, after = seen["bottom"]
    assert torch.equal(before[~covered], after[~covered])
    assert (before != after).any(dim=-1)[covered].all()
    before, after = seen["top"]
    known = spans[..., 3].any(dim=1)
    assert (before != after).any(dim=-1)[known, 0].all()  # [CLS] hears of all mentions of its text
    covered[known, 0] = True
    assert torch.equal(before[~covered], after[~covered])


def test_the_gate_can_overrule_a_list_by_the_words_own_state() -> None:
    infused = infuse_types()
    changed = states_of(infused, ROWS)
    for name, weight in infused.model.named_parameters():
        if name.endswith("from_state.bias"):
            weight.data.fill_(-60.0)
    batch = infused.batch(ROWS)
    with torch.no_grad():
        before = answer(infused.model, plain(batch)) * batch["attention_mask"][..., None]
    assert (changed - before).abs().max() > 1e-2
    assert (states_of(infused, ROWS) - before).abs().max() < 1e-12


def test_an_open_gate_is_never_negative_but_can_be_opened_from_below() -> None:
    gate = torch.tensor([-1.0, -1.0, 0.0, 0.0, 2.0, 2.0], requires_grad=True)
    wanted = torch.tensor([1.0, -1.0, 1.0, -1.0, 1.0, -1.0])
    opened = open_gate(gate)
    assert opened.tolist() == [0, 0, 0, 0, 2, 2]
    (-wanted * opened).sum().backward()  # a step against the gradient opens the gates where 1 is wanted
    assert gate.grad is not None and gate.grad.tolist() == [-1, 0, -1, 0, -1, 1]


def as_type(infused: infuser.Infused, kind: str) -> Tensor:
    """Return the states of a text in which Bern is of another type than when the model was infused."""
    return states_of(infused.with_sources([Entities({"Bern": kind}, n_terms=1)]), ["Bern lies on the Aare"])


def test_names_of_types_that_the_model_has_never_seen_change_the_answer() -> None:
    source = Entities({"Bern": "city"}, n_terms=1)
    by_name = infuse_types(source, vectors="names")
    assert (as_type(by_name, "river") - as_type(by_name, "pharmacy")).abs().max() > 1e-2
    learned = infuse_types(source, vectors="learned")
    assert torch.equal(as_type(learned, "river"), as_type(learned, "pharmacy"))  # both are "other"
    assert (as_type(learned, "river") - as_type(learned, "city")).abs().max() > 1e-2


def test_names_are_read_where_sources_offer_terms() -> None:
    offering, silent = infuse_types(Entities({"Bern": "city"}, n_terms=1)), infuse_types(Entities({"Bern": "city"}))
    assert offering.model.embeddings.knowledge.bottom.name_gates is not None
    assert silent.model.embeddings.knowledge.bottom.name_gates is None
    assert all(one.model.embeddings.knowledge.bottom.vectors is not None for one in (offering, silent))


@pytest.mark.parametrize("vectors", ["names", "both"])
def test_names_need_a_source_that_offers_terms(vectors: str) -> None:
    host = tiny_host("bert")
    with pytest.raises(SourceError, match=r"terms that sources offer.*n_terms=1"):
        infuser.infuse(host, Types(vectors=vectors), sources=Entities(CITIES), tokenizer=tiny_tokenizer("bert"))
    infuser.infuse(host, Types(), sources=Entities(CITIES), tokenizer=tiny_tokenizer("bert"))  # it is clean


@pytest.mark.parametrize(
    "settings", [{"vectors": "none"}, {"where": "middle"}, {"step": 0.0}, {"name_step": -1.0}], ids=str
)
def test_settings_that_cannot_be_used_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"{next(iter(settings))}={next(iter(settings.values()))!r}"):
        Types(**settings)


@pytest.mark.parametrize("where", ["bottom", "top"])
def test_one_place_alone_has_its_weights_alone(where: str) -> None:
    infused = infuse_types(where=where)
    assert {name for name, _ in infused.model.embeddings.knowledge.named_children()} == {where}
    batch = infused.batch(ROWS)
    with torch.no_grad():
        assert (answer(infused.model, batch) - answer(infused.model, plain(batch))).abs().max() > 1e-2


# What clients do with the tensors.


@pytest.mark.parametrize("method", ["types", "types-both", "kam", "together"])
def test_zeros_that_a_client_pads_with_do_no_harm(method: str) -> None:
    infused = infuse_tiny("bert", method=method)
    batch = infused.batch(TEXTS, PAIRS)
    assert "knowledge_ties" in batch
    padded = {
        name: pad(tensor, (*[0, 0] * (tensor.dim() - 2), 0, 3)) if name.startswith("knowledge_") else tensor
        for name, tensor in batch.items()
    }
    with torch.no_grad():
        torch.testing.assert_close(answer(infused.model, padded), answer(infused.model, batch), atol=1e-12, rtol=0)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("method", ["types", "types-both", "kam", "together"])
def test_texts_that_a_pipeline_lays_side_by_side_are_read_as_alone(method: str, side: str) -> None:
    infused = infuse_tiny("roberta", method=method, padding_side=side)  # its positions do not count padding
    tokenizer = infused.reading_tokenizer()
    texts = [KNOWN_TEXT, "buy glipizide tablets", "medicine"]
    singles = [dict(tokenizer(text, return_tensors="pt")) for text in texts]
    batch = pad_collate_fn(tokenizer, None)([dict(single) for single in singles])
    assert batch["input_ids"].shape[0] == 3 and not batch["attention_mask"].all()
    with torch.no_grad():
        together = answer(infused.model, batch)
        for row, single in enumerate(singles):
            alone = answer(infused.model, single)[0]
            torch.testing.assert_close(together[row][batch["attention_mask"][row].bool()], alone, atol=1e-9, rtol=0)
