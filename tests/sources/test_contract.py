"""What every registered source keeps, checked on its miniature."""

from __future__ import annotations

import json
import subprocess
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.reduction import ForkingPickler  # how a DataLoader hands a source to its workers
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import infuser.sources  # noqa: F401  registers them
from infuser.errors import MissingExtraError
from infuser.registry import SOURCES
from infuser.sources import Graph
from infuser.sources.annotating.fingerprints import fingerprint
from infuser.sources.storage import load_source, save_source
from infuser.types import (
    PAIR_BREAK,
    Annotations,
    DeclaresTypes,
    DrawsPerEpoch,
    FindsMentions,
    FitsExamples,
    HasEntityVectors,
    HasGraph,
    OffersTerms,
    RegisteredSource,
    SavesFiles,
    SavesSettings,
    Source,
    WrapsSource,
    innermost,
    join_pair,
)

BUILT_IN = [
    "bracketed-phrases",
    "candidates",
    "correlation",
    "entities",
    "gliner",
    "graph",
    "knowledge-base",
    "phrases",
    "selective",
    "spacy-entities",
    "spacy-phrases",
    "stanza-entities",
    "stanza-phrases",
    "token-classifier",
]
CAPABILITIES: tuple[type, ...] = (
    *(DrawsPerEpoch, FindsMentions, FitsExamples, HasEntityVectors, HasGraph),
    *(OffersTerms, SavesFiles, SavesSettings, WrapsSource),
)
CLAIMS: dict[str, set[type]] = {
    **{name: {SavesSettings} for name in BUILT_IN},
    "candidates": {FindsMentions, SavesSettings},
    "correlation": {OffersTerms, SavesSettings},
    "entities": {FitsExamples, OffersTerms, SavesSettings},
    "graph": {FitsExamples, HasGraph, OffersTerms, SavesSettings},
    "knowledge-base": {HasEntityVectors, OffersTerms, SavesFiles},
    "phrases": set(),
    "selective": {DrawsPerEpoch, SavesFiles, WrapsSource},
}
"""What each source offers beyond `annotate`."""
TEXTS = [
    join_pair("buy glipizide", "Fred Meyer Pharmacy Near Me"),
    "Bern lies on the Aare, far from New York and its New York Times.",
    "buy in a shop near me",
    "a drug  store sells\tmedicine; natural language\nprocessing does not",
    "nothing is known here",
]
ODD_TEXTS = {
    "empty": "",
    "only spaces": " \t \n  ",
    "only a break": PAIR_BREAK,
    "emoji": "🙂 Bern👍🏽 👨‍👩‍👧 buy 🇨🇭 shop ❤️ glipizide🙂pharmacy",
    "combining marks": "Be\u0301rn Bern\u0301 buy shop\u0308 \u0301 glipizide\u0301 pharmacy नमस्ते",
    "growing lower case": "İİİ Bern ßßß buy shop ŉ pharmacy medicine lies on",
    "no words": "?!... --- ()",
    "lone surrogate": "buy \ud83d shop Bern",
    "null characters": "buy\x00shop Bern\x00",
}
LONG_TEXTS = {
    "words": "buy Bern shop New York lies on glipizide pharmacy medicine near me " * 1500,
    "one word": "a" * 100_000,
    "marks": "a" + "\u0301" * 100_000,
    "paragraphs": "glipizide pharmacy buy shop\n\n" * 3500,
    "spaces": "Bern" + " " * 100_000 + "shop",
}
JOINED_TEXTS = [  # names of the miniatures, cut in two by the break of a pair
    join_pair("New", "York"),
    join_pair("lies", "on natural language"),
    join_pair("Fred", "Meyer"),
    join_pair("a drug", "store"),
    join_pair("New ", " York"),
    join_pair("natural language\n", "processing"),
]


OURS = [name for name in SOURCES if SOURCES[name].__module__.startswith("infuser.")]  # other tests register theirs


@pytest.fixture(params=OURS)
def source(request: pytest.FixtureRequest) -> Source:
    tiny: Callable[[], Source] = SOURCES[request.param].tiny
    try:
        tiny().annotate(["a"])
    except MissingExtraError as error:
        pytest.skip(str(error))
    return tiny()


