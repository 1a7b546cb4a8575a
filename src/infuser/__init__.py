"""Infuser gives a pretrained text encoder the knowledge it lacks.

The front door: each name is opened when it is first asked for, so that `import infuser` is instant.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from infuser.versions import __version__ as __version__

_HOMES = {
    "Annotations": "infuser.types",
    "Link": "infuser.types",
    "Source": "infuser.types",
    "Span": "infuser.types",
    "Term": "infuser.types",
    "Entities": "infuser.sources",
    "Phrases": "infuser.sources",
    "Candidates": "infuser.sources",
    "Correlation": "infuser.sources",
    "Graph": "infuser.sources",
    "KnowledgeBase": "infuser.sources",
    "Known": "infuser.sources",
    "Sampling": "infuser.sources",
    "Selective": "infuser.sources",
    "EntityVectors": "infuser.knowledge.vectors.store",
    "Ernie": "infuser.methods",
    "Kam": "infuser.methods",
    "Kar": "infuser.methods",
    "Spectral": "infuser.methods.spectral",
    "Infused": "infuser.infused",
    "infuse": "infuser.infused",
    "load": "infuser.infused",
    "Annotated": "infuser.sources.annotating",
    "annotate": "infuser.sources.annotating",
    "Mention": "infuser.linking.mentions",
    "find_mentions": "infuser.linking.inference",
    "AttentionRelations": "infuser.relations.model",
    "RelationText": "infuser.relations.examples",
    "Triple": "infuser.relations.examples",
    "Collator": "infuser.signals",
    "TrainSettings": "infuser.training",
    "train": "infuser.training",
    "evaluate": "infuser.training",
    "InfuserError": "infuser.errors",
    "SOURCES": "infuser.registry",
    "METHODS": "infuser.registry",
}

__all__ = sorted([*_HOMES, "__version__"])

if TYPE_CHECKING:
    from infuser.errors import InfuserError as InfuserError
    from infuser.infused import Infused as Infused
    from infuser.infused import infuse as infuse
    from infuser.infused import load as load
    from infuser.knowledge.vectors.store import EntityVectors as EntityVectors
    from infuser.linking.inference import find_mentions as find_mentions
    from infuser.linking.mentions import Mention as Mention
    from infuser.methods import Ernie as Ernie
    from infuser.methods import Kam as Kam
    from infuser.methods import Kar as Kar
    from infuser.methods.spectral import Spectral as Spectral
    from infuser.registry import METHODS as METHODS
    from infuser.registry import SOURCES as SOURCES
    from infuser.relations.examples import RelationText as RelationText
    from infuser.relations.examples import Triple as Triple
    from infuser.relations.model import AttentionRelations as AttentionRelations
    from infuser.signals import Collator as Collator
    from infuser.sources import Candidates as Candidates
    from infuser.sources import Correlation as Correlation
    from infuser.sources import Entities as Entities
    from infuser.sources import Graph as Graph
    from infuser.sources import KnowledgeBase as KnowledgeBase
    from infuser.sources import Known as Known
    from infuser.sources import Phrases as Phrases
    from infuser.sources import Sampling as Sampling
    from infuser.sources import Selective as Selective
    from infuser.sources.annotating import Annotated as Annotated
    from infuser.sources.annotating import annotate as annotate
    from infuser.training import TrainSettings as TrainSettings
    from infuser.training import evaluate as evaluate
    from infuser.training import train as train
    from infuser.types import Annotations as Annotations
    from infuser.types import Link as Link
    from infuser.types import Source as Source
    from infuser.types import Span as Span
    from infuser.types import Term as Term


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'infuser' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
