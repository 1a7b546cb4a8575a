"""Views answer as the library does, ask sources once about a text, and say what they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
from miniatures import tiny_host, tiny_tokenizer
from relation_texts import shaped_texts
from tiny_infusions import KNOWN_TEXT

import infuser
from infuser import Kam
from infuser.analysis.explain import explain
from infuser.errors import InputError
from infuser.infused import Infused
from infuser.methods import Text, Types
from infuser.relations.encoders import Encoder
from infuser.relations.extraction import extract
from infuser.sources import Entities
from infuser.sources.naming import source_names
from infuser.types import Annotations, Source
from infuser.viewer.opening import open_view
from infuser.viewer.request import ViewRequest
from infuser.viewer.views import InfusedView, RelationsView, SampleText, warm_up


@dataclass(frozen=True)
class Counted:
    """A source that counts how often it is asked."""

    inside: Source
    asked: list[str] = field(default_factory=list)

    def annotate(self, texts: Sequence[str]) -> list[Annotations]:
        self.asked.extend(texts)
        return self.inside.annotate(texts)

    @classmethod
    def tiny(cls) -> Self:
        return cls(Entities.tiny())


def test_a_view_answers_as_the_library_does(view: InfusedView) -> None:
    names = source_names(view.infused.sources)
    seen = view.see(ViewRequest(KNOWN_TEXT, "the river", frozenset(names[:1]), layer="strongest"))
    assert seen.to_dict() == explain(view.infused, KNOWN_TEXT, "the river", off=names[:1], layer="strongest").to_dict()


def test_what_the_page_needs_is_told(view: InfusedView) -> None:
    about = view.about()
    assert (about["kind"], about["n_layers"], about["n_heads"], about["pairs"]) == ("kam", 2, 2, True)
    assert [source["name"] for source in about["sources"]] == source_names(view.infused.sources)
    assert about["examples"] == [{"text": KNOWN_TEXT, "pair": "the river"}] and about["methods"] == []


def test_several_methods_have_switches_beside_those_of_the_sources() -> None:
    methods = [Types(), Kam()]
    infused = infuser.infuse(
        tiny_host("bert", "sequence-classification"),
        methods,
        sources=[Entities({"river": "water"})],
        tokenizer=tiny_tokenizer("bert"),
    )
    view = InfusedView(infused, "several")
    assert [one["name"] for one in view.about()["methods"]] == ["types", "kam"]
    assert view.about()["methods"][1]["about"] == "KAM: knowledge-assisted attention maps."
    assert view.see(ViewRequest(KNOWN_TEXT, off=frozenset(["kam"]))).off == ("kam",)


@pytest.mark.parametrize("method", [Text(), [Types(), Text()]], ids=["alone", "beside types"])
def test_a_model_that_reads_its_knowledge_as_text_can_be_opened_and_answers(
    method: Any, tmp_path: Path, make_client: Callable[..., Any]
) -> None:
    host, tokenizer = tiny_host("bert", "sequence-classification"), tiny_tokenizer("bert")
    infused = infuser.infuse(host, method, sources=[Entities({"river": "water"})], tokenizer=tokenizer)
    infused.save(tmp_path / "model")
    view = open_view(str(tmp_path / "model"))
    assert view.about()["kind"] == ("text" if isinstance(method, Text) else "types+text")
    seen = view.see(ViewRequest("the old river", "the town", layer="strongest"))
    assert seen.to_dict() == explain(infused, "the old river", "the town", layer="strongest").to_dict()
    assert seen.written == "river: water" and seen.answer_infused != seen.answer_plain
    shown = make_client(view).post("/api/see", json={"text": "the old river", "pair": "the town"}).json()["parts"]
    assert "Written behind the text: river: water" in str(shown)
    silent = view.see(ViewRequest("the old river", "the town", off=frozenset(["entities"])))
    assert silent.written == "" and silent.answer_infused == silent.answer_plain == seen.answer_plain


def test_sources_are_asked_once_about_a_text_and_few_texts_are_remembered(view: InfusedView) -> None:
    assert isinstance(view.infused, Infused)
    counted = Counted(view.infused.sources[0])
    watched = InfusedView(replace(view.infused, sources=(counted, *view.infused.sources[1:])), "watched")
    for off in (frozenset(), frozenset(["Counted"]), frozenset()):
        watched.see(ViewRequest(KNOWN_TEXT, off=off))
    assert counted.asked == [KNOWN_TEXT]
    for number in range(40):
        watched.see(ViewRequest(f"river {number}"))
    assert watched._annotations.cache_info().currsize == 32


def test_another_head_is_shown_without_reading_again_and_another_source_without_reading_plain_again(
    view: InfusedView,
) -> None:
    assert isinstance(view.infused, Infused)
    own = InfusedView(view.infused, "own")
    passes = []
    hook = view.infused.model.register_forward_pre_hook(lambda *_: passes.append(1))
    try:
        first = own.see(ViewRequest(KNOWN_TEXT, layer=0, head=0))
        assert len(passes) == 3  # without knowledge, with it, and without each source in one batch
        second = own.see(ViewRequest(KNOWN_TEXT, layer=1, head=None))
        assert len(passes) == 3
        names = source_names(view.infused.sources)
        off = own.see(ViewRequest(KNOWN_TEXT, off=frozenset(names[:1]), layer=0, head=0))
        assert len(passes) == 5
        own.see(ViewRequest("the river", layer=0, head=0))
        assert len(passes) == 8
    finally:
        hook.remove()
    assert first.to_dict() == explain(view.infused, KNOWN_TEXT, layer=0, head=0).to_dict()
    assert second.to_dict() == explain(view.infused, KNOWN_TEXT, layer=1).to_dict()
    assert off.to_dict() == explain(view.infused, KNOWN_TEXT, layer=0, head=0, off=names[:1]).to_dict()


def test_a_view_that_was_warmed_up_has_asked_its_sources(view: InfusedView) -> None:
    assert isinstance(view.infused, Infused)
    counted = Counted(view.infused.sources[0])
    infused = replace(view.infused, sources=(counted, *view.infused.sources[1:]))
    warm_up(InfusedView(infused, "with an example", examples=[SampleText("the river", "the town")]))
    warm_up(InfusedView(infused, "without one"))
    assert counted.asked == ["the river\n\nthe town", "Bern"]


def test_an_encoder_without_knowledge_can_be_looked_at() -> None:
    view = InfusedView(Encoder(tiny_host("bert"), tiny_tokenizer("bert")), "plain", examples=[SampleText("the river")])
    about, seen = view.about(), view.see(ViewRequest("the river", layer="strongest"))
    assert (about["kind"], about["sources"], about["pairs"]) == ("plain", [], False)
    assert seen.layer == 1 and seen.head is None and not seen.found
    np.testing.assert_array_equal(seen.plain, seen.infused)


def test_triples_come_with_the_heads_that_decided(relations: RelationsView) -> None:
    text = shaped_texts(80, 0, triggers=False)[0].text
    seen = relations.see(ViewRequest(text, layer="strongest"))
    [expected] = extract(relations.model, [text], relations.spans)
    assert list(seen.triples) == [one.to_json(text) for one in expected] and seen.triples
    best = max(seen.triples, key=lambda one: one["probability"])
    assert (seen.layer, seen.head) == (best["heads"][0]["layer"], best["heads"][0]["head"])
    assert relations.about()["kind"] == "relations"
    fixed = relations.see(ViewRequest(text, layer=0, head=1))
    assert (fixed.layer, fixed.head) == (0, 1)


def test_without_the_sources_of_its_spans_there_are_no_triples(relations: RelationsView) -> None:
    text = shaped_texts(80, 0, triggers=False)[0].text
    seen = relations.see(ViewRequest(text, off=frozenset(["entities 1", "entities 2"]), layer="strongest"))
    assert not seen.triples and seen.off == ("entities 1", "entities 2") and seen.found["entities 1"].spans
    with pytest.raises(InputError, match="no source 'graph' to leave out"):
        relations.see(ViewRequest(text, off=frozenset(["graph"])))
    with pytest.raises(InputError, match="within one text"):
        relations.see(ViewRequest(text, "a pair"))


def test_the_sources_of_relations_are_asked_once_about_a_text(relations: RelationsView) -> None:
    text, counted = shaped_texts(80, 0, triggers=False)[0].text, [Counted(source) for source in relations.spans]
    watched = RelationsView(relations.model, counted, "watched")
    for off in (frozenset(), frozenset(["Counted 1"])):
        watched.see(ViewRequest(text, off=off))
    assert [one.asked for one in counted] == [[text], [text]]
