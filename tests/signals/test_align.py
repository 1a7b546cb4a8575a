from __future__ import annotations

import time
import unicodedata

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from miniatures import TOKENIZERS, tokenizer_of_kind
from transformers import PreTrainedTokenizerFast

from infuser.errors import InputError
from infuser.signals.align import Aligned, align, token_ranges
from infuser.types import OTHER, Annotations, Link, Span, Term, Vocabulary, join_pair

PIECES = (
    *("Bern", "glipizide", "the", "river", "naïve", "a_b", "x1", "don't", "Zürich", "-", ".", "(", "１２", "ﬁn"),
    *(" ", " ", " ", "  ", "\n", "\t", "\u00a0", "\u3000"),
    *("e\u0301", "\u0301", "\u200d", "👍", "👍🏽", "👩\u200d👧", "❤\ufe0f", "🇨🇭"),
    *("中国", "京", "ひらがな", "カ", "한국어", "ภาษา", "ก็", "हिन्दी", "क\u094d\u200dष", "שָׁלוֹם", "عَرَبِي"),
)
TOKENIZER = {kind: tokenizer_of_kind(kind) for kind in TOKENIZERS}

some_text = st.lists(st.sampled_from(PIECES) | st.text(st.characters(exclude_categories=["Cs"]), max_size=3)).map(
    "".join
)


def encode(tokenizer: PreTrainedTokenizerFast, text: str, pair: str | None, **options: object) -> dict[str, object]:
    one = [text if pair is None else (text, pair)]
    encoding = tokenizer(one, return_offsets_mapping=True, **options)
    return {
        "offsets": encoding["offset_mapping"][0],
        "sequence_ids": encoding.sequence_ids(0),
        "tokens": tokenizer.convert_ids_to_tokens(encoding["input_ids"][0]),
    }


def align_with(
    tokenizer: PreTrainedTokenizerFast,
    found: list[Annotations],
    text: str,
    pair: str | None = None,
    vocabulary: Vocabulary | None = None,
) -> Aligned:
    encoding = encode(tokenizer, text, pair)
    return align(found, text, pair, encoding["offsets"], encoding["sequence_ids"], vocabulary)


def tied(text: str, *words: str, weight: float = 1.0) -> Annotations:
    """Return annotations that tie the first of `words` to each of the others (one word: to itself)."""
    spans = tuple(Span(text.index(word), text.index(word) + len(word)) for word in words)
    links = tuple(Link(0, i, weight) for i in range(1, len(spans))) or (Link(0, 0, weight),)
    return Annotations(text, spans, links)


# --- the slow way: one look per character ------------------------------------------------------------------------


def kind_of(character: str) -> str:
    if character in "\u200c\u200d" or unicodedata.category(character)[0] == "M":
        return "mark"
    scripts = (
        "CJK",
        "THAI",
        "LAO",
        "MYANMAR",
        "KHMER",
        "HIRAGANA",
        "HENTAIGANA",
        "KATAKANA",
        "HALFWIDTH KATAKANA",
        "IDEOGRAPHIC",
    )
    if unicodedata.name(character, "").startswith(scripts) and character.isalnum():
        return "unspaced"
    return "letter" if character.isalnum() or character == "_" else "other"


def same_word(text: str, i: int) -> bool:
    """Whether characters i - 1 and i stand in one word."""
    if not 0 < i < len(text):
        return False
    here, base = kind_of(text[i]), i - 1
    while base > 0 and kind_of(text[base]) == "mark":  # marks and joiners belong to the letter before them
        base -= 1
    if here == "mark":
        return kind_of(text[base]) in ("letter", "unspaced")
    return here == "letter" and kind_of(text[base]) == "letter"


def slow_positions(text: str, pair: str | None, span: Span, encoding: dict[str, object]) -> set[int]:
    joined, start, end = join_pair(text, pair), span.start, span.end
    if start == end:
        return set()
    while same_word(joined, start):
        start -= 1
    while same_word(joined, end):
        end += 1
    wanted = set(range(start, end))
    breaks = set() if pair is None else {len(text), len(text) + 1}
    if wanted & breaks:
        return set()
    positions = set()
    for position, ((a, b), side) in enumerate(zip(encoding["offsets"], encoding["sequence_ids"], strict=True)):
        shift = len(text) + 2 if side == 1 else 0
        inked = [i for i in range(a + shift, b + shift) if side is not None and not joined[i].isspace()]
        if inked and wanted & set(range(inked[0], inked[-1] + 1)):
            positions.add(position)
    return positions


