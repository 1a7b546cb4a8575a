"""The tokenizer without transformers gives batch makers what the one of transformers gives them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from miniatures import PAIRS, TEXTS, TOKENIZERS, Repeats, tokenizer_of_kind

from infuser import Collator
from infuser.errors import CheckpointError
from infuser.runtime.tokenizer import TextTokenizer, tokenizer_settings
from infuser.signals.batches import BatchMaker
from infuser.signals.writing import Writer

LONG = "the old bridge of the town " * 40


def both(kind: str, folder: Path, **settings: Any) -> tuple[Any, TextTokenizer]:
    theirs = tokenizer_of_kind(kind, **settings)
    theirs.save_pretrained(folder)
    return theirs, TextTokenizer.load(folder / "tokenizer.json", tokenizer_settings(theirs))


@pytest.mark.parametrize("kind", TOKENIZERS)
@pytest.mark.parametrize("side", ["right", "left"])
def test_batches_are_the_same(kind: str, side: str, tmp_path: Path) -> None:
    theirs, ours = both(kind, tmp_path, padding_side=side, truncation_side=side)
    examples = [{"text": text, "pair": pair} for text, pair in zip((*TEXTS, LONG), (*PAIRS, LONG), strict=True)]
    examples += [{"text": text} for text in (*TEXTS, LONG, "", "京都 👍")]
    for writer in (None, Writer(0.25)):
        collator = Collator(theirs, [Repeats()], writer=writer)
        maker = BatchMaker(ours, [Repeats()], writer=writer)
        expected = {name: tensor.numpy() for name, tensor in collator(examples).items()}
        made = maker(examples)
        assert made.keys() == expected.keys()
        assert all((made[name] == expected[name]).all() for name in expected)
        assert maker.with_words(examples[5:])[1] == collator.with_words(examples[5:])[1]


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_single_texts_and_special_tokens_are_the_same(kind: str, tmp_path: Path) -> None:
    theirs, ours = both(kind, tmp_path)
    for options in ({}, {"add_special_tokens": False}, {"truncation": True, "max_length": 7}):
        expected = theirs(TEXTS[0], PAIRS[0], return_offsets_mapping=True, **options)
        made = ours(TEXTS[0], PAIRS[0], return_offsets_mapping=True, **options)
        assert {name: made[name] for name in expected} == dict(expected)
    for pair in (False, True):
        assert ours.num_special_tokens_to_add(pair) == theirs.num_special_tokens_to_add(pair)
    assert ours.unk_token_id == theirs.unk_token_id


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    theirs, _ = both("wordpiece", tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"tokenizer\.json cannot be read"):
        TextTokenizer.load(tmp_path / "tokenizer.json", tokenizer_settings(theirs))
