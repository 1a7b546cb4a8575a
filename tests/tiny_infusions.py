"""Tiny hosts with knowledge inside, and what tests ask of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import torch
from miniatures import PAIRS, TEXTS, Repeats, tiny_host, tiny_tokenizer
from torch import Tensor
from transformers import PreTrainedModel

import infuser
from infuser import Candidates, EntityVectors, KnowledgeBase
from infuser.hosts import is_new_weight
from infuser.methods import Kam, Kar, Together, Types
from infuser.methods.together import methods_of
from infuser.registry import METHODS
from infuser.types import Annotations, Link, Method, Source

ENTITY_METHODS = ("kar", "ernie")
"""Methods that read knowledge bases; all others read maps."""

VARIANTS: dict[str, Method] = {
    "kam-bias": Kam(fusion="bias"),
    "kam-types": Kam(channels="types"),
    "types-names": Types(vectors="names"),
    "types-both": Types(vectors="both"),
    "types+kar": Together((Types(), Kar())),
}
"""Methods with other settings than their usual ones, which promise the same."""


def method_called(name: str) -> Method:
    """Return one of `VARIANTS`, or a registered method with its usual settings."""
    made: Method = VARIANTS[name] if name in VARIANTS else METHODS[name]()
    return made


def reads_entities(method: str | Method) -> bool:
    """Tell whether a method needs knowledge bases."""
    parts = methods_of(method_called(method) if isinstance(method, str) else method)
    return any(METHODS.name_of(part) in ENTITY_METHODS for part in parts)


KNOWN_TEXT = "the old bridge of the old town lies on the river"
"""Its words repeat, so the sources of these tests know something about it."""


@dataclass(frozen=True)
class RepeatsAndTerms(Repeats):
    """`Repeats` that says beforehand that it offers auxiliary terms."""

    term: str = "glipizide river"
    n_terms: int = 1


@dataclass(frozen=True)
class Kinds:
    """A source of the tests: every word is of the type of its first letter, equal words are tied by their length."""

    weight: float = 1.0

    def annotate(self, texts: Sequence[str]) -> list[Annotations]:
        return [self._annotate(found) for found in Repeats(self.weight).annotate(texts)]

    def _annotate(self, found: Annotations) -> Annotations:
        spans = tuple(replace(span, label=found.text[span.start]) for span in found.spans)
        links = [replace(link, relation=str(spans[link.source].end - spans[link.source].start)) for link in found.links]
        links += [Link(place, place, self.weight / 2) for place, span in enumerate(spans) if span.label in "og"]
        return replace(found, spans=spans, links=tuple(links))

    @property
    def span_types(self) -> tuple[str, ...]:
        return ("o", "t")

    @property
    def relation_types(self) -> tuple[str, ...]:
        return ("3",)

    @classmethod
    def tiny(cls) -> Self:
        return cls()


MEANINGS: dict[str, dict[str, float]] = {
    "old bridge": {"Q1": 3, "Q2": 1},
    "bridge": {"Q2": 5, "Q3": 2, "Q1": 1},
    "town": {"Q4": 2, "Q5": 2},
    "old town": {"Q6": 1},
    "river": {"Q7": 9, "Q8": 3},
    "glipizide": {"Q9": 1, "Q10": 1},
    "Bern": {"Q4": 4, "Q11": 1},
    "city": {"Q5": 7, "Q12": 2},
    "pharmacy": {"Q13": 1},
}
"""What the words of the tests' texts may mean."""


@dataclass(frozen=True)
class Meanings:
    """Candidates for words of the tests; "lies" and "the town" are mentions whose meanings nobody knows."""

    known: Candidates = field(default_factory=lambda: Candidates(MEANINGS))
    unknown: Candidates = field(default_factory=lambda: Candidates({"lies": {"Q0": 1}, "tablets": {"Q0": 1}}))

    def annotate(self, texts: Sequence[str]) -> list[Annotations]:
        found = zip(texts, self.known.annotate(texts), self.unknown.annotate(texts), strict=True)
        return [
            Annotations(text, one.spans + other.spans, candidates=one.candidates + ((),) * len(other.spans))
            for text, one, other in found
        ]

    @classmethod
    def tiny(cls) -> Self:
        return cls()


def tiny_base(name: str = "base", *, dim: int = 8, seed: int = 0) -> KnowledgeBase:
    """Return a knowledge base that knows words of the tests."""
    ids = sorted({id for entities in MEANINGS.values() for id in entities})
    vectors = np.random.default_rng(seed).normal(size=(len(ids), dim))
    return KnowledgeBase(Meanings(), EntityVectors.of(ids, vectors), name)


