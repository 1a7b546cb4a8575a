"""Masked prediction: an entity is known if the encoder guesses its words when they are masked.

All word pieces of one mention are masked together, so that no piece gives another one away, and the rest of the text
stays. The pseudo-log-likelihood of the mention is the sum of log P(right piece); per piece, that is the logarithm of
the geometric mean of the probabilities. This mean is the mention's score, and the mean over mentions is the entity's:
a name is as well known as its least expected pieces allow, and a long name is not punished for its length.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from infuser.analysis.probe.mentions import Example, ProbedMention, find_probed_mentions, text_batches
from infuser.errors import InputError
from infuser.hosts import answering
from infuser.hosts.checkpoints import read_config
from infuser.knowledge.entity_scores import EntityScore
from infuser.tasks.masked_words import check_masked_head
from infuser.types import Source

Measure = Literal["probability", "hits"]

_MOST_LOGITS = 1 << 27
"""Values of a head's answer held at once: half a gigabyte in float32; a large vocabulary makes batches smaller."""
_log = logging.getLogger(__name__)


def masked_scores(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    examples: Sequence[Example],
    sources: Sequence[Source] = (),
    *,
    measure: Measure = "probability",
    max_mentions: int = 8,
    batch_size: int = 32,
    progress: bool = False,
) -> list[EntityScore]:
    """Return how well a model with a head for masked words predicts each entity of some texts, sorted by key.

    `measure="hits"` gives the share of word pieces for which the right piece is the most probable one instead. Up to
    `max_mentions` of each entity are read, chosen by content. An infused model answers as the plain one: it gets no
    knowledge. Examples come with annotations, or the sources are asked.
    """
    if measure not in ("probability", "hits"):
        raise InputError(f"measure is {measure!r}; it can be 'probability' or 'hits'.")
    check_masked_head(model, tokenizer, otherwise="For other encoders use typed_scores (--measure probe).")
    mentions = find_probed_mentions(model, tokenizer, examples, sources, max_mentions=max_mentions, progress=progress)
    if not mentions:
        _log.warning("No entity was found in %d texts, so there is nothing to score.", len(examples))
    of_key: dict[str, list[float]] = {one.key: [] for one in mentions}  # sorted already
    scored = np.zeros(len(mentions))
    most_tokens = _MOST_LOGITS // model.config.vocab_size
    batches = text_batches(
        model, tokenizer, mentions, batch_size=batch_size, most_tokens=most_tokens, progress=progress
    )
    with answering(model):
        for places, batch in batches:
            inside = _inside(batch["input_ids"], [mentions[place] for place in places])
            scored[places] = _predict(model, tokenizer.mask_token_id, batch, inside, measure).cpu().numpy()
    for one, score in zip(mentions, scored.tolist(), strict=True):
        of_key[one.key].append(score)
    return [EntityScore(key, float(np.mean(each)), len(each), f"masked-{measure}") for key, each in of_key.items()]


def has_masked_head(checkpoint: str | Path) -> bool:
    """Return whether a checkpoint was saved with a head for masked words; if not, transformers makes a random one."""
    saved = read_config(str(checkpoint)).get("architectures") or ()
    return any(name.endswith("ForMaskedLM") or name in ("AlbertForPreTraining", "BertForPreTraining") for name in saved)


def _inside(ids: Tensor, mentions: Sequence[ProbedMention]) -> Tensor:
    """Return (batch, seq) True at the pieces of the one mention of each text."""
    inside = torch.zeros_like(ids, dtype=torch.bool)
    for row, one in enumerate(mentions):
        inside[row, one.start : one.end] = True
    return inside


def _predict(model: Any, mask: int, batch: dict[str, Tensor], inside: Tensor, measure: Measure) -> Tensor:
    """Return the score of one mention in each text of a batch, (batch,); `inside` is True at its pieces."""
    right = batch["input_ids"][inside]  # (pieces,)
    masked = batch["input_ids"].masked_fill(inside, mask)
    out = model(**{**batch, "input_ids": masked})
    logits = (out["logits"] if "logits" in out else out["prediction_logits"])[inside]  # (pieces, vocabulary)
    if measure == "hits":
        values = (logits.argmax(dim=-1) == right).double()
    else:
        chosen = logits.gather(1, right[:, None])[:, 0].double()
        values = chosen - torch.logsumexp(logits.double(), dim=-1)
    text_of = inside.nonzero()[:, 0]
    means = torch.zeros(len(inside), dtype=torch.float64, device=inside.device).index_add_(0, text_of, values)
    means /= inside.sum(dim=1)
    return means if measure == "hits" else means.exp().clamp(max=1.0)
