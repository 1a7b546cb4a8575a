"""Exported equals torch: every method and every head, on one host; and the other hosts, with maps and types together.

The full product would take an hour, as tracing a graph takes seconds. Methods know nothing of heads, and hosts differ
where knowledge enters: at attention (KAM), around the blocks (types) and between them (KAR, ERNIE), so these
combinations meet all code there is. Only ModernBERT treats terms in a way of its own.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from miniatures import FIRST_HOSTS, N_POSITIONS, tiny_host, tiny_tokenizer
from tiny_infusions import KNOWN_TEXT, answer, examples, method_called, reads_entities, shake, sources_for

import infuser
from infuser import Infused
from infuser.methods import Kam, Together, Types
from infuser.runtime import ExportedModel, load
from infuser.types import Method

pytestmark = pytest.mark.slow

METHODS = [
    ("types-both", "sequence-classification"),
    ("kam", "multiple-choice"),
    ("kam-types", "token-classification"),
    ("kam-bias", "sequence-classification"),
    ("kar", "sequence-classification"),
    ("ernie", "question-answering"),
    ("text", "encoder"),
]
BETWEEN_BLOCKS = [("modernbert", "kar"), ("distilbert", "ernie")]
"""Methods between blocks, in the two hosts whose blocks are least like BERT's."""
COPIES_OF_ROBERTA = ("xlm-roberta", "camembert")
"""Transformers generates their code from RoBERTa's; an export of each takes as long as all other tests of one host."""
EXPORTED = [
    *(host for host in FIRST_HOSTS if host not in ("bert", *COPIES_OF_ROBERTA)),
    "eurobert",
    "mpnet",
    "deberta-v2",
]
"""Of the hosts that came later: one whose heads share keys, and two that compute their attention themselves."""


def infuse_small(
    host: str, head: str, method: Method, *, n_layers: int = 1, padding_side: str = "right", terms: bool = True
) -> Infused:
    """Return a tiny host whose new weights are shaken; of knowledge bases it has one."""
    sources = sources_for(method, terms=terms)[: 1 if reads_entities(method) else 2]
    layers = {"n_layers" if host == "distilbert" else "num_hidden_layers": n_layers}
    tokenizer = tiny_tokenizer(host, padding_side=padding_side)
    infused = infuser.infuse(tiny_host(host, head, **layers), method, sources=sources, tokenizer=tokenizer)
    shake(infused.model)
    return infused


def check_equal(infused: Infused, exported: ExportedModel, head: str) -> None:
    """Compare the answers to batches of other sizes and lengths than the traced one, with knowledge and without."""
    batches = [examples(head), examples(head)[:1], examples(head)[1:2] * 5]
    if head != "multiple-choice":
        cut = [{"text": KNOWN_TEXT * 9, "pair": "the river"}, {"text": "red"}]
        batches += [cut, [{"text": "a"}]]
    collator = infused.collator()
    for some in batches:
        expected = answer(infused.model, collator(some)).detach().numpy()
        expected = expected.swapaxes(1, 2) if head == "question-answering" else expected
        found = exported.logits([one["text"] for one in some], [one.get("pair") for one in some])
        np.testing.assert_allclose(found, expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize(("name", "head"), METHODS)
def test_every_method_answers_as_in_torch(name: str, head: str, tmp_path: Path) -> None:
    infused = infuse_small("bert", head, method_called(name), n_layers=2 if name == "ernie" else 1)
    infused.export(tmp_path / "out")
    check_equal(infused, load(tmp_path / "out", sources=infused.sources), head)


@pytest.mark.parametrize("host", EXPORTED)
def test_every_host_answers_as_in_torch(host: str, tmp_path: Path) -> None:
    kam = Kam(bypass_empty=host == "electra")
    infused = infuse_small(
        host,
        "sequence-classification",
        kam if host == "modernbert" else Together((Types(), kam)),
        n_layers=2 if host in ("albert", "modernbert") else 1,  # the second one sees a window only, or is the first
        padding_side="left" if host in ("roberta", "modernbert") else "right",
        terms=host == "modernbert",
    )
    infused.export(tmp_path / "out")
    exported = load(tmp_path / "out", sources=infused.sources)
    assert exported.card.batches["max_length"] == N_POSITIONS
    check_equal(infused, exported, "sequence-classification")


@pytest.mark.parametrize(("host", "name"), BETWEEN_BLOCKS)
def test_methods_between_blocks_answer_as_in_torch_in_other_hosts(host: str, name: str, tmp_path: Path) -> None:
    infused = infuse_small(host, "sequence-classification", method_called(name), n_layers=2)
    infused.export(tmp_path / "out")
    check_equal(infused, load(tmp_path / "out", sources=infused.sources), "sequence-classification")