def sources_for(method: str | Method, *, terms: bool = True) -> list[Source]:
    """Return two sources that a method can read: knowledge bases for those that need entities, else maps."""
    made = method_called(method) if isinstance(method, str) else method
    if reads_entities(made):
        return [tiny_base("places"), tiny_base("things", dim=6, seed=1)]
    if isinstance(made, Kam) and made.channels == "types":
        return [Kinds(), *tiny_sources(terms=terms)[1:]]
    if isinstance(made, Kam) and made.fusion == "bias":
        return tiny_sources(terms=False)  # beside terms it does not take its own way, which is SDPA
    return tiny_sources(terms=terms)


def tiny_sources(*, terms: bool = True) -> list[Source]:
    return [Repeats(weight=1.0), RepeatsAndTerms(weight=0.4) if terms else Repeats(weight=0.4)]


def infuse_tiny(
    host: str,
    head: str = "encoder",
    method: str | Method = "kam",
    *,
    terms: bool = True,
    shaken: bool = True,
    padding_side: str = "right",
    **changes: Any,
) -> infuser.Infused:
    """Return a tiny host with two sources; `shaken` moves its new weights away from where they change nothing."""
    model = tiny_host(host, head, **changes)
    torch.manual_seed(0)  # some methods start at random where that changes nothing
    infused = infuser.infuse(
        model,
        method_called(method) if isinstance(method, str) else method,
        sources=sources_for(method, terms=terms),
        tokenizer=tiny_tokenizer(host, padding_side=padding_side),
    )
    if shaken:
        shake(infused.model)
    return infused


def shake(model: PreTrainedModel, *, seed: int = 1) -> None:
    """Add noise to all new weights."""
    noise = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if is_new_weight(name):
                # these are held divided by a hundred or more
                size = 0.003 if name.endswith(("maps", "term_gates", ".vectors", "name_gates")) else 0.3
                weight.add_(torch.randn(weight.shape, generator=noise, dtype=torch.float64).to(weight) * size)


def examples(head: str) -> list[dict[str, Any]]:
    """Return examples of unequal length for a head; all but one hold knowledge, some as pairs."""
    texts: list[tuple[str, str | None]] = [
        (KNOWN_TEXT, None),
        (TEXTS[1], PAIRS[1]),
        ("cheap medicine", None),
        (TEXTS[3], "the train from Bern to the city runs on the bridge of the city"),
    ]
    rows = [{"text": text, "pair": pair} for text, pair in texts]
    if head != "multiple-choice":
        return rows
    return [
        {"text": [rows[i]["text"], rows[j]["text"]], "pair": [PAIRS[0], PAIRS[2]]} for i, j in ((0, 1), (2, 2), (3, 0))
    ]


def holds_knowledge(batch: Mapping[str, Tensor]) -> bool:
    """Tell whether anything is known about the texts of a batch."""
    return any(bool((batch[name] > 0).any()) for name in batch if name.endswith(("_weights", "_priors")))


def plain(batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return a batch without its knowledge."""
    return {name: tensor for name, tensor in batch.items() if not name.startswith("knowledge")}


def answer(model: PreTrainedModel, batch: Mapping[str, Any]) -> Tensor:
    """Return what the head says: (batch, seq, ...) or (batch, ...)."""
    out = model(**batch)
    if "start_logits" in out:
        return torch.stack([out.start_logits, out.end_logits], dim=-1)
    answered: Tensor = out["logits"] if "logits" in out else out["last_hidden_state"]
    return answered


def per_token(head: str) -> bool:
    """Tell whether a head answers for every token."""
    return head not in ("sequence-classification", "multiple-choice")


def real_part(answered: Tensor, batch: Mapping[str, Tensor], head: str) -> Tensor:
    """Return an answer with what it says about padding set to zero."""
    return answered * batch["attention_mask"][..., None] if per_token(head) else answered


def loss(model: PreTrainedModel, batch: Mapping[str, Tensor], head: str) -> Tensor:
    """Return the head's own loss for labels chosen at random, or one made up for a bare encoder."""
    noise = torch.Generator().manual_seed(3)
    n_rows = len(batch["input_ids"])
    labels: dict[str, Tensor] = {}
    if head == "encoder":
        states = answer(model, batch)
        wanted = torch.randn(states.shape, generator=noise, dtype=torch.float64).to(states)
        return ((states - wanted) ** 2 * batch["attention_mask"][..., None]).mean()
    if head in ("token-classification", "masked-lm"):
        labels["labels"] = torch.randint(3, batch["input_ids"].shape, generator=noise)
        labels["labels"][batch["attention_mask"] == 0] = -100
    elif head == "question-answering":
        labels["start_positions"] = torch.randint(1, 5, (n_rows,), generator=noise)
        labels["end_positions"] = torch.randint(1, 5, (n_rows,), generator=noise)
    else:
        labels["labels"] = torch.randint(2, (n_rows,), generator=noise)
    found: Tensor = model(**batch, **labels).loss
    return found
