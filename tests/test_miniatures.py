from __future__ import annotations

import pytest
import torch
from miniatures import HEADS, HOSTS, PAIRS, TEXTS, every_host_and_head, tiny_host, tiny_tokenizer


def test_every_host_has_the_heads_that_transformers_has_for_it():
    heads = {host: [head for other, head in every_host_and_head() if other == host] for host in HOSTS}
    four = ["encoder", "sequence-classification", "token-classification", "masked-lm"]
    fewer = dict.fromkeys(("nomic_bert", "eurobert", "esm"), four)
    fewer |= {host: [head for head in HEADS if head != "multiple-choice"] for host in ("jina_embeddings_v3", "deberta")}
    assert heads == {host: list(HEADS) for host in HOSTS} | fewer


@pytest.mark.parametrize(("host", "head"), every_host_and_head())
def test_every_miniature_reads_a_batch_of_its_tokenizer(host, head):
    batch = tiny_tokenizer(host)(list(TEXTS), list(PAIRS), padding=True, return_tensors="pt")
    if head == "multiple-choice":
        batch = {name: tensor[None] for name, tensor in batch.items()}
    model = tiny_host(host, head)
    assert not model.training
    with torch.no_grad():
        answer = model(**batch)[0]
    assert answer.dtype == torch.float64
    assert answer.isfinite().all()
    assert answer.std() > 0.01
    with torch.no_grad():
        assert torch.equal(tiny_host(host, head)(**batch)[0], answer)  # the same miniature every time
