"""The reranker of the guide in LangChain; skipped without langchain-core, which no extra brings along."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from clients.test_sentence_transformers import reranker

pytest.importorskip("langchain_core")
GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "clients.md"


def code_of_the_guide() -> str:
    """Return the block of the guide that imports LangChain."""
    blocks = GUIDE.read_text(encoding="utf-8").split("\n```")[1::2]  # what stands between a fence and the next
    [code] = [block for block in blocks if "langchain_core" in block]
    return code.lstrip("\n")


def test_documents_come_back_in_the_order_of_a_reranker_with_knowledge() -> None:
    from langchain_core.documents import Document
    from langchain_core.runnables import RunnableLambda

    infused, model = reranker()
    query, texts = "the glipizide in town", ["a river", "a medicine", "the aare is a river", "buy warfarin"]
    known: dict[str, Any] = {
        "reranker": model,
        "retriever": RunnableLambda(lambda query: [Document(text) for text in texts]),
    }
    exec(code_of_the_guide(), known)
    found = known["chain"].invoke(query)
    with torch.no_grad():
        logits = infused.model(**infused.batch([query] * len(texts), texts)).logits[:, 0]
    scores = dict(zip(texts, logits.sigmoid().tolist(), strict=True))
    assert [one.page_content for one in found] == sorted(texts, key=lambda text: -scores[text])[:3]
    assert [one.metadata["score"] for one in found] == pytest.approx(sorted(scores.values(), reverse=True)[:3])
    with infused.disabled():
        plain = {one.page_content: one.metadata["score"] for one in known["chain"].invoke(query)}
    assert any(abs(plain[text] - scores[text]) > 1e-5 for text in plain)
