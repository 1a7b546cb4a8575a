"""Names that labelled examples refute."""

from __future__ import annotations

import pytest

from infuser.errors import SourceError
from infuser.sources import Entities, Graph, Phrases, Sampling, Selective
from infuser.sources.fitting import coinciding_labels, fit_sources
from infuser.sources.storage import load_source, save_source
from infuser.types import FitsExamples, Span

NAMES = {"aspirin": "chemical", "lead": "chemical", "fever": "disease", "severe": "disease", "pain": "disease"}


def example(text: str, **labels: str) -> dict[str, object]:
    """Return a text with gold mentions, each by its words (underscores for spaces)."""
    words = [(word.replace("_", " "), label) for word, label in labels.items()]
    places = [(text.index(word), text.index(word) + len(word), label) for word, label in words]
    return {"text": text, "entities": places}


EXAMPLES = [
    example("aspirin against fever", aspirin="Drug", fever="Illness"),
    example("severe pain in the lead group", severe_pain="Illness"),
    example("severe cases lead to fever", fever="Illness"),
    example("fever and chest pain", fever="Illness", chest_pain="Illness"),
]


@pytest.mark.parametrize("source", [Entities(NAMES), Graph([], aliases={name: [name] for name in NAMES})])
def test_names_that_more_labels_speak_against_than_for_are_ignored(source: Entities | Graph) -> None:
    fitted = source.fit(EXAMPLES)
    assert set(fitted.ignored) >= {"lead", "severe"}, "found twice outside of what is labelled, or of another label"
    assert not set(fitted.ignored) & {"fever", "pain"}, "a part of a gold mention says nothing"
    assert source.ignored == () and type(fitted) is type(source)
    texts = ["Lead, FEVER"]
    assert [(span.start, span.end) for span in fitted.annotate(texts)[0].spans] == [(6, 11)]


def test_a_label_stands_for_the_gold_label_that_it_coincides_with_most() -> None:
    examples = [*EXAMPLES, example("aspirin asthma", aspirin="Illness"), example("aspirin", aspirin="Drug")]
    assert "aspirin" not in Entities(NAMES).fit(examples).ignored
    examples += [example("pain", pain="Drug")]
    assert "pain" in Entities(NAMES).fit(examples).ignored, "coincides with a mention of another label only"


def test_labels_say_nothing_about_types_that_they_never_name() -> None:
    source = Entities({"aspirin": "chemical", "lead": "chemical", "group": "unit"})
    assert source.fit(EXAMPLES).ignored == ("lead",), "the examples label no units, so 'group' is not refuted"


def test_more_smoothing_refutes_less() -> None:
    assert Entities(NAMES).fit(EXAMPLES, smoothing=1).ignored == ("lead",)
    assert Entities(NAMES).fit(EXAMPLES, smoothing=2).ignored == ()


def test_a_name_that_a_refuted_one_hid_is_judged_too() -> None:
    source = Entities({"lead group": "chemical", "group": "chemical", "aspirin": "chemical"})
    assert source.fit(EXAMPLES).ignored == ("group", "lead group")


def test_what_was_refuted_is_saved_and_stays(tmp_path) -> None:  # type: ignore[no-untyped-def]
    fitted = Entities(NAMES, ignored=["fever"]).fit(EXAMPLES)
    assert "fever" in fitted.ignored and "lead" in fitted.ignored
    assert load_source(save_source(fitted, tmp_path), tmp_path) == fitted


def test_sources_are_fitted_where_they_can_be_also_inside_a_selection() -> None:
    sources = [Entities(NAMES), Selective(Entities(NAMES), Sampling()), Phrases(["near me"])]
    assert isinstance(sources[0], FitsExamples) and not isinstance(sources[2], FitsExamples)
    entities, selective, phrases = fit_sources(sources, EXAMPLES)
    assert isinstance(entities, Entities) and isinstance(selective, Selective)
    assert "lead" in entities.ignored
    assert selective.source == entities
    assert phrases == sources[2]


def test_an_example_without_entities_is_named() -> None:
    with pytest.raises(SourceError, match="'entities'"):
        Entities(NAMES).fit([{"text": "lead"}])
    with pytest.raises(SourceError, match="smoothing"):
        Entities(NAMES).fit(EXAMPLES, smoothing=-1)


def test_of_gold_labels_that_coincide_equally_often_the_first_by_the_alphabet_counts() -> None:
    found = [[Span(0, 4, "x")], [Span(0, 4, "x"), Span(0, 4, "x", id="again")], [Span(5, 9, "x")]]
    gold = [[(0, 4, "drug")], [(0, 4, "city")], []]
    for order in (slice(None), slice(None, None, -1)):
        counts = coinciding_labels(found[order], gold[order])["x"]
        assert (counts.best, counts.n_found, counts.precision) == ("city", 3, 1 / 3)