def draw_spans(data, joined, *, min_size):
    ends = st.tuples(st.integers(0, len(joined)), st.integers(0, len(joined))).map(sorted)
    return data.draw(st.lists(ends.map(lambda both: Span(*both)), min_size=min_size, max_size=6))


any_encoded_text = given(
    kind=st.sampled_from(TOKENIZERS),
    text=some_text,
    pair=st.none() | some_text,
    side=st.sampled_from(("left", "right")),
    max_length=st.integers(5, 40),
    data=st.data(),
)


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@any_encoded_text
def test_every_link_covers_the_tokens_that_share_a_character_with_its_words(kind, text, pair, side, max_length, data):
    joined = join_pair(text, pair)
    spans = draw_spans(data, joined, min_size=1)
    place = st.integers(0, len(spans) - 1)
    links = data.draw(st.lists(st.builds(Link, place, place, st.sampled_from((0.25, 1.0))), max_size=6))
    found = [Annotations(joined), Annotations(joined, tuple(spans), tuple(links))]
    encoding = encode(
        TOKENIZER[kind], text, pair, truncation=True, max_length=max_length, padding="max_length", padding_side=side
    )

    aligned = align(found, text, pair, encoding["offsets"], encoding["sequence_ids"])

    expected = []
    for link in links:
        rows = slow_positions(text, pair, spans[link.source], encoding)
        cols = slow_positions(text, pair, spans[link.target], encoding)
        if rows and cols:
            expected.append((1, min(rows), max(rows) + 1, min(cols), max(cols) + 1))
    assert aligned.boxes == expected
    assert len(aligned.weights) == len(expected)


# --- examples worked by hand --------------------------------------------------------------------------------------


def covered(tokenizer: PreTrainedTokenizerFast, text: str, pair: str | None = None, *words: str) -> list[list[str]]:
    tokens = encode(tokenizer, text, pair)["tokens"]
    [(_, top, bottom, left, right)] = align_with(tokenizer, [tied(join_pair(text, pair), *words)], text, pair).boxes
    return [tokens[top:bottom], tokens[left:right]]


def test_a_word_gives_its_value_to_all_its_subwords(tokenizer):
    rows, cols = covered(tokenizer, "buy glipizide tablets", None, "glipizide", "tablets")
    assert len(rows) > 1
    assert "".join(piece.removeprefix("##") for piece in rows).strip("▁Ġ") == "glipizide"
    assert [piece.strip("▁Ġ") for piece in cols] == ["tablets"]


def test_part_of_a_word_stands_for_the_whole_word(tokenizer):
    assert covered(tokenizer, "buy glipizide now", None, "pizi", "buy") == covered(
        tokenizer, "buy glipizide now", None, "glipizide", "buy"
    )


def test_a_token_with_its_leading_space_belongs_to_the_word_and_not_to_the_space_before_it(tokenizer):
    text = "the river"
    spans = (Span(3, 4), Span(4, 9))
    assert align_with(tokenizer, [Annotations(text, spans, (Link(0, 1),))], text).boxes == []
    rows, _ = covered(tokenizer, text, None, "river")
    assert [piece.strip("▁Ġ") for piece in rows] == ["river"]


def test_all_tokens_of_one_split_character_belong_to_it():
    rows, _ = covered(TOKENIZER["byte-bpe"], "good 👍 book", None, "👍")
    assert len(rows) == 4  # four bytes, four tokens, one character


def test_a_span_in_a_script_without_spaces_is_not_widened_to_the_whole_clause():
    rows, _ = covered(TOKENIZER["byte-bpe"], "我住在北京市", None, "北京")
    assert len(rows) == 6  # three bytes each


def test_a_word_keeps_its_combining_marks():
    text = "हिन्दी book"
    whole, _ = covered(TOKENIZER["byte-bpe"], text, None, "हिन्दी")
    part, _ = covered(TOKENIZER["byte-bpe"], text, None, "ह")
    assert part == whole


def test_links_lead_from_one_side_of_a_pair_to_the_other(tokenizer):
    rows, cols = covered(tokenizer, "buy drug", "pharmacy near me", "drug", "pharmacy")
    assert ("".join(rows).strip("▁Ġ"), "".join(cols).strip("▁Ġ")) == ("drug", "pharmacy")


def test_a_span_that_reaches_across_the_pair_break_is_left_out_with_its_links(tokenizer):
    joined = join_pair("buy drug", "pharmacy near")
    spans = (Span(4, joined.index("near")), Span(0, 3), Span(4, 8))
    found = Annotations(joined, spans, (Link(0, 1), Link(1, 2)), (Term("shop", ((0, 1.0),)),))
    aligned = align_with(tokenizer, [found], "buy drug", "pharmacy near")
    assert len(aligned.boxes) == 1
    assert aligned.terms == []


