"""Examples for joint training: words are masked in all texts, and linking is taught where a name means one thing."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from infuser.errors import SourceError
from infuser.linking.masking import sentence_pairs
from infuser.linking.self_supervision import SelfSupervision, UnambiguousTexts
from infuser.types import Source, join_pair

logger = logging.getLogger(__name__)


def joint_examples(
    documents: Iterable[Sequence[str]],
    bases: Mapping[str, Source],
    settings: SelfSupervision | None = None,
    *,
    pairs: bool,
    seed: int = 0,
    copies: int = 1,
) -> list[dict[str, Any]]:
    """Return examples for `pretrain`, made of documents that are lists of sentences or other short parts.

    With `pairs` an example has two parts, for models that say which sentence follows; else it has one. `copies` of
    each are masked differently: give as many as you would train epochs.
    """
    # a paragraph break inside a part would look like the break between the two sides of a pair
    parted = [[" ".join(part.split()) for part in document] for document in documents]
    if pairs:
        examples = sentence_pairs(parted, seed=seed, copies=copies)
    else:
        chance = random.Random(seed)
        texts = [part for document in parted for part in document if part]
        examples = [{"text": text, "seed": chance.getrandbits(32)} for _ in range(copies) for text in texts]
    joined = [join_pair(example["text"], example.get("pair")) for example in examples]
    # no name is masked here, so the texts stay what they are and tell which example is whose
    try:
        taught = {one["text"]: one for one in UnambiguousTexts(joined, bases, settings).examples(seed=seed, epoch=0)}
    except SourceError as error:
        logger.warning("Words are masked, but linking is not taught. %s", error)
        taught = {}
    return [
        {**example, "annotations": taught[text]["annotations"], "gold": taught[text]["gold"]}
        if text in taught
        else example
        for example, text in zip(examples, joined, strict=True)
    ]
