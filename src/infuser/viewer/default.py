"""The embedded default: MiniLM with small weights and knowledge of this package, made by benchmarks/viewer_default.py.

It judges whether an ad fits a query whose key word is rare. MiniLM itself is as it was pretrained; KAM and a classifier
have learned from pairs with other rare words than those that its knowledge is about.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from infuser.assets import Progress, fetch
from infuser.files import parse_json
from infuser.registry import METHODS
from infuser.types import Source
from infuser.viewer.views import InfusedView, SampleText

FOLDER = Path(__file__).parent / "default"
KNOWLEDGE, WEIGHTS = "knowledge.json", "weights.safetensors"


def open_default(progress: Progress | None = None) -> InfusedView:
    """Return the default, ready to be looked at; MiniLM is fetched when it is missing."""
    from safetensors.torch import load_file

    import infuser

    known = parse_json(FOLDER / KNOWLEDGE)
    infused = infuser.infuse(
        fetch("minilm", progress=progress),
        METHODS[known["method"].pop("kind")](**known["method"]),
        sources=sources_of(known),
        task="sequence-classification",
        num_labels=len(known["labels"]),
        id2label=dict(enumerate(known["labels"])),
    )
    _, unknown = infused.model.load_state_dict(load_file(FOLDER / WEIGHTS), strict=False)
    assert not unknown, unknown
    infused.model.train(False)
    n_words = len({triple[0] for triple in known["triples"]})
    return InfusedView(
        infused,
        "Does this ad fit the query?",
        f"The embedded example: MiniLM, and knowledge about {n_words} rare words that it has not been trained with. "
        "Your own: infuser view RUN_OR_CHECKPOINT.",
        [SampleText(**example) for example in known["examples"]],
    )


def sources_of(known: Mapping[str, Any]) -> list[Source]:
    """Return the three sources: a graph, term correlation and phrases."""
    from infuser.sources import Correlation, Graph, Phrases

    return [
        Graph([tuple(triple) for triple in known["triples"]], known["aliases"]),
        Correlation([tuple(row) for row in known["correlation"]], n_terms=3),
        Phrases(known["phrases"]),
    ]