@pytest.mark.parametrize("truncation_side", ["left", "right"])
def test_what_truncation_cuts_off_loses_its_links_and_what_it_cuts_through_keeps_the_rest(truncation_side):
    tokenizer = tokenizer_of_kind("wordpiece", truncation_side=truncation_side)
    text = "river glipizide city"
    encoding = encode(tokenizer, text, None, truncation=True, max_length=6)  # of 8 word pieces, 4 are left
    found = [tied(text, "glipizide"), tied(text, "river", "city")]
    aligned = align(found, text, None, encoding["offsets"], encoding["sequence_ids"])
    assert aligned.boxes == [(0, 2, 5, 2, 5) if truncation_side == "right" else (0, 1, 4, 1, 4)]


def test_padding_on_the_left_moves_the_boxes_along():
    tokenizer = TOKENIZER["wordpiece"]
    text = "the river"
    boxes = []
    for side in ("right", "left"):
        encoding = encode(tokenizer, text, None, padding="max_length", max_length=9, padding_side=side)
        boxes += align([tied(text, "the", "river")], text, None, encoding["offsets"], encoding["sequence_ids"]).boxes
    assert boxes == [(0, 1, 2, 2, 3), (0, 6, 7, 7, 8)]


def test_terms_take_turns_between_sources_and_stand_once():
    text = "the river"
    spans = (Span(0, 3), Span(4, 9))
    first = Annotations(text, spans, terms=(Term("lake", ((1, 0.5),)), Term("shop", ((0, 0.25),))))
    second = Annotations(text, spans, terms=(Term("town", ((1, 1.0), (0, 0.0))), Term("lake", ((0, 1.0),))))
    aligned = align_with(TOKENIZER["wordpiece"], [first, second], text)
    assert aligned.terms == ["lake", "town", "shop"]
    assert aligned.ties == [(0, 0, 2, 3, 0), (1, 0, 2, 3, 1), (0, 0, 1, 2, 2), (1, 0, 1, 2, 0)]
    assert aligned.tie_weights == [0.5, 1.0, 0.25, 1.0]


def test_spans_links_and_ties_carry_the_numbers_of_their_types_and_relations():
    text = "buy drug in city"
    spans = (Span(0, 3), Span(4, 8, "drug"), Span(12, 16, "city"), Span(9, 11, "unheard of"))
    links = (Link(1, 1), Link(1, 2, 0.5, "sold in"), Link(2, 2, relation="sold in"), Link(3, 3), Link(0, 1, 1.0, "new"))
    terms = (Term("shop", ((2, 0.5),), "sold in"), Term("lake", ((1, 1.0),), "new"))
    found = Annotations(text, spans, links, terms)
    vocabulary = Vocabulary(((OTHER,), ("city", "drug", OTHER)), ((OTHER,), ("near", "sold in", OTHER)))
    aligned = align_with(TOKENIZER["wordpiece"], [Annotations(text), found], text, None, vocabulary)
    assert aligned.spans == [(1, 2, 1, 2), (1, 1, 2, 3), (1, 0, 4, 5), (1, 2, 3, 4)]
    # a span tied to itself says its type; other links say their relation, numbered behind the three types
    assert aligned.kinds == [1, 3 + 1, 0, 2, 3 + 2]
    assert aligned.ties == [(1, 1, 4, 5, 0), (1, 2, 2, 3, 1)]


def test_without_a_vocabulary_all_spans_are_of_one_type_and_all_links_of_one_relation():
    text = "buy drug"
    found = Annotations(text, (Span(0, 3, "verb"), Span(4, 8, "drug")), (Link(0, 0), Link(0, 1, relation="takes")))
    aligned = align_with(TOKENIZER["wordpiece"], [found], text)
    assert aligned.spans == [(0, 0, 1, 2), (0, 0, 2, 3)]
    assert aligned.kinds == [0, 1]


def test_spans_without_links_or_terms_are_typed_too_and_those_without_tokens_left_out():
    text = "buy drug"
    found = Annotations(text, (Span(3, 4, "drug"), Span(4, 8, "drug")))
    vocabulary = Vocabulary((("drug", OTHER),), ((OTHER,),))
    aligned = align_with(TOKENIZER["wordpiece"], [found], text, None, vocabulary)
    assert aligned.spans == [(0, 0, 2, 3)]
    assert (aligned.boxes, aligned.kinds, aligned.ties) == ([], [], [])


