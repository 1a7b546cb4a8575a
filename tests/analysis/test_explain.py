"""What an explanation holds: attention as the model computes it, maps as the sources know them, answers."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from miniatures import HOSTS, Repeats, tiny_host, tiny_tokenizer
from tiny_infusions import KNOWN_TEXT, infuse_tiny, shake, tiny_base

import infuser
from infuser.analysis.explain import explain, read
from infuser.analysis.explanation import Explanation
from infuser.analysis.head_changes import runaway_heads, share_moved, words_without_knowledge
from infuser.analysis.predict import label_names, probabilities
from infuser.errors import InputError
from infuser.hosts import is_new_weight
from infuser.linking.inference import find_mentions
from infuser.methods import Kar, Types
from infuser.relations.encoders import Encoder
from infuser.signals import Collator
from infuser.sources import Correlation, Entities
from infuser.sources.naming import source_names
from infuser.tasks.ner import find_entities
from infuser.types import Annotations, Source

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


def infuse_several(*sources: Source, head: str = "sequence-classification") -> infuser.Infused:
    """Return a tiny host with Types and Kam inside, whose new weights are no longer those that change nothing."""
    methods = [Types(), infuser.Kam()]
    infused = infuser.infuse(tiny_host("bert", head), methods, sources=list(sources), tokenizer=tiny_tokenizer("bert"))
    shake(infused.model)
    return infused


def test_a_method_is_left_out_by_its_name_and_has_an_answer_without_it() -> None:
    infused = infuse_several(Entities({"glipizide": "drug", "Zürich": "city"}))
    whole, half = explain(infused, TEXT, PAIR), explain(infused, TEXT, PAIR, off=["kam"])
    assert list(whole.answers_without) == ["entities", "types", "kam"] and half.off == ("kam",)
    assert list(half.answers_without) == ["entities", "types"] and half.maps.keys() == whole.maps.keys()
    with torch.inference_mode():
        logits = infused.model(**infused.batch([TEXT], [PAIR]), knowledge_off=["kam"]).logits
    assert list((half.answer_infused or {}).values()) == pytest.approx(logits.softmax(-1)[0].tolist())
    assert half.answer_infused == pytest.approx(whole.answers_without["kam"]) != pytest.approx(whole.answer_infused)
    assert half.answers_without["types"] == pytest.approx(whole.answer_plain)  # nothing is left of the method
    assert explain(infused, TEXT, PAIR, off=["method:kam"]).to_dict() == half.to_dict()
    with pytest.raises(
        InputError, match="no source or method 'text' to leave out: this model has entities, types, kam"
    ):
        explain(infused, TEXT, off=["text"])


def test_gates_of_types_are_those_of_the_tokens_of_mentions() -> None:
    infused = infuse_several(Entities({"glipizide": "drug"}))
    explanation = explain(infused, TEXT)
    pairs = zip(explanation.words, explanation.gates["bottom"], strict=True)
    assert "".join(word for word, share in pairs if share is not None).replace("##", "") == "glipizide"
    assert explanation.gates["top"][0] is not None and explanation.gates["top"][1] is None  # [CLS] gets the mean, too
    layer = infused.model.base_model.embeddings.knowledge.bottom
    torch.nn.init.zeros_(layer.from_state.weight)
    torch.nn.init.zeros_(layer.from_types.weight)
    torch.nn.init.constant_(layer.from_state.bias, -math.log(3))  # a quarter open, and so half of what it was
    assert all(share in (None, pytest.approx(0.5)) for share in explain(infused, TEXT).gates["bottom"])
    assert explain(infused, TEXT, off=["types"]).gates == explain(infuse(), TEXT).gates == {}
    assert Explanation.from_dict(explanation.to_dict()).to_dict()["gates"] == explanation.to_dict()["gates"]


def test_a_source_wins_its_name_and_a_single_method_has_no_switch() -> None:
    class kam(Repeats):
        """A source whose name is that of a method."""

    infused = infuse_several(kam())
    explanation = explain(infused, KNOWN_TEXT, off=["kam"])
    assert explanation.off == ("kam",) and not explanation.maps
    assert list(explain(infused, KNOWN_TEXT).answers_without) == ["kam", "types", "method:kam"]
    assert explain(infused, KNOWN_TEXT, off=["method:kam"]).off == ("method:kam",)
    with pytest.raises(InputError, match="no source 'kam' to leave out"):
        explain(infuse(), TEXT, off=["kam"])


def test_a_linker_that_is_left_out_chooses_nothing() -> None:
    infused = infuser.infuse(
        tiny_host("bert", "sequence-classification", num_hidden_layers=3),
        [Types(), Kar()],
        sources=[tiny_base("places")],
        tokenizer=tiny_tokenizer("bert"),
    )
    assert explain(infused, KNOWN_TEXT).mentions and not explain(infused, KNOWN_TEXT, off=["kar"]).mentions
    types = infuser.infuse(tiny_host("bert"), Types(), sources=[tiny_base("places")], tokenizer=tiny_tokenizer("bert"))
    assert not explain(types, KNOWN_TEXT).mentions  # no method reads what the base offers


def test_heads_run_away_that_move_most_attention_of_words_without_knowledge() -> None:
    calm = infuse_tiny("bert", "sequence-classification")
    assert explain(calm, KNOWN_TEXT).runaway == ()
    infused = infuser.infuse(tiny_host("bert"), sources=[Entities(["river"])], tokenizer=tiny_tokenizer("bert"))
    reading = read(infused, "the old river lies near the town")
    one = torch.eye(len(reading.about.words), dtype=torch.float64)
    half = 0.45 * one + 0.55 * one.roll(1, dims=0)
    plain, changed = torch.stack([one, one])[None], torch.stack([half, one])[None]
    unknown = words_without_knowledge(infused.batch(["the old river lies near the town"]), infused.tokenizer)
    assert [word for word, free in zip(reading.about.words, unknown, strict=True) if free] == (
        ["the", "old", "lies", "near", "the", "town"]
    )
    assert runaway_heads(share_moved(plain, changed), unknown) == ((0, 0, pytest.approx(0.55)),)
    changed[0, 0, unknown] = one[unknown]  # what it moves on words that are known may be as much as it likes
    assert runaway_heads(share_moved(plain, changed), unknown) == ()
    assert runaway_heads(share_moved(plain, changed), torch.zeros_like(unknown)) == ()


def test_a_model_that_ran_away_says_so() -> None:
    unbounded, sources = infuser.Kam(limit="off"), [Entities(["bridge"])]
    infused = infuser.infuse(tiny_host("bert"), unbounded, sources=sources, tokenizer=tiny_tokenizer("bert"))
    for seed in range(20):
        shake(infused.model, seed=seed)
    explanation = explain(infused, "the town lies near the old bridge")
    assert explanation.runaway
    layer, head, share = explanation.runaway[0]
    assert share > 0.5 and f"layer {layer} head {head} ({share:.0%})" in (explanation.warning or "")
    assert explanation.to_dict()["runaway"][0] == [layer, head, round(share, 6)]


def test_a_tagger_shows_the_entities_that_it_finds_without_knowledge_and_with_it() -> None:
    infused = infuse_several(Entities({"glipizide": "drug", "Zürich": "city"}), head="token-classification")
    infused.model.config.id2label = {0: "O", 1: "B-Drug", 2: "I-Drug"}
    torch.nn.init.constant_(infused.model.classifier.bias[:1], -9.0)  # O is not all it says
    explanation = explain(infused, TEXT)
    example = [{"text": TEXT}]
    [found] = find_entities(infused.model, infused.collator(), example)
    [plain] = find_entities(infused.model, Collator(infused.tokenizer), example)
    assert explanation.entities_infused == tuple((*one[:3], pytest.approx(one[3])) for one in found)
    assert explanation.entities_plain == tuple((*one[:3], pytest.approx(one[3])) for one in plain)
    assert found != plain and (found or plain) and explanation.answer_plain is None
    assert list(explanation.entities_without) == ["entities", "types", "kam"]
    silent = explain(infused, TEXT, off=["entities"])
    assert silent.entities_infused == explanation.entities_without["entities"]
    told = json.loads(json.dumps(explanation.to_dict()))
    assert Explanation.from_dict(told).entities_infused == tuple((*one[:3], round(one[3], 6)) for one in found)


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
