"""Bracketed trees: reading them, their levels, and how they find their texts."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infuser.errors import InputError, SourceError
from infuser.sources.constituents import Constituent, Tree, constituents, phrases_at, read_trees, words_of
from infuser.sources.trees import BracketedPhrases
from infuser.types import Annotations, Link, Span, join_pair

CAT = "(S (NP (DT the) (NN cat)) (VP (VBD sat) (PP (IN on) (NP (DT the) (NN mat)))) (. .))"


def read(*lines: str) -> tuple[list[Tree], list[tuple[int, str]]]:
    wrong: list[tuple[int, str]] = []
    trees = list(read_trees(lines, lambda number, why, row: wrong.append((number, why))))
    return trees, wrong


def source(tmp_path: Path, *lines: str, **settings: object) -> BracketedPhrases:
    file = tmp_path / "trees.txt"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return BracketedPhrases(file, **settings)  # type: ignore[arg-type]


def found(phrases: BracketedPhrases, text: str) -> list[tuple[str, str]]:
    [answer] = phrases.annotate([text])
    return [(span.label, text[span.start : span.end]) for span in answer.spans]


def written(tree: Tree) -> str:
    escaped = {"(": "-LRB-", ")": "-RRB-", "[": "-LSB-", "]": "-RSB-", "{": "-LCB-", "}": "-RCB-"}
    if not tree.children:
        return escaped.get(tree.label) or tree.label.replace("/", "\\/").replace("*", "\\*")
    return f"({tree.label} {' '.join(written(child) for child in tree.children)})"


def height(tree: Tree) -> int:
    return 1 + max(map(height, tree.children)) if tree.children else 0


words = st.one_of(
    st.sampled_from(["(", ")", "[", "]", "{", "}", "1/2", "*", "``", "''", "n't", "–", "日本", "🙂"]),
    st.text(st.characters(exclude_categories=["Z", "C"], exclude_characters="()[]{}\\"), min_size=1, max_size=6).filter(
        # in Penn files these stand for brackets, so as words they cannot be told apart from them
        lambda word: not word.isspace() and word.upper() not in {f"-{side}{kind}B-" for side in "LR" for kind in "RSC"}
    ),
)
labels = st.sampled_from(["S", "NP", "VP", "PRP$", "``", "-LRB-", ",", "X"])
tagged_words = st.builds(lambda label, word: Tree(label, (Tree(word),)), labels, words)
random_trees = st.recursive(
    tagged_words,
    lambda parts: st.builds(lambda label, children: Tree(label, tuple(children)), labels, st.lists(parts, min_size=1)),
    max_leaves=12,
)


@given(st.lists(random_trees, max_size=4), st.sampled_from(["\n", " ", "\n\n", " \n  "]))
def test_trees_are_the_same_after_writing_and_reading(trees: list[Tree], between: str) -> None:
    assert read(*between.join(map(written, trees)).split("\n")) == (trees, [])


@given(random_trees)
def test_a_tree_over_several_lines_is_the_same_tree(tree: Tree) -> None:
    assert read(*written(tree).replace(" ", "\n  ").split("\n")) == ([tree], [])


@given(st.lists(st.text("()SN a-\n", max_size=30), max_size=6))
def test_any_brackets_are_read_or_complained_about(lines: list[str]) -> None:
    trees, wrong = read(*"\n".join(lines).split("\n"))
    assert all(words_of(tree) and tree.children for tree in trees)
    assert trees or wrong or not "".join(lines).split()


@given(random_trees)
def test_the_level_of_a_node_is_the_longest_way_down_to_a_word(tree: Tree) -> None:
    found = constituents(tree)
    assert found[-1] == Constituent(tree.label, height(tree), 0, len(words_of(tree)))
    for phrase in found:
        assert not any(
            inner.level >= phrase.level
            for inner in found
            if (phrase.first <= inner.first and inner.end <= phrase.end)
            and inner.end - inner.first < phrase.end - phrase.first
        )


def test_levels_of_a_sentence_worked_by_hand() -> None:
    [tree], _ = read(CAT)
    assert words_of(tree) == ["the", "cat", "sat", "on", "the", "mat", "."]
    assert [(node.label, node.level, node.first, node.end) for node in constituents(tree) if node.level > 1] == [
        ("NP", 2, 0, 2),
        ("NP", 2, 4, 6),
        ("PP", 3, 3, 6),
        ("VP", 4, 2, 6),
        ("S", 5, 0, 7),
    ]


def test_of_nodes_over_the_same_words_the_lowest_counts_and_single_words_are_no_phrases() -> None:
    [tree], _ = read("(ROOT (S (VP (NP (DT the) (NN cat)))) (NP (PRP he) (, ,)))")
    assert phrases_at(tree, (1, 2, 3, 4)) == [Constituent("NP", 2, 0, 2)]
    assert phrases_at(tree, (3, 4), ("VP",)) == [Constituent("VP", 3, 0, 2)]


def test_outer_brackets_traces_escapes_and_function_tags_are_cleaned() -> None:
    [tree], wrong = read(
        "( (S (NP-SBJ-1 (-LRB- -LRB-) (NN and\\/or)) (NP=2 (-NONE- *T*-1)) (VP (VB 2\\*3) (S (NP (-NONE- *)))) ))"
    )
    assert not wrong
    bracket, word = Tree("-LRB-", (Tree("("),)), Tree("NN", (Tree("and/or"),))
    assert tree == Tree("S", (Tree("NP", (bracket, word)), Tree("VP", (Tree("VB", (Tree("2*3"),)),))))


def test_words_without_parts_of_speech_are_read() -> None:
    [tree], wrong = read("(S (NP the cat) (VP sat (PP on (NP the mat))) .)")
    assert not wrong and words_of(tree) == ["the", "cat", "sat", "on", "the", "mat", "."]
    assert [phrase.label for phrase in phrases_at(tree, (1,))] == ["NP", "NP"]


def test_malformed_trees_are_named_and_the_others_read() -> None:
    good = "(NP (DT the) (NN cat))"
    trees, wrong = read(good, "(S (NP (DT a))", good, "", "word (X y)", f"{good} ) {good}", "(S (NP) (X y))", good)
    assert len(trees) == 4 and set(map(written, trees)) == {good}
    assert wrong == [
        (2, "a bracket is not closed"),
        (5, "'word' stands outside all brackets"),
        (6, "')' stands outside all brackets"),
        (7, "the bracket 'NP' holds nothing"),
    ]


def test_a_bracket_that_is_never_closed_costs_one_tree_even_in_a_long_file() -> None:
    good = "(NP (DT the) (NN cat))"
    trees, wrong = read(*["(S (X y)" if number % 500 == 7 else good for number in range(20_000)])
    assert [number for number, _ in wrong] == list(range(8, 20_001, 500))
    assert len(trees) == 20_000 - len(wrong)


def test_a_very_deep_tree_is_read() -> None:
    [tree], wrong = read("(X " * 20_000 + "y" + ")" * 20_000)
    assert not wrong and constituents(tree)[-1].level == 20_000


def test_phrases_of_a_text_worked_by_hand(tmp_path: Path) -> None:
    text = "the cat  sat on\tthe mat."
    assert source(tmp_path, CAT).annotate([text]) == [
        Annotations(text, (Span(0, 7, "NP"), Span(16, 23, "NP")), (Link(0, 0), Link(1, 1)))
    ]
    assert found(source(tmp_path, CAT, levels=[3, 4]), text) == [("VP", "sat on\tthe mat"), ("PP", "on\tthe mat")]
    assert found(source(tmp_path, CAT, levels=[2, 3, 4], labels=["PP"]), text) == [("PP", "on\tthe mat")]


def test_a_text_may_be_several_trees_and_each_side_of_a_pair_its_own(tmp_path: Path) -> None:
    dog = "(S (NP (DT a) (NN dog)) (VP (VBD ran)))"
    phrases = source(tmp_path, CAT, dog)
    both = [("NP", "the cat"), ("NP", "the mat"), ("NP", "a dog")]
    assert found(phrases, "the cat sat on the mat. a dog ran") == both
    assert found(phrases, join_pair("the cat sat on the mat.", "a dog ran")) == both
    assert found(phrases, join_pair("unknown", "a dog ran")) == [("NP", "a dog")]
    assert found(phrases, "a dog") == []


def test_trees_are_chosen_so_that_the_whole_text_is_covered(tmp_path: Path) -> None:
    phrases = source(tmp_path, "(A (X a) (X b))", "(B (X a) (X b) (X c))", "(C (X c) (X d))", "(D (X d))")
    assert found(phrases, "a b c d") == [("A", "a b"), ("C", "c d")]
    assert found(phrases, "a b c d d") == [("A", "a b"), ("C", "c d")]
    assert found(phrases, "a b c c") == []


@pytest.mark.parametrize(
    "text",
    ['"Zoë (my cat)" — 1/2…', "“Zoe\u0308 ( my cat )” — 1/2...", "``Zoë (my cat)''--1/2 ...", "''Zoë(my cat)'' – 1/2…"],
)
def test_quotes_dashes_brackets_and_accents_may_be_written_in_several_ways(tmp_path: Path, text: str) -> None:
    phrases = source(
        tmp_path,
        "(S (`` ``) (NP (NNP Zoë) (PRN (-LRB- -LRB-) (NP (PRP$ my) (NN cat)) (-RRB- -RRB-))) ('' '') (: --) "
        "(CD 1\\/2) (. ...))",
        levels=[2, 4],
    )
    [(_, whole), (_, inner)] = found(phrases, text)
    assert whole.startswith("Zo") and whole.endswith(")") and inner == "my cat"


@given(random_trees, st.data())
def test_a_tree_finds_its_text_however_it_is_spaced(tree: Tree, data: st.DataObject) -> None:
    tokens = words_of(tree)
    spaces = data.draw(st.lists(st.sampled_from(["", " ", "\t", "\n"]), min_size=len(tokens), max_size=len(tokens)))
    text = "".join(part for pair in zip(tokens, spaces, strict=True) for part in pair)
    phrases = BracketedPhrases("unused", levels=range(1, height(tree) + 1))
    plain, inside = phrases._read(tree)
    vars(phrases)["_index"] = type(BracketedPhrases.tiny()._index)({plain: inside})  # instead of a file
    [answer] = phrases.annotate([text])
    expected = {"".join(tokens[phrase.first : phrase.end]) for phrase in phrases_at(tree, range(1, height(tree) + 1))}
    for span in answer.spans:
        written = text[span.start : span.end]
        assert written == written.strip() and "".join(written.split()) in expected
    assert len(answer.spans) == len(phrases_at(tree, range(1, height(tree) + 1)))


def test_malformed_trees_are_counted_and_the_first_shown(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    phrases = source(tmp_path, CAT, "(S (NP", "(X)")
    with caplog.at_level(logging.WARNING):
        assert found(phrases, "the cat sat on the mat.")
    assert "2 malformed trees were left out" in caplog.text
    assert f"{tmp_path / 'trees.txt'}, line 2: a bracket is not closed: '(S (NP'" in caplog.text


def test_a_malformed_tree_is_an_error_when_strict(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="line 2: a bracket is not closed"):
        source(tmp_path, CAT, "(S (NP", strict=True).annotate(["the cat"])


def test_texts_without_a_tree_are_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    phrases = source(tmp_path, CAT)
    with caplog.at_level(logging.WARNING):
        phrases.annotate(["a dog ran", "the cat sat on the mat."])
        phrases.annotate(["a dog ran"])
    assert [record.getMessage() for record in caplog.records] == [
        f"1 of 2 paragraphs are not among the 1 trees of {tmp_path / 'trees.txt'}, for example 'a dog ran'. The words "
        "of the trees must be those of the text."
    ]


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"Cannot read the trees in '.*absent.txt'"):
        BracketedPhrases(tmp_path / "absent.txt").annotate(["a text"])
    (tmp_path / "latin.txt").write_bytes("(NP (NNP Zoë) (NN cat))".encode("latin-1"))
    with pytest.raises(SourceError, match=r"latin.txt' is not UTF-8"):
        BracketedPhrases(tmp_path / "latin.txt").annotate(["a text"])
    (tmp_path / "empty.txt").write_text("\n")
    with pytest.raises(SourceError, match=r"empty.txt holds no tree"):
        BracketedPhrases(tmp_path / "empty.txt").annotate(["a text"])


@pytest.mark.parametrize("levels", [(), (0,), ("2",), (True,), 2.5])
def test_levels_that_are_none_are_refused(levels: object) -> None:
    with pytest.raises(SourceError, match="levels is"):
        BracketedPhrases("tiny", levels=levels)  # type: ignore[arg-type]
