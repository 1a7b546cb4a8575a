"""Kept annotations make the same batches as sources that are asked, in data loader workers too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from miniatures import tiny_tokenizer
from torch.utils.data import DataLoader

from infuser import Collator
from infuser.sources import Correlation, Entities, Graph
from infuser.sources.annotating import annotate, with_cache

PAIRS = [
    ("buy glipizide", "pharmacy near me"),
    ("Bern lies on the Aare", None),
    ("nothing", "New York"),
    ("", None),
] * 4
SOURCES = [Entities.tiny(), Graph.tiny(), Correlation({("buy", "shop"): 2.0}, n_terms=1)]


class _Mute(Entities):
    """A source that must not be asked."""

    def annotate(self, texts: Any) -> Any:
        raise AssertionError(f"asked about {texts}")


@pytest.mark.parametrize("n_workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_kept_annotations_make_the_same_batches_and_no_source_is_asked(tmp_path: Path, n_workers: int) -> None:
    examples = [{"text": text, "pair": pair, "label": n % 2} for n, (text, pair) in enumerate(PAIRS)]
    kept = annotate(examples, SOURCES, tmp_path / "out").with_labels([example["label"] for example in examples])
    tokenizer = tiny_tokenizer("bert")
    asking = Collator(tokenizer, SOURCES)
    mute = Collator(tokenizer, [_Mute(["Bern"])] * 3, vocabulary=asking.vocabulary)
    expected = [asking(examples[at : at + 5]) for at in range(0, len(examples), 5)]
    batches = list(DataLoader(kept, batch_size=5, collate_fn=mute, num_workers=n_workers))  # type: ignore[arg-type]
    assert len(batches) == len(expected) == 4
    for batch, wanted in zip(batches, expected, strict=True):
        assert batch.keys() == wanted.keys() and "knowledge_boxes" in batch
        assert all(torch.equal(batch[name], wanted[name]) for name in wanted)


def test_a_collator_with_sources_that_remember_makes_the_same_batches(tmp_path: Path) -> None:
    tokenizer, texts = tiny_tokenizer("bert"), [text for text, _ in PAIRS]
    remembering = Collator(tokenizer, with_cache(SOURCES, tmp_path))
    for _ in range(2):
        batch, wanted = remembering.encode(texts), Collator(tokenizer, SOURCES).encode(texts)
        assert all(torch.equal(batch[name], wanted[name]) for name in wanted)
    assert [source.n_asked for source in remembering.sources] == [4, 4, 4]  # type: ignore[attr-defined]
