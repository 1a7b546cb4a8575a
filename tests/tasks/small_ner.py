"""A small task with entities: medicines and towns, of which training knows some and a list knows all."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import torch
from miniatures import tiny_host, tiny_tokenizer
from tiny_infusions import shake

import infuser
from infuser.signals.tags import Tags
from infuser.tasks.base import class_options
from infuser.types import Method

DRUGS = ("glipizide", "warfarin", "ramipril", "naproxen", "codeine", "aspirin")
CITIES = ("bern", "basel", "zurich", "geneva", "lugano", "sion")
NAMES = {**dict.fromkeys(DRUGS, "medicine"), **dict.fromkeys(CITIES, "town")}
"""What a list says about them."""
FRAMES = ("buy {} in {}", "the old {} near {}", "sell {} tablets to {}", "cheap {} from the city {}")


def examples_of(drugs: tuple[str, ...], cities: tuple[str, ...]) -> list[dict[str, Any]]:
    examples = []
    for frame, drug, city in itertools.product(FRAMES, drugs, cities):
        text = frame.format(drug, city)
        spans = [
            (text.index(word), text.index(word) + len(word), label) for word, label in ((drug, "Drug"), (city, "City"))
        ]
        examples.append({"text": text, "entities": sorted(spans)})
    return examples


def write_conll(path: Path, examples: list[dict[str, Any]]) -> Path:
    """Write texts whose words have one space between them as columns."""
    lines = []
    for example in examples:
        at = 0
        for word in example["text"].split():
            label = next((label for start, _, label in example["entities"] if start == at), None)
            lines.append(f"{word}\t{f'B-{label}' if label else 'O'}")
            at += len(word) + 1
        lines.append("")
    path.write_text("\n".join(lines))
    return path


def write_task(folder: Path) -> Path:
    """Write train.conll, dev.conll, test.conll and names.csv; the test part has unseen names."""
    folder.mkdir(exist_ok=True)
    write_conll(folder / "train.conll", examples_of(DRUGS[:4], CITIES[:4]))
    write_conll(folder / "dev.conll", examples_of(DRUGS[3:5], CITIES[3:5]))
    write_conll(folder / "test.conll", examples_of(DRUGS[3:], CITIES[3:]))
    (folder / "names.csv").write_text("".join(f"{name},{label}\n" for name, label in NAMES.items()))
    return folder


def tiny_tagger(method: Method, texts: list[str]) -> infuser.Infused:
    """Return a tagger that was never trained, but whose tags differ from word to word of these texts."""
    host = tiny_host("bert", "token-classification", **class_options(Tags(("City", "Drug")).names))
    torch.manual_seed(0)  # some methods start at random where that changes nothing
    infused = infuser.infuse(host, method, sources=[infuser.Entities(NAMES)], tokenizer=tiny_tokenizer("bert"))
    shake(infused.model)
    batch, head = infused.batch(texts), host.get_submodule("classifier")
    assert isinstance(head, torch.nn.Linear)
    with torch.no_grad():
        head.bias -= infused.model(**batch).logits[batch["attention_mask"].bool()].mean(dim=0)
    return infused