@pytest.fixture(params=["correlation", "entities", "graph", "knowledge-base"])
def wordy(request: pytest.FixtureRequest) -> Any:
    """A miniature that adds terms."""
    graph = {"graph": Graph([("Q70", "capital of", "Q39"), ("Q60", "in", "Q30")])}
    return replace(SOURCES[request.param].tiny(), n_terms=2, **graph if request.param == "knowledge-base" else {})


def test_terms_are_few_declared_saved_and_sent_to_workers(wordy: Any, tmp_path: Path) -> None:
    answers = wordy.annotate(TEXTS)
    assert any(found.terms for found in answers)
    for found, text in zip(answers, TEXTS, strict=True):
        check(found, text)
        tied = Counter(place for term in found.terms for place, _ in term.ties)
        assert max(tied.values(), default=0) <= 2
        assert len({(term.text, term.relation) for term in found.terms}) == len(found.terms)
        assert {term.relation for term in found.terms} <= set(wordy.relation_types)
    again = load_source(json.loads(json.dumps(save_source(wordy, tmp_path))), tmp_path)
    assert again == wordy and again.annotate(TEXTS) == answers
    assert ForkingPickler.loads(bytes(ForkingPickler.dumps(wordy))).annotate(TEXTS) == answers
    assert fingerprint(wordy) != fingerprint(type(wordy).tiny())


def check(found: Annotations, text: str) -> None:
    assert found.text == text
    for span in found.spans:
        assert 0 <= span.start < span.end <= len(text)
        assert text[span.start : span.end].strip()
        assert PAIR_BREAK not in text[span.start : span.end]
        # on the border of a character as people see it: no accent is cut from its letter
        assert not any(place < len(text) and unicodedata.combining(text[place]) for place in (span.start, span.end))
    for link in found.links:
        assert 0 <= link.source < len(found.spans)
        assert 0 <= link.target < len(found.spans)
        assert 0 <= link.weight <= 1
    assert len(found.candidates) in (0, len(found.spans))
    for candidates in found.candidates:
        assert sum(candidate.prior for candidate in candidates) == pytest.approx(1)
        assert all(candidate.id and candidate.prior > 0 for candidate in candidates)
    for term in found.terms:
        assert term.text.strip()
        assert all(0 <= place < len(found.spans) and 0 <= weight <= 1 for place, weight in term.ties)


def test_all_built_in_sources_are_registered() -> None:
    assert set(BUILT_IN) <= set(SOURCES)


def test_sources_load_without_torch() -> None:
    code = "import sys, infuser.sources, infuser.sources.storage; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_source_fulfils_the_protocol(source: Source) -> None:
    assert isinstance(source, RegisteredSource)


def test_every_source_offers_what_it_claims_and_nothing_else(source: Source) -> None:
    offered = {protocol for protocol in CAPABILITIES if isinstance(source, protocol)}
    assert offered >= CLAIMS[SOURCES.name_of(source)]
    if not isinstance(source, WrapsSource):  # a wrapper passes on what the source inside it offers
        assert offered == CLAIMS[SOURCES.name_of(source)]


def test_what_a_source_offers_works(source: Source, tmp_path: Path) -> None:
    answers = source.annotate(TEXTS)
    if isinstance(source, OffersTerms):
        for found in answers:
            tied = Counter(place for term in found.terms for place, _ in term.ties)
            assert max(tied.values(), default=0) <= source.n_terms
    else:
        assert not any(found.terms for found in answers)
    if isinstance(source, SavesSettings) and not isinstance(source, WrapsSource):
        assert type(source).from_json(source.to_json()).annotate(TEXTS) == answers
    if isinstance(source, SavesFiles):
        source.save(tmp_path)
        assert type(source).load(tmp_path).annotate(TEXTS) == answers
    if isinstance(source, DrawsPerEpoch):
        for found in answers:
            stays = source.drawn(found, seed=0, epoch=1)
            assert len(stays) == len(found.spans) and stays == source.drawn(found, seed=0, epoch=1)
    if isinstance(source, HasGraph):
        assert source.graph_store.n_entities
    if isinstance(source, FindsMentions):
        found = source.finder.find(TEXTS)
        assert [len(of_text) for of_text in found] == [len(one.spans) for one in answers]
    if isinstance(source, HasEntityVectors):
        assert source.name.isidentifier() and source.store.dim == source.dim
        for candidates in (of_span for found in answers for of_span in found.candidates):
            rows, priors = source.look_up(candidates)
            assert len(rows) == len(priors) == len(candidates)
            assert [source.store.id_of(int(row)) for row in rows] == [candidate.id for candidate in candidates]
    if isinstance(source, WrapsSource):
        assert isinstance(innermost(source), Source) and not isinstance(innermost(source), WrapsSource)


