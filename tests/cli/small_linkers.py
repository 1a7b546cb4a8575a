"""A small knowledge base on disk, texts that are linked to it, and a linker that was never trained."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from cli.commands import write_lines
from miniatures import tiny_host, tiny_tokenizer
from tiny_infusions import shake

import infuser
from infuser import Candidates, EntityVectors, Kar, KnowledgeBase
from infuser.knowledge.candidates.store import build_candidates, mentions_of

NAMES = {
    "bank": {"river bank": 3.0, "money bank": 2.0},
    "lake": {"lake": 1.0},
    "lake town": {"lake town": 1.0},
    "red book": {"red book": 1.0},
}
NEAR_WATER, NEAR_MONEY = ("river", "lake", "bridge", "city"), ("buy", "sell", "cheap", "shop")


def write_knowledge(folder: Path) -> tuple[Path, Path]:
    """Write candidates and vectors, and return both folders."""
    ids = sorted({id for entities in NAMES.values() for id in entities})
    build_candidates(mentions_of(NAMES)).save(folder / "cands")
    vectors = np.random.default_rng(0).normal(size=(len(ids), 8))
    return folder / "cands", EntityVectors.of(ids, vectors).save(folder / "vecs")


def linked_rows() -> list[dict[str, Any]]:
    """Return texts about two kinds of banks; the words around tell which."""
    water = ("the old {} near the bank", "a small {} and the bank", "bank of the {}")
    money = ("{} at the bank", "the bank to {} in", "a bank , {} new")
    rows = []
    for words, patterns, entity in ((NEAR_WATER, water, "river bank"), (NEAR_MONEY, money, "money bank")):
        for text in (pattern.format(word) for word in words for pattern in patterns):
            spans = [{"start": text.index("bank"), "end": text.index("bank") + 4, "id": entity}]
            if "lake" in text:
                spans.append({"start": text.index("lake"), "end": text.index("lake") + 4, "id": "lake"})
            rows.append({"text": text, "spans": spans})
    return rows


def write_json_lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    return write_lines(path, *(json.dumps(row) for row in rows))


def save_linker(folder: Path, *, names: tuple[str, ...] = ("base",), threshold: float = -1000.0) -> Path:
    """Save a tiny model that links everything."""
    candidates, vectors = write_knowledge(folder)
    bases = [KnowledgeBase(Candidates(candidates), vectors, name) for name in names]
    torch.manual_seed(0)
    host = tiny_host("bert").float()
    infused = infuser.infuse(host, Kar(threshold=threshold), sources=bases, tokenizer=tiny_tokenizer("bert"))
    shake(infused.model)
    infused.save(folder / "model")
    return folder / "model"
