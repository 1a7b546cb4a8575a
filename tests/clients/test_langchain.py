"""The reranker of the guide in LangChain; skipped without langchain-core, which no extra brings along."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langchain_core")
GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "clients.md"


def code_of_the_guide() -> str:
    """Return the block of the guide that imports LangChain."""
    blocks = GUIDE.read_text(encoding="utf-8").split("\n```")[1::2]  # what stands between a fence and the next
    [code] = [block for block in blocks if "langchain_core" in block]
    return code.lstrip("\n")


def test_documents_come_back_in_the_order_of_the_reranker() -> None:
    from langchain_core.documents import Document
    from langchain_core.runnables import RunnableLambda

    class ByLength:
        """Ranks as a CrossEncoder does: the longest text first."""

        def rank(self, query: str, texts: list[str], top_k: int) -> list[dict[str, Any]]:
            order = sorted(range(len(texts)), key=lambda place: -len(texts[place]))[:top_k]
            return [{"corpus_id": place, "score": float(len(texts[place]))} for place in order]

    texts = ["a", "a long text", "a text"]
    retriever = RunnableLambda(lambda query: [Document(text) for text in texts])
    known: dict[str, Any] = {"reranker": ByLength(), "retriever": retriever}
    exec(code_of_the_guide(), known)
    found = known["chain"].invoke("where is it?")
    assert [one.page_content for one in found] == ["a long text", "a text", "a"]
    assert [one.metadata["score"] for one in found] == [11.0, 6.0, 1.0]
