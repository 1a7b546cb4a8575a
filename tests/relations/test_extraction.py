"""Triples out of raw text: where they stand, which are told, what is denied, and which heads decided."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from relations.small_relations import THINGS, small_data, small_encoder

from infuser import Entities
from infuser.errors import InputError
from infuser.relations import extraction
from infuser.relations.candidates import CandidateRule
from infuser.relations.classifier import Thresholds
from infuser.relations.examples import RelationText, Triple
from infuser.relations.extraction import extract, propose, propose_all
from infuser.relations.model import AttentionRelations
from infuser.types import Span

TRAIN, DEV, TEST = small_data()
NAMES = [Entities(dict.fromkeys(THINGS, "thing"))]
LONG = "  " + "\n".join(f"{text.text.capitalize()}." for text in TEST[:12])


@pytest.fixture(scope="module")
def fitted():
    return AttentionRelations(small_encoder(), negatives=2).fit(TRAIN, dev=DEV[::3])


@pytest.fixture(scope="module")
def talkative(fitted):
    """The same model, which tells about every pair the best it has to say."""
    return with_thresholds(fitted, Thresholds(0.0, 0.0))


def with_thresholds(model, thresholds):
    other = AttentionRelations(model.encoder)
    other.__dict__.update(model.__dict__ | {"model_": replace(model.model_, thresholds=thresholds)})
    return other


def words(text, span):
    return text[span.start : span.end]


def told(text, found):
    return [(words(text, one.triple.head), one.triple.relation, words(text, one.triple.tail)) for one in found]


def places(found):
    return [(one.triple.head.start, one.triple.tail.start, one.triple.relation) for one in found]


def test_triples_of_raw_text_are_found(fitted):
    texts = [text.text for text in TEST]
    found = list(extract(fitted, texts, NAMES))
    right = 0
    for text, of_text in zip(TEST, found, strict=True):
        gold = text.triples[0]
        right += any(
            (one.triple.head.start, one.triple.tail.start, one.triple.relation)
            == (gold.head.start, gold.tail.start, gold.relation)
            for one in of_text
        )
        for one in of_text:
            assert words(text.text, one.triple.head) in THINGS and words(text.text, one.triple.tail) in THINGS
            assert one.triple.label == {"P1": "location", "P2": "sells"}[one.triple.relation]
            assert 0 < one.probability <= 1 and not one.triple.negated
        assert places(of_text) == sorted(places(of_text))
    assert right / len(TEST) > 0.7


def test_only_what_passes_the_thresholds_is_told(fitted):
    proposals = [of_text for of_text, _ in propose_all(fitted, TEST, NAMES)]
    passing = [[one.found.triple for one in of_text if one.accepted(fitted.thresholds_)] for of_text in proposals]
    found = [[one.triple for one in of_text] for of_text in extract(fitted, TEST, NAMES)]
    assert found == passing
    assert 0 < sum(map(len, found)) < sum(map(len, proposals))
    for of_text in proposals:
        for one in of_text:
            assert one.found.probability == pytest.approx(one.gate * one.best)


def test_the_best_of_all_triggers_counts_and_each_pair_is_told_once(talkative):
    text = "the river lies on the city and a bridge sell the lake"
    (found,) = extract(talkative, [text], NAMES)
    pairs = [(one.triple.head.start, one.triple.tail.start) for one in found]
    assert len(pairs) == len(set(pairs)) == 12
    river, city = Span(4, 9), Span(22, 26)
    both = [Triple(river, city, trigger=Span(*place)) for place in ((10, 17), (40, 44))]
    decided, _ = talkative.decide([RelationText(text, tuple(both))])
    score = decided.gate * decided.best_probability
    (chosen,) = [one for one in found if (one.triple.head.start, one.triple.tail.start) == (4, 22)]
    assert chosen.probability == pytest.approx(score.max(), abs=1e-6)
    assert chosen.triple.trigger.start == both[int(score.argmax())].trigger.start


def test_of_pairs_that_touch_in_both_spans_the_most_probable_is_told(talkative):
    text = "the old river lies on the city and a bridge"
    heads = [Span(4, 13), Span(8, 13), Span(0, 13)]
    triples = [Triple(head, Span(26, 30), trigger=Span(14, 21)) for head in heads]
    other = Triple(Span(37, 43), Span(26, 30), trigger=Span(14, 21))
    asked = RelationText(text, (*triples, other))
    decided, _ = talkative.decide([asked])
    best = triples[int((decided.gate * decided.best_probability)[:3].argmax())]
    (proposed,) = propose(talkative, [asked])
    assert [(one.found.triple.head, one.found.triple.tail) for one in proposed] == [
        (best.head, best.tail),
        (other.head, other.tail),
    ]
    (found,) = extract(
        talkative, [text], [Entities({"the old river": "", "old river": "", "city": ""}, overlaps="keep")]
    )
    assert len([one for one in found if one.triple.tail.start == 26]) == 1


def test_many_pairs_are_chosen_from_as_one_by_one():
    rng = np.random.default_rng(0)
    for _ in range(30):
        starts, lengths = rng.integers(12, size=(2, 40)), rng.integers(1, 4, size=(2, 40))
        spans = [
            [Span(*place) for place in zip(one, one + n, strict=True)] for one, n in zip(starts, lengths, strict=True)
        ]
        triples = [Triple(head, tail) for head, tail in zip(*spans, strict=True)]
        score = rng.integers(-1, 6, size=40) / 6  # some are equal, and some cannot be read
        kept: list[int] = []
        for row in sorted(range(40), key=lambda row: (-score[row], row)):
            better = [triples[other] for other in kept]
            if score[row] >= 0 and not any(
                share(one.head, triples[row].head) and share(one.tail, triples[row].tail) for one in better
            ):
                kept.append(row)
        assert 1 < len(kept) < 40
        assert extraction._best_rows(triples, score, 100) == sorted(100 + row for row in kept)


def share(one, other):
    return bool(set(range(one.start, one.end)) & set(range(other.start, other.end)))


def test_long_texts_are_read_in_windows_and_places_are_those_of_the_whole_text(talkative):
    (found,) = extract(talkative, [LONG], NAMES, max_words=10)
    expected = []
    for line in LONG.split("\n"):
        alone = line.strip()
        (of_line,) = extract(talkative, [alone], NAMES)
        start = LONG.index(alone)
        expected += [(start + head, start + tail, relation) for head, tail, relation in places(of_line)]
    assert places(found) == expected and len(expected) > 40
    assert {words(LONG, one.triple.head) for one in found} <= {*THINGS}
    assert all(words(LONG, one.triple.trigger) in ("lies on", "sell") for one in found)
    (whole,) = extract(talkative, [LONG.strip()], NAMES)
    assert places(whole) != expected  # without windows, pairs reach from line to line


def test_no_known_mention_is_cut_by_a_window(talkative):
    text = "a river and the city is on the old red house lies on the town and a bank"
    mentions = tuple(Span(text.index(one), text.index(one) + len(one)) for one in ("city", "old red house", "town"))
    (found,) = extract(talkative, [RelationText(text, spans=mentions)], max_words=9)
    spans = {(one.triple.head.start, one.triple.head.end) for one in found}
    assert spans == {(span.start, span.end) for span in mentions[1:]}  # the city stands in a window without triggers


@pytest.mark.parametrize(
    ("text", "denied"),
    [
        ("the river never lies on the city", True),
        ("the river not lies on the city", True),
        ("the river lies on the city", False),
        ("the bank is not old and the river lies on the city", False),
    ],
)
def test_what_a_text_denies_is_told_as_denied(talkative, text, denied):
    (found,) = extract(talkative, [text], NAMES)
    (one,) = [
        one for one in found if words(text, one.triple.head) == "river" and words(text, one.triple.tail) == "city"
    ]
    assert one.triple.negated is denied
    assert one.to_json(text)["negated"] is denied


def test_denials_are_read_in_the_whole_text_behind_windows(talkative):
    text = f"{LONG} The river never lies on the city."
    (found,) = extract(talkative, [text], NAMES, max_words=10)
    behind = [one for one in found if one.triple.head.start > len(LONG)]
    assert [one.triple.negated for one in behind if words(text, one.triple.head) == "river"] == [True]
    assert not any(one.triple.negated for one in found if one.triple.head.start < len(LONG))


@pytest.mark.parametrize("n_heads", [0, 1, 3, 99])
def test_the_heads_that_decided_are_those_that_added_most(talkative, n_heads):
    text = TEST[0]
    (found,) = extract(talkative, [text.text], NAMES, n_heads=n_heads)
    model, (layers, heads, directions) = talkative.model_, talkative.reader().shape
    for one in found:
        values = talkative.reader().read([RelationText(text.text, (one.triple,))]).values[0]
        place = model.which.classes.index(one.triple.relation)
        flat = values.reshape(-1).astype(np.float64)
        gate = (flat - model.gate.mean) / model.gate.scale * model.gate.weights[0]
        average = model.which.weights.mean(axis=0)
        which = (flat - model.which.mean) / model.which.scale * (model.which.weights[place] - average)
        added = {}
        for layer in range(layers):
            for head in range(heads):
                first = (layer * heads + head) * directions
                added[layer, head] = (gate + which)[first : first + directions].sum()
        strongest = sorted(added, key=lambda key: -added[key])[:n_heads]
        assert [(told.layer, told.head) for told in one.heads] == strongest
        assert [told.weight for told in one.heads] == pytest.approx([added[key] for key in strongest], abs=1e-5)


def test_texts_without_end_are_read_some_at_a_time(fitted, monkeypatch):
    monkeypatch.setattr(extraction, "_TEXTS", 4)
    taken = 0

    def endless():
        nonlocal taken
        while True:
            taken += 1
            yield TEST[taken % 5].text

    answers = extract(fitted, endless(), NAMES)
    assert taken == 0
    for number in range(1, 11):
        next(answers)
        assert number <= taken <= number + 3


def test_portions_and_company_change_nothing(fitted, monkeypatch):
    texts = [LONG, "", *(text.text for text in TEST[:5]), "nothing at all"]
    whole = list(extract(fitted, texts, NAMES, max_words=20))
    for name, value in (("_TRIPLES", 1), ("_TRIPLES", 17), ("_TEXTS", 1)):
        with monkeypatch.context() as patch:
            patch.setattr(extraction, name, value)
            parts = list(extract(fitted, texts, NAMES, max_words=20))
        assert [places(one) for one in parts] == [places(one) for one in whole]
        for one, other in zip(parts, whole, strict=True):
            assert [a.probability for a in one] == pytest.approx([b.probability for b in other], abs=1e-6)
    assert sum(map(len, whole)) > 5


def test_no_more_candidates_are_asked_about_than_the_rule_allows(talkative):
    few = with_thresholds(talkative, Thresholds(0.0, 0.0)).set_params(rule=CandidateRule(max_pairs=2))
    (found,) = extract(few, [TEST[0].text], NAMES)
    assert len(found) == 2


def test_texts_without_anything_to_relate_have_no_triples(talkative):
    texts = ["", "   ", "nothing to see", "the river", "river river", "👍 中国"]
    assert list(extract(talkative, texts, NAMES)) == [[]] * 6
    assert list(extract(talkative, [], NAMES)) == []
    assert list(extract(talkative, [RelationText("the river lies on the city")])) == [[]]  # no mention is known


def test_raw_text_needs_a_source_and_known_mentions_need_none(talkative):
    with pytest.raises(InputError, match="no spans to relate"):
        next(extract(talkative, ["the river lies on the city"]))
    text = TEST[0]
    (found,) = extract(talkative, [text])
    known = {(span.start, span.end) for span in text.mentions()}
    assert len(found) == 6 and {(one.triple.head.start, one.triple.head.end) for one in found} == known


def test_what_is_written_says_everything_with_its_words(talkative):
    text = "the river lies on the city"
    (found,) = extract(talkative, [text], NAMES, n_heads=2)
    told = found[0].to_json(text)
    assert told["head"] == {"start": 4, "end": 9, "text": "river", "id": "river", "type": "thing"}
    assert told["tail"]["text"] == "city"
    assert told["trigger"] == {"start": 10, "end": 17, "text": "lies on", "type": "trigger"}
    assert (told["relation"], told["label"]) in (("P1", "location"), ("P2", "sells"))
    assert told["probability"] == round(found[0].probability, 6) and len(told["heads"]) == 2


def test_pairs_without_triggers_and_features_without_heads_are_extracted_too():
    model = AttentionRelations(small_encoder(), kind="embeddings", trigger=False, gate=0.0, best=0.0).fit(TRAIN[::3])
    text = "the river lies on the city"
    (found,) = extract(model, [text], NAMES)
    assert [words(text, one.triple.head) for one in found] == ["river", "city"]
    assert all(one.heads == () and one.triple.trigger is None for one in found)
    assert "trigger" not in found[0].to_json(text)