@pytest.mark.parametrize("text", ["", "   ", "\n\n", "\u200d", "\u0301"])
def test_texts_without_words_have_no_boxes_or_those_of_their_few_characters(tokenizer, text):
    found = Annotations(text, (Span(0, len(text)),), (Link(0, 0),))
    boxes = align_with(tokenizer, [found], text).boxes
    assert len(boxes) <= (1 if text.strip() else 0)


@pytest.mark.parametrize("weight", [-0.1, 1.5, float("nan"), float("inf")])
def test_a_weight_outside_0_and_1_is_refused_by_source_and_value(weight):
    text = "the river"
    found = [Annotations(text), tied(text, "the", "river", weight=weight)]
    with pytest.raises(InputError, match=rf"Source 1 .*{weight!r}"):
        align_with(TOKENIZER["wordpiece"], found, text)
    found = [Annotations(text, (Span(0, 3),), terms=(Term("lake", ((0, weight),)),))]
    with pytest.raises(InputError, match=rf"Source 0 .*{weight!r}"):
        align_with(TOKENIZER["wordpiece"], found, text)


@pytest.mark.parametrize("place", [-1, 2])
def test_a_link_to_a_span_that_does_not_exist_is_refused(place):
    text = "the river"
    found = Annotations(text, (Span(0, 3), Span(4, 9)), (Link(0, place),))
    with pytest.raises(InputError, match=f"span number {place}"):
        align_with(TOKENIZER["wordpiece"], [found], text)


@pytest.mark.parametrize("span", [Span(4, 10), Span(-1, 3), Span(5, 4)])
def test_a_span_outside_its_text_is_refused(span):
    with pytest.raises(InputError, match="outside its text of 9 characters"):
        align_with(TOKENIZER["wordpiece"], [Annotations("the river", (span,), (Link(0, 0),))], "the river")


def test_annotations_of_another_text_are_refused():
    with pytest.raises(InputError, match="another text: 'the lake'"):
        align_with(TOKENIZER["wordpiece"], [Annotations("the lake")], "the river")


def test_a_text_of_100k_characters_with_thousands_of_spans_is_aligned():
    text = "the old river Aare flows in Bern " * 3031
    tokenizer = tokenizer_of_kind("byte-bpe", model_max_length=10**6)
    starts = range(0, len(text), 33)
    spans = tuple(Span(start + 14, start + 18) for start in starts)
    found = [Annotations(text, spans, tuple(Link(i, i - 1) for i in range(1, len(spans))))]
    encoding = encode(tokenizer, text, None)
    began = time.perf_counter()
    aligned = align(found, text, None, encoding["offsets"], encoding["sequence_ids"])
    print(f"{len(text)} characters, {len(encoding['offsets'])} tokens, {len(spans)} spans: ", end="")
    print(f"{1000 * (time.perf_counter() - began):.0f} ms")
    assert len(aligned.boxes) == len(spans) - 1
    tokens = encoding["tokens"]
    assert {"".join(tokens[top:bottom]) for _, top, bottom, _, _ in aligned.boxes} == {"Aare"}


# --- spans alone ---------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@any_encoded_text
def test_spans_alone_cover_the_same_tokens(kind, text, pair, side, max_length, data):
    joined = join_pair(text, pair)
    spans = draw_spans(data, joined, min_size=0)
    encoding = encode(
        TOKENIZER[kind], text, pair, truncation=True, max_length=max_length, padding="max_length", padding_side=side
    )
    found = token_ranges(spans, text, pair, encoding["offsets"], encoding["sequence_ids"])
    covered = [slow_positions(text, pair, span, encoding) for span in spans]
    assert found == [(min(one), max(one) + 1) if one else None for one in covered]


def test_spans_alone_are_found_as_those_of_annotations_without_links(tokenizer):
    text = "Bern lies near Bern"
    spans = [Span(0, 4), Span(15, 19), Span(4, 5), Span(9, 9)]
    encoding = encode(tokenizer, text, None)
    found = token_ranges(spans, text, None, encoding["offsets"], encoding["sequence_ids"])
    assert found[0] is not None and found[1] is not None and found[0][1] <= found[1][0]  # by place, not by word
    assert found[2:] == [None, None]
    assert align(
        [Annotations(text, tuple(spans))], text, None, encoding["offsets"], encoding["sequence_ids"]
    ).ranges == [found]
    assert token_ranges([], text, None, encoding["offsets"], encoding["sequence_ids"]) == []


def test_a_span_alone_outside_its_text_is_refused(wordpiece):
    encoding = encode(wordpiece, "Bern", None)
    with pytest.raises(InputError, match=r"2\.\.9"):
        token_ranges([Span(2, 9)], "Bern", None, encoding["offsets"], encoding["sequence_ids"])
