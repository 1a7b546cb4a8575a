"""Examples for joint training: masked words, next sentences, and linking where a name means one thing only.

BERT's two tasks, next sentence and masked words, beside linking. When a masked word lies in a mention, the mention's
candidates would give the word away: of such mentions 80 % get one MASK entity, whose vector is zero,
10 % random entities, and 10 % keep theirs. What is masked is a function of the example's own `seed`, so that a
training that was stopped resumes with the same examples.
"""

from __future__ import annotations

import copy
import logging
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from infuser.errors import InputError, SourceError
from infuser.linking.self_supervision import SelfSupervision, UnambiguousTexts
from infuser.signals.candidates import bases_among, part_name
from infuser.signals.collator import Collator
from infuser.signals.examples import IGNORED
from infuser.types import Source, join_pair

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Masking:
    """How words and entities are masked; the shares are those of BERT and KnowBERT."""

    words: float = 0.15
    """Share of the words that are to be guessed."""
    masked: float = 0.8
    """Share of these (and of the mentions around them) that the mask takes the place of."""
    replaced: float = 0.1
    """Share that something random takes the place of; the rest is kept."""

    def __post_init__(self) -> None:
        shares = (self.words, self.masked, self.replaced, self.masked + self.replaced)
        if not all(0 <= share <= 1 for share in shares):
            raise InputError(f"{self}: shares lie between 0 and 1, and masked and replaced together too.")

    def fate(self, chance: random.Random) -> str:
        """Return by chance what becomes of a word or a mention: masked, replaced or kept."""
        drawn = chance.random()
        return "masked" if drawn < self.masked else "replaced" if drawn < self.masked + self.replaced else "kept"


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
    # no name is masked here, so the texts stay as they are and identify the examples
    try:
        linked = {one["text"]: one for one in UnambiguousTexts(joined, bases, settings).examples(seed=seed, epoch=0)}
    except SourceError as error:
        logger.warning("Words are masked, but linking is not linked. %s", error)
        linked = {}
    return [
        {**example, "annotations": linked[text]["annotations"], "gold": linked[text]["gold"]}
        if text in linked
        else example
        for example, text in zip(examples, joined, strict=True)
    ]


def sentence_pairs(documents: Iterable[Sequence[str]], *, seed: int = 0, copies: int = 1) -> list[dict[str, Any]]:
    """Return examples of two sentences: for half of them the second is one of another place, label 1, else 0.

    `copies` of each pair are masked differently: give as many as you would train epochs.
    """
    split = [[sentence for sentence in document if sentence.strip()] for document in documents]
    sentences = [sentence for document in split for sentence in document]
    if len(sentences) < 3:
        raise InputError(f"Pairs of sentences need at least 3 sentences, got {len(sentences)}.")
    examples = []
    for number in range(copies):
        chance = random.Random(f"{seed} {number}")
        for document in split:
            for first, second in pairwise(document):
                other = chance.choice(sentences)
                is_wrong = chance.random() < 0.5 and other != second
                examples.append(
                    {
                        "text": first,
                        "pair": other if is_wrong else second,
                        "next_sentence": int(is_wrong),
                        "seed": chance.getrandbits(32),
                    }
                )
    if not examples:
        raise InputError("No document has two sentences that follow each other; give documents as lists of sentences.")
    return examples


class MaskingCollator:
    """Turns examples with a `seed` into batches with masked words, and mentions that do not give them away."""

    def __init__(self, collator: Collator, masking: Masking | None = None, *, next_sentence: bool = False) -> None:
        self.collator, self.masking, self.next_sentence = collator, masking or Masking(), next_sentence
        if collator.tokenizer.mask_token_id is None:
            raise InputError("The tokenizer has no mask token, so words cannot be masked.")
        self._special = set(collator.tokenizer.all_special_ids)
        self._words = [number for number in range(len(collator.tokenizer)) if number not in self._special]

    def for_epoch(self, epoch: int, *, seed: int = 0) -> Self:
        """Return the same for one epoch of training, in which selective sources inject what they draw for it."""
        drawing = copy.copy(self)
        drawing.collator = self.collator.for_epoch(epoch, seed=seed)
        return drawing

    def __call__(self, examples: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
        """Return the batch, with `labels` for the masked words and `next_sentence_label` if the model reads it."""
        chances = [random.Random(example.get("seed", 0)) for example in examples]
        batch = self.collator([{k: v for k, v in example.items() if k != "label"} for example in examples])
        masked = torch.zeros_like(batch["input_ids"], dtype=torch.bool)
        batch["labels"] = torch.full_like(batch["input_ids"], IGNORED)
        for row, chance in enumerate(chances):
            self._mask_words(batch["input_ids"][row], batch["labels"][row], masked[row], chance)
        for base in bases_among(self.collator.sources).values():
            self._mask_entities(base, batch, masked, chances)
        if self.next_sentence:
            follows = [int(example.get("next_sentence", IGNORED)) for example in examples]  # not all are pairs
            batch["next_sentence_label"] = torch.tensor(follows)
        return batch

    def _mask_words(self, ids: Tensor, labels: Tensor, masked: Tensor, chance: random.Random) -> None:
        words = [place for place, token in enumerate(ids.tolist()) if token not in self._special]
        n_masked = min(len(words), max(1, round(len(words) * self.masking.words))) if self.masking.words else 0
        for place in chance.sample(words, n_masked):
            labels[place], masked[place] = ids[place], True
            fate = self.masking.fate(chance)
            if fate == "masked":
                ids[place] = self.collator.tokenizer.mask_token_id
            elif fate == "replaced":
                ids[place] = chance.choice(self._words)

    def _mask_entities(
        self, base: Any, batch: dict[str, Tensor], masked: Tensor, chances: Sequence[random.Random]
    ) -> None:
        """Change the candidates of mentions in which a word is masked; what these mean is then unknown."""
        spans, candidates, priors, vectors = (
            batch[part_name(base.name, part)] for part in ("spans", "candidates", "priors", "vectors")
        )
        gold = batch.get(part_name(base.name, "gold"))
        drawn: list[list[int]] = [[] for _ in chances]  # rows of the store, for each text
        zero = vectors.shape[1]  # behind the vectors: a zero one for the MASK entity, then the drawn ones
        for row, chance in enumerate(chances):
            for place, (start, end) in enumerate(spans[row].tolist()):
                if not masked[row, start:end].any():
                    continue
                mine = torch.nonzero((candidates[row, :, 0] == place) & (priors[row] > 0))[:, 0].tolist()
                fate = self.masking.fate(chance)
                if fate == "kept" or not mine:
                    continue
                if gold is not None:
                    gold[row, mine] = -1
                if fate == "masked":
                    priors[row, mine[1:]] = 0.0
                    priors[row, mine[0]], candidates[row, mine[0], 1] = 1.0, zero
                else:
                    for one in mine:
                        drawn[row].append(chance.randrange(len(base.store)))
                        candidates[row, one, 1] = zero + len(drawn[row])
        more = vectors.new_zeros(len(vectors), 1 + max(map(len, drawn), default=0), vectors.shape[2])
        for row, numbers in enumerate(drawn):
            if numbers:
                more[row, 1 : 1 + len(numbers)] = torch.from_numpy(np.asarray(base.store.take(np.array(numbers))))
        batch[part_name(base.name, "vectors")] = torch.cat([vectors, more], dim=1)
