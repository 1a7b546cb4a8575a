"""Infuser gives a pretrained text encoder the knowledge it lacks.

The front door: each name is opened when it is first asked for, so that `import infuser` is instant.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from infuser.versions import __version__ as __version__

_NAMES = {
    "infuser.comparing": ["Comparison", "compare"],
    "infuser.errors": ["InfuserError"],
    "infuser.experiments.arm": ["Arm"],
    "infuser.experiments.data": ["Data"],
    "infuser.infused": ["Infused", "infuse", "load"],
    "infuser.knowledge.vectors.store": ["EntityVectors"],
    "infuser.linking.inference": ["find_mentions"],
    "infuser.linking.mentions": ["Mention", "ScoredCandidate"],
    "infuser.methods": ["Ernie", "Kam", "Kar", "Types"],
    "infuser.methods.spectral": ["Spectral"],
    "infuser.opening": ["from_pretrained"],
    "infuser.signals": ["Collator"],
    "infuser.sources": ["Candidates", "Correlation", "Entities", "Graph", "KnowledgeBase"],
    "infuser.tasks.base": ["Task"],
    "infuser.training": ["Evaluation", "Scores", "StepReport", "TrainResult", "TrainSettings", "evaluate", "train"],
    "infuser.types": ["Annotations", "Candidate", "Link", "Method", "Source", "Span", "Term", "Vocabulary"],
}
"""The public names by the module that holds each; the imports below say the same to type checkers."""
_HOMES = {name: home for home, names in _NAMES.items() for name in names}
_MOVED = {
    "Annotated": "infuser.sources.annotating",
    "AttentionRelations": "infuser.relations.model",
    "Known": "infuser.sources",
    "METHODS": "infuser.registry",
    "Phrases": "infuser.sources",
    "RelationText": "infuser.relations.examples",
    "SOURCES": "infuser.registry",
    "Sampling": "infuser.sources",
    "Selective": "infuser.sources",
    "Triple": "infuser.relations.examples",
    "annotate": "infuser.sources.annotating",
}
"""What was a public name once, and where it is."""

__all__ = sorted([*_HOMES, "__version__"])

if TYPE_CHECKING:
    from infuser.comparing import Comparison as Comparison
    from infuser.comparing import compare as compare
    from infuser.errors import InfuserError as InfuserError
    from infuser.experiments.arm import Arm as Arm
    from infuser.experiments.data import Data as Data
    from infuser.infused import Infused as Infused
    from infuser.infused import infuse as infuse
    from infuser.infused import load as load
    from infuser.knowledge.vectors.store import EntityVectors as EntityVectors
    from infuser.linking.inference import find_mentions as find_mentions
    from infuser.linking.mentions import Mention as Mention
    from infuser.linking.mentions import ScoredCandidate as ScoredCandidate
    from infuser.methods import Ernie as Ernie
    from infuser.methods import Kam as Kam
    from infuser.methods import Kar as Kar
    from infuser.methods import Types as Types
    from infuser.methods.spectral import Spectral as Spectral
    from infuser.opening import from_pretrained as from_pretrained
    from infuser.signals import Collator as Collator
    from infuser.sources import Candidates as Candidates
    from infuser.sources import Correlation as Correlation
    from infuser.sources import Entities as Entities
    from infuser.sources import Graph as Graph
    from infuser.sources import KnowledgeBase as KnowledgeBase
    from infuser.tasks.base import Task as Task
    from infuser.training import Evaluation as Evaluation
    from infuser.training import Scores as Scores
    from infuser.training import StepReport as StepReport
    from infuser.training import TrainResult as TrainResult
    from infuser.training import TrainSettings as TrainSettings
    from infuser.training import evaluate as evaluate
    from infuser.training import train as train
    from infuser.types import Annotations as Annotations
    from infuser.types import Candidate as Candidate
    from infuser.types import Link as Link
    from infuser.types import Method as Method
    from infuser.types import Source as Source
    from infuser.types import Span as Span
    from infuser.types import Term as Term
    from infuser.types import Vocabulary as Vocabulary


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        hint = f"; it is in {_MOVED[name]}" if name in _MOVED else ""
        raise AttributeError(f"module 'infuser' has no attribute {name!r}{hint}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
