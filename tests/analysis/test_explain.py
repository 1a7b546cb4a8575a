"""What an explanation holds: attention as the model computes it, maps as the sources know them, answers."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from miniatures import HOSTS, Repeats, tiny_host, tiny_tokenizer
from tiny_infusions import KNOWN_TEXT, infuse_tiny

import infuser
from infuser.analysis.explain import explain
from infuser.analysis.explanation import Explanation
from infuser.analysis.predict import label_names, probabilities
from infuser.errors import InputError
from infuser.hosts import is_new_weight
from infuser.linking.inference import find_mentions
from infuser.relations.encoders import Encoder
from infuser.sources import Correlation, Entities
from infuser.sources.naming import source_names
from infuser.types import Annotations

TEXT, PAIR = "buy glipizide tablets", "the pharmacy near Zürich"


def infuse(host: str = "bert", head: str = "sequence-classification", *, learned: bool = True) -> infuser.Infused:
    sources = [
        Entities(["glipizide tablets", "Zürich"]),
        Correlation({("buy", "pharmacy"): 2.0, ("buy", "shop"): 4.0}, n_terms=1),
    ]
    infused = infuser.infuse(tiny_host(host, head), sources=sources, tokenizer=tiny_tokenizer(host))
    if learned:
        torch.manual_seed(1)
        with torch.no_grad():
            for name, weight in infused.model.named_parameters():
                if is_new_weight(name):
                    weight += 0.2 * torch.randn_like(weight)
    return infused


@pytest.mark.parametrize("host", HOSTS)
def test_attention_is_what_the_model_computes(host: str) -> None:
    infused = infuse(host)
    explanation = explain(infused, TEXT, PAIR, layer=0, head=1)
    batch = infused.batch([TEXT], [PAIR])
    with torch.inference_mode():
        with_knowledge = infused.model(**batch, output_attentions=True)
        host = infused.detach()
        host.set_attn_implementation("eager")  # sdpa gives no attention away
        plain = host(
            **{name: tensor for name, tensor in batch.items() if not name.startswith("knowledge_")},
            output_attentions=True,
        )
    np.testing.assert_allclose(explanation.infused, with_knowledge.attentions[0][0, 1].numpy(), atol=1e-9)
    np.testing.assert_allclose(explanation.plain, plain.attentions[0][0, 1].numpy(), atol=1e-9)
    np.testing.assert_allclose(explanation.plain.sum(axis=1), 1, atol=1e-9)
    assert np.abs(explanation.difference).max() > 1e-3
    expected = with_knowledge.logits.softmax(-1)[0].tolist()
    assert list((explanation.answer_infused or {}).values()) == pytest.approx(expected)
    assert list((explanation.answer_plain or {}).values()) == pytest.approx(plain.logits.softmax(-1)[0].tolist())


def test_maps_tie_the_words_that_the_sources_know() -> None:
    explanation = explain(infuse(), TEXT, PAIR)
    words = explanation.words
    assert words[:3] == ["[CLS]", "buy", "gli"] and words[-1] == "[SEP]"
    entities, correlation = explanation.maps["entities"], explanation.maps["correlation"]
    inside = slice(words.index("gli"), words.index("tablets") + 1)
    assert (entities[inside, inside] == 1).all()
    buy, pharmacy = words.index("buy"), words.index("pharmacy")
    assert correlation[buy, pharmacy] == correlation[pharmacy, buy] == 0.5
    assert explanation.terms == ["shop"] and correlation[buy, len(words)] == 1
    assert entities[0].sum() == correlation[0].sum() == 0  # no row for [CLS]: no source knows it


@pytest.mark.parametrize("host", HOSTS)
def test_words_are_spelled_as_in_the_text(host: str) -> None:
    text = "Zürich sells 京 tablets"
    infused = infuse(host)
    words = explain(infused, text).words
    assert "##" not in words[0]
    pieces = [word.lstrip("Ġ▁#") for word in words if word not in infused.tokenizer.all_special_tokens]
    assert set("".join(pieces)) <= set(text) | {"▁"}  # no "Ã¼" of byte-level pieces


def test_a_fresh_infusion_changes_nothing() -> None:
    infused = infuser.infuse(tiny_host("bert"), sources=[Entities(["glipizide"])], tokenizer=tiny_tokenizer("bert"))
    explanation = explain(infused, TEXT)
    np.testing.assert_allclose(explanation.plain, explanation.infused, atol=1e-12)
    assert explanation.maps["entities"].any() and explanation.answer_plain is None  # an encoder gives no answer


@pytest.mark.parametrize("head", ["token-classification", "question-answering", "masked-lm"])
def test_models_that_do_not_label_texts_are_explained_without_an_answer(head: str) -> None:
    explanation = explain(infuse(head=head), TEXT, PAIR)
    assert explanation.answer_plain is explanation.answer_infused is None
    assert np.abs(explanation.difference).max() > 1e-3


def test_heads_are_averaged_and_layers_counted_from_either_end() -> None:
    infused = infuse()
    last = [explain(infused, TEXT, layer=1, head=head) for head in range(2)]
    mean = explain(infused, TEXT, layer=-1)
    assert mean.layer == 1 and mean.head is None
    np.testing.assert_allclose(mean.infused, (last[0].infused + last[1].infused) / 2, atol=1e-12)
    for layer, head in ((2, None), (-3, None), (0, 2)):
        with pytest.raises(InputError, match=r"There is no (layer|head) -?\d: this model has 2"):
            explain(infused, TEXT, layer=layer, head=head)


def test_the_strongest_change_is_the_strongest_of_all() -> None:
    infused = infuse()
    changes = {
        # what a head takes away; some of that goes to the auxiliary term, so it is more than what others gain
        (layer, head): -float(explain(infused, TEXT, PAIR, layer=layer, head=head).difference.clip(max=0).sum(1).mean())
        for layer in range(2)
        for head in range(2)
    }
    strongest = explain(infused, TEXT, PAIR, layer="strongest")
    assert (strongest.layer, strongest.head) == max(changes, key=lambda place: changes[place])
    assert strongest.changes is not None
    assert {place: float(strongest.changes[place]) for place in changes} == pytest.approx(changes)
    unchanged = explain(infuse(learned=False), TEXT, PAIR, layer="strongest", off=["correlation"])
    assert (unchanged.layer, unchanged.head) == (1, None)


def test_a_model_in_training_is_explained_without_dropout_and_goes_on_training() -> None:
    infused = infuse()
    expected = explain(infused, TEXT)
    infused.model.train()
    again = explain(infused, TEXT)
    assert infused.model.training
    np.testing.assert_array_equal(again.infused, expected.infused)


@pytest.mark.parametrize("text", ["", "   ", "👍🏽 e\u0301", "word " * 500])
def test_odd_texts_are_explained(text: str) -> None:
    explanation = explain(infuse(), text)
    assert isinstance(explanation, Explanation)
    assert explanation.infused.shape == (len(explanation.words),) * 2
    assert len(explanation.words) <= 64


def test_sources_of_one_kind_are_numbered_and_foreign_ones_go_by_their_class() -> None:
    sources = [Entities(["a"]), Repeats(), Entities(["b"])]
    assert source_names(sources) == ["entities 1", "Repeats", "entities 2"]


def test_answers_follow_the_kind_of_problem() -> None:
    logits = torch.tensor([[0.0, 1.0, 3.0]])
    model = tiny_host("bert", "sequence-classification")
    torch.testing.assert_close(probabilities(model, logits), logits.softmax(-1))
    model.config.problem_type = "multi_label_classification"
    torch.testing.assert_close(probabilities(model, logits), logits.sigmoid())
    assert label_names(model) == ["LABEL_0", "LABEL_1", "LABEL_2"]
    number = tiny_host("bert", "sequence-classification", num_labels=1)
    torch.testing.assert_close(probabilities(number, logits[:, :1]), logits[:, :1])
    assert label_names(number) == ["score"]


@pytest.mark.parametrize("method", ["kar", "ernie"])
def test_a_method_between_the_blocks_is_seen_in_the_attention_above_it(method: str) -> None:
    infused = infuse_tiny("bert", "sequence-classification", method, num_hidden_layers=3)
    before = infused.model.config._attn_implementation
    explanation = explain(infused, KNOWN_TEXT, layer=-1)
    assert np.abs(explanation.infused - explanation.plain).max() > 1e-3
    assert infused.model.config._attn_implementation == before


def test_a_source_that_is_off_has_no_map_and_no_part_in_the_answer() -> None:
    infused = infuse()
    whole, half = explain(infused, TEXT, PAIR), explain(infused, TEXT, PAIR, off=["correlation"])
    assert (half.off, list(half.maps), half.terms) == (("correlation",), ["entities"], [])
    assert list(half.found) == ["entities", "correlation"] and half.found == whole.found
    assert half.answer_plain == whole.answer_plain and half.answer_infused != whole.answer_infused
    assert half.answer_infused == pytest.approx(whole.answers_without["correlation"])
    assert list(whole.answers_without) == ["entities", "correlation"] and list(half.answers_without) == ["entities"]
    with pytest.raises(InputError, match="no source 'graph' to leave out: this model has entities, correlation"):
        explain(infused, TEXT, off=["graph"])


def test_sources_are_not_asked_about_what_they_have_found_already() -> None:
    infused = infuse()
    (found,) = infused.collator().annotate([TEXT], [PAIR])
    silent = [Annotations(one.text) for one in found]
    assert explain(infused, TEXT, PAIR, found=found).to_dict() == explain(infused, TEXT, PAIR).to_dict()
    assert not any(drawn.any() for drawn in explain(infused, TEXT, PAIR, found=silent).maps.values())


@pytest.mark.parametrize("method", ["kar", "ernie"])
def test_mentions_come_with_their_candidates_and_what_was_chosen(method: str) -> None:
    infused = infuse_tiny("bert", "sequence-classification", method, num_hidden_layers=3)
    mentions = explain(infused, KNOWN_TEXT).mentions
    (bridge,) = (one for one in mentions if one.text == "old bridge" and one.base == mentions[0].base)
    assert {one.id: one.prior for one in bridge.candidates} == pytest.approx({"Q1": 0.75, "Q2": 0.25})
    if method == "kar":
        linked = find_mentions(infused, [KNOWN_TEXT])[0]
        assert [(one.start, one.end, one.id, one.base) for one in mentions] == [
            (one.start, one.end, one.id, one.base) for one in linked
        ]
        assert [one.score for one in mentions] == pytest.approx([one.score for one in linked])
    else:  # the most probable; what lies inside a longer mention has none
        assert bridge.id == "Q1" and bridge.candidates[0].weight == 1
        assert {one.id for one in mentions if one.text == "bridge"} == {None}
    first = explain(infused, KNOWN_TEXT).to_dict()
    names = source_names(infused.sources)
    without = explain(infused, KNOWN_TEXT, off=names[:1])
    assert {one.base for one in without.mentions} == {one.base for one in mentions} - {mentions[0].base}
    assert without.to_dict()["answer_infused"] == pytest.approx(first["answers_without"][names[0]], abs=2e-6)


def test_a_plain_encoder_shows_its_attention() -> None:
    explanation = explain(Encoder(tiny_host("bert"), tiny_tokenizer("bert")), TEXT, layer=0, head=1)
    assert (explanation.layer, explanation.head, explanation.maps) == (0, 1, {})
    np.testing.assert_allclose(explanation.plain.sum(axis=1), 1, atol=1e-9)
    np.testing.assert_array_equal(explanation.plain, explanation.infused)


def test_an_explanation_comes_back_from_json_whole() -> None:
    infused = infuse_tiny("bert", "sequence-classification", "kar", num_hidden_layers=3)
    told = explain(infused, KNOWN_TEXT).to_dict()
    again = Explanation.from_dict(json.loads(json.dumps(told, allow_nan=False)))
    assert again.to_dict() | {"found": {}} == told | {"found": {}}  # candidates are told with the mentions
    assert again.mentions and {name: one.spans for name, one in again.found.items()} == {
        name: one.spans for name, one in explain(infused, KNOWN_TEXT).found.items()
    }
