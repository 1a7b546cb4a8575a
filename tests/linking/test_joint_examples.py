"""Examples for joint training: masked words everywhere, linking where a name means one thing only."""

from __future__ import annotations

import pytest

from infuser import Candidates
from infuser.linking.masking import joint_examples
from infuser.types import join_pair

BASE = Candidates({"Bern": {"Q70": 1}, "bank": {"Q1": 2, "Q2": 1}})
DOCUMENTS = [["Bern is\n\nold.", "The bank is new.", "Nothing is here."], ["The bank of Bern.", "It is far."]]


def test_what_a_name_means_is_taught_in_the_text_that_the_collator_reads() -> None:
    examples = joint_examples(DOCUMENTS, {"base": BASE}, pairs=True, seed=1, copies=2)
    assert len(examples) == 6  # three pairs of sentences that follow each other, twice
    taught = [example for example in examples if "gold" in example]
    assert taught and len(taught) == sum("Bern" in join_pair(one["text"], one["pair"]) for one in examples)
    for example in taught:
        [found] = example["annotations"]
        assert found.text == join_pair(example["text"], example["pair"])
        meant = zip(found.spans, example["gold"]["base"], strict=True)
        known = {found.text[span.start : span.end] for span, id in meant if id is not None}
        assert known == {"Bern"}
    assert {example["next_sentence"] for example in examples} <= {0, 1}
    assert len({example["seed"] for example in examples}) == 6
    assert any(example["text"] == "Bern is old." for example in examples)  # the break of a pair stands nowhere else


def test_without_pairs_every_part_is_a_text_of_its_own() -> None:
    examples = joint_examples(DOCUMENTS, {"base": BASE}, pairs=False, copies=2)
    assert [example["text"] for example in examples[:5]] == [example["text"] for example in examples[5:]]
    assert len({example["seed"] for example in examples}) == 10
    assert [("gold" in example) for example in examples[:5]] == [True, False, False, True, False]
    assert all("pair" not in example and "next_sentence" not in example for example in examples)


def test_the_same_seed_gives_the_same_examples() -> None:
    one, same, other = (joint_examples(DOCUMENTS, {"base": BASE}, pairs=True, seed=seed) for seed in (3, 3, 4))
    assert one == same != other


def test_documents_without_a_name_that_means_one_thing_teach_words_only(caplog: pytest.LogCaptureFixture) -> None:
    examples = joint_examples([["The bank.", "A bank.", "No bank."]], {"base": BASE}, pairs=False)
    assert [example["text"] for example in examples] == ["The bank.", "A bank.", "No bank."]
    assert not any("gold" in example for example in examples)
    assert "Nothing to learn" in caplog.text