def test_each_text_gets_one_sound_answer(source: Source) -> None:
    answers = source.annotate(TEXTS)
    assert len(answers) == len(TEXTS)
    for found, text in zip(answers, TEXTS, strict=True):
        check(found, text)
    assert any(found.links or found.candidates for found in answers), (
        "a miniature must know something about these texts"
    )


def test_source_declares_every_type_and_relation_that_it_finds(source: Source) -> None:
    inside = innermost(source)
    assert isinstance(inside, DeclaresTypes)
    answers = source.annotate([*TEXTS, *ODD_TEXTS.values()])
    types, relations = inside.span_types, inside.relation_types
    assert len(set(types)) == len(types) and len(set(relations)) == len(relations)
    assert {span.label for found in answers for span in found.spans} <= set(types)
    assert {one.relation for found in answers for one in (*found.links, *found.terms)} <= set(relations)


def test_no_texts_get_no_answers(source: Source) -> None:
    assert source.annotate([]) == []


@pytest.mark.parametrize("kind", ODD_TEXTS)
def test_odd_text_gets_a_sound_answer(source: Source, kind: str) -> None:
    [found] = source.annotate([ODD_TEXTS[kind]])
    check(found, ODD_TEXTS[kind])


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(
        st.one_of(st.text(max_size=6), st.sampled_from(["Bern", "New York", "buy", "shop", "glipizide", "near me"])),
        max_size=8,
    )
)
def test_any_text_gets_a_sound_answer(source: Source, pieces: list[str]) -> None:
    for text in (" ".join(pieces), "".join(pieces)):
        [found] = source.annotate([text])
        check(found, text)


@pytest.mark.parametrize("kind", ["empty", "only spaces", "only a break", "no words"])
def test_text_without_words_has_no_knowledge(source: Source, kind: str) -> None:
    assert source.annotate([ODD_TEXTS[kind]]) == [Annotations(ODD_TEXTS[kind])]


@pytest.mark.parametrize("kind", LONG_TEXTS)
def test_text_of_100k_characters_gets_a_sound_answer_of_bounded_size(source: Source, kind: str) -> None:
    [found] = source.annotate([LONG_TEXTS[kind]])
    check(found, LONG_TEXTS[kind])
    assert len(found.links) <= 10 * len(LONG_TEXTS[kind])


def test_no_span_crosses_the_break_of_a_pair(source: Source) -> None:
    for found, text in zip(source.annotate(JOINED_TEXTS), JOINED_TEXTS, strict=True):
        check(found, text)


def test_same_text_gets_the_same_answer_whatever_its_company_and_order(source: Source) -> None:
    texts = [*TEXTS, *ODD_TEXTS.values()]
    together = source.annotate(texts)
    assert source.annotate(texts[::-1]) == together[::-1]
    assert [source.annotate([text])[0] for text in texts] == together
    assert type(source).tiny().annotate(texts) == together


def test_a_worker_receives_the_source_with_the_same_answers(source: Source) -> None:
    answers = source.annotate(TEXTS)  # by now it has built its index, which stays behind
    message = bytes(ForkingPickler.dumps(source))
    assert ForkingPickler.loads(message).annotate(TEXTS) == answers
    assert len(message) == len(bytes(ForkingPickler.dumps(type(source).tiny())))


def test_source_is_the_same_after_saving_and_loading_as_json(source: Source, tmp_path: Path) -> None:
    record = json.loads(json.dumps(save_source(source, tmp_path), allow_nan=False))
    again = load_source(record, tmp_path)
    assert type(again) is type(source)
    assert again == source
    assert again.annotate(TEXTS) == source.annotate(TEXTS)
