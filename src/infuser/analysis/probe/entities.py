"""How well an encoder knows the entities of some texts, by masked words or by a probe of types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from infuser.analysis.probe.entity_types import typed_scores
from infuser.analysis.probe.masked_prediction import has_masked_head, masked_scores
from infuser.errors import InputError
from infuser.hosts.checkpoints import find_checkpoint
from infuser.hosts.loading import load_model, load_tokenizer
from infuser.knowledge.entity_scores import EntityScore, digest_of_texts
from infuser.types import join_pair


def measure_entities(
    checkpoint: str,
    examples: Sequence[Mapping[str, Any]],
    measure: Literal["masked", "probe"] = "probe",
    *,
    types: Mapping[str, str] | None = None,
) -> tuple[list[EntityScore], dict[str, Any]]:
    """Return how well a plain encoder knows each entity of annotated examples, and what was measured and how.

    "masked" takes a checkpoint with a head for masked words; "probe" reads `types` (default: the labels that sources
    give) from any encoder. Both are for `write_scores` and the strategy `Known`.
    """
    folder = find_checkpoint(checkpoint)
    texts = digest_of_texts(join_pair(one["text"], one["pair"]) for one in examples)
    about: dict[str, Any] = {"checkpoint": checkpoint, "measure": measure, "texts": texts}
    tokenizer = load_tokenizer(folder)
    if measure == "masked":
        if not has_masked_head(folder):
            raise InputError(f"{checkpoint!r} has no head for masked words. Measure it with --measure probe.")
        return masked_scores(load_model(folder, "masked-lm"), tokenizer, examples, progress=True), about
    probe = typed_scores(load_model(folder, "encoder"), tokenizer, examples, types=types, progress=True)
    about |= {"accuracy": probe.accuracy, "control": probe.control, "chance": probe.chance, "types": len(probe.types)}
    return probe.scores, about
