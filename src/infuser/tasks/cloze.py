"""Sentences with a gap: how a model ranks a word for the gap among many, and which of some answers it prefers.

One pass of the encoder per sentence, texts of similar length together, and the head is computed at the gap only.
Processes that were launched together share the sentences. A data set writes [MASK] for a gap; a tokenizer has a mask of
its own, and a long answer needs several.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from accelerate.utils import gather_object
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from infuser.errors import InputError
from infuser.hosts import answering
from infuser.signals import Collator
from infuser.tasks.lama_readers import MASK, read_texts
from infuser.tasks.masked_words import check_masked_head, logits_at
from infuser.training.evaluation import share_batches
from infuser.types import Annotations

CUT_OFF = "the mask was cut off"
NO_SINGLE_WORD = "the object is not one word of the list"
UNKNOWN_PIECE = "the tokenizer cannot spell a choice"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Prompt:
    place: int
    """Which example it belongs to."""
    example: Mapping[str, Any]
    n_pieces: int = 1
    """How many word pieces fill the gap."""


def rank_objects(
    model: PreTrainedModel,
    collator: Collator,
    examples: Sequence[Mapping[str, Any]],
    words: Mapping[int, str],
    *,
    discount_others: bool = True,
    batch_size: int = 64,
) -> list[dict[str, Any]]:
    """Return for each example the rank of its `object` among the words, and the word that comes first.

    `words` are those of `ranked_words`. With `discount_others`, an example's `others`, objects that are right as well,
    do not take part. A word that scores as high as the right one comes before it.
    """
    check_masked_head(model, collator.tokenizer)
    column_of = {number: column for column, number in enumerate(words)}
    named = list(dict.fromkeys(name for e in examples for name in (e["object"], *e.get("others", ()))))
    pieces = zip(named, spell(collator.tokenizer, named), strict=True)
    columns = {name: column_of[ids[0]] for name, ids in pieces if len(ids) == 1 and ids[0] in column_of}
    prompts = [_Prompt(place, example) for place, example in enumerate(examples) if example["object"] in columns]
    ids, spelled = torch.tensor(list(words)), list(words.values())
    found: list[tuple[int, dict[str, Any]]] = []
    with answering(model):
        for places, logits in _answers(model, collator, prompts, batch_size):
            scores = logits[:, 0, ids.to(logits.device)]  # (batch, words)
            right = [columns[examples[place]["object"]] for place in places]
            if discount_others:
                for row, place in enumerate(places):
                    others = {columns[name] for name in examples[place].get("others", ()) if name in columns}
                    scores[row, list(others - {right[row]})] = -torch.inf
            of_right = scores[range(len(places)), right]
            ranks = (scores >= of_right[:, None]).sum(dim=1).tolist()
            first = scores.argmax(dim=1).tolist()
            for place, rank, column in zip(places, ranks, first, strict=True):
                found.append((place, {"rank": rank, "answer": spelled[column], "words": len(words)}))
    known = dict(gather_object(found))
    left_out = {"rank": None, "words": len(words)}
    return [
        known.get(place) or {**left_out, "left_out": CUT_OFF if example["object"] in columns else NO_SINGLE_WORD}
        for place, example in enumerate(examples)
    ]


def choose(
    model: PreTrainedModel, collator: Collator, examples: Sequence[Mapping[str, Any]], *, batch_size: int = 64
) -> list[dict[str, Any]]:
    """Return for each example which of its `choices` the model prefers, and the score of each.

    All word pieces of a choice are masked together, so that no piece gives another one away; the score is the mean of
    log P(piece), so that a long name is not punished for its length. Choices of one length share one pass.
    """
    check_masked_head(model, collator.tokenizer)
    named = list(dict.fromkeys(choice for example in examples for choice in example["choices"]))
    pieces = dict(zip(named, spell(collator.tokenizer, named), strict=True))
    unknown = collator.tokenizer.unk_token_id
    readable = {name for name, ids in pieces.items() if ids and unknown not in ids}
    prompts = [
        _Prompt(place, example, n_pieces)
        for place, example in enumerate(examples)
        if readable.issuperset(example["choices"])
        for n_pieces in sorted({len(pieces[choice]) for choice in example["choices"]})
    ]
    found: list[tuple[int, dict[int, float]]] = []
    with answering(model):
        for places, logits in _answers(model, collator, prompts, batch_size):
            scores = logits.float().log_softmax(dim=-1)  # (batch, pieces, vocabulary)
            for row, place in enumerate(places):
                spelled = [pieces[choice] for choice in examples[place]["choices"]]
                alike = [number for number, ids in enumerate(spelled) if len(ids) == scores.shape[1]]
                wanted = torch.tensor([spelled[number] for number in alike], device=scores.device)  # (alike, pieces)
                means = scores[row].gather(1, wanted.T).mean(dim=0).tolist()
                found.append((place, dict(zip(alike, means, strict=True))))
    known: dict[int, dict[int, float]] = {}
    for place, some in gather_object(found):
        known.setdefault(place, {}).update(some)
    return [
        _choice(example, known.get(place, {}), readable=readable.issuperset(example["choices"]))
        for place, example in enumerate(examples)
    ]


def _choice(example: Mapping[str, Any], scores: Mapping[int, float], *, readable: bool) -> dict[str, Any]:
    if len(scores) < len(example["choices"]):
        return {"answer": None, "left_out": CUT_OFF if readable else UNKNOWN_PIECE}
    listed = [scores[number] for number in range(len(scores))]
    return {"answer": listed.index(max(listed)), "scores": listed}


def _answers(
    model: PreTrainedModel, collator: Collator, prompts: Sequence[_Prompt], batch_size: int
) -> Iterator[tuple[list[int], Tensor]]:
    """Yield places and logits (places, pieces, vocabulary) of this process's share; gaps that were cut off are missing.

    The texts of a batch have gaps of one size.
    """
    tokenizer = collator.tokenizer
    batches: list[list[_Prompt]] = []
    for prompt in sorted(prompts, key=lambda one: (one.n_pieces, -len(one.example["text"]))):
        if not batches or len(batches[-1]) == batch_size or batches[-1][0].n_pieces != prompt.n_pieces:
            batches.append([])
        batches[-1].append(prompt)
    for prompts in share_batches(model, batches, "filling gaps", unit="texts"):
        n_pieces = prompts[0].n_pieces
        examples = _annotated(collator, [one.example for one in prompts])
        batch = collator([with_gap(example, str(tokenizer.mask_token), n_pieces) for example in examples])
        masks = batch["input_ids"] == tokenizer.mask_token_id
        whole = masks.sum(dim=1) >= n_pieces  # (batch,)
        gap = masks & (masks.cumsum(dim=1) <= n_pieces) & whole[:, None]
        kept = [one.place for one, stays in zip(prompts, whole.tolist(), strict=True) if stays]
        if kept:
            on_device = {name: tensor.to(model.device) for name, tensor in batch.items()}
            logits = logits_at(model, on_device, gap.to(model.device))
            yield kept, logits.view(len(kept), n_pieces, -1)


def _annotated(collator: Collator, examples: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Annotate examples that have no annotations yet: sources read a text as its set has it, not a row of masks."""
    if not collator.sources or all(example.get("annotations") is not None for example in examples):
        return examples
    found = collator.annotate([example["text"] for example in examples])
    return [{**example, "annotations": one} for example, one in zip(examples, found, strict=True)]


def ranked_words(tokenizer: PreTrainedTokenizerBase, path: str | None = None) -> dict[int, str]:
    """Return words by their token ids: those of a file with one word per line, or every piece that is a whole word.

    Words of the file that this tokenizer cuts into pieces, or does not know, are left out.
    """
    if path is None:
        decoded = [word.strip() for word in tokenizer.batch_decode([[number] for number in range(len(tokenizer))])]
        pieces = [(number, word) for number, word in enumerate(decoded) if word.isalnum()]
        spelled = spell(tokenizer, [word for _, word in pieces])
        # a piece from within words may look like a word, but that word is another piece, or several
        words = {number: word for (number, word), ids in zip(pieces, spelled, strict=True) if ids == [number]}
        origin = f"the tokenizer's {len(tokenizer)} pieces"
    else:
        listed, words = read_texts(path), {}
        for word, ids in zip(listed, spell(tokenizer, listed), strict=True):
            if len(ids) == 1 and ids[0] != tokenizer.unk_token_id:
                words.setdefault(ids[0], word)
        origin = f"the {len(listed)} words in {path}"
    if not words:
        raise InputError(f"None of {origin} is a word that the tokenizer has as one piece, so nothing can be ranked.")
    _log.info("%d of %s are ranked.", len(words), origin)
    return words


def spell(tokenizer: PreTrainedTokenizerBase, words: Sequence[str]) -> list[list[int]]:
    """Return the token ids of each word as it stands behind a space."""
    if not words:
        return []
    spelled = tokenizer([f" {word.strip()}" for word in words], add_special_tokens=False, truncation=False)
    return [list(ids) for ids in spelled["input_ids"]]


def with_gap(example: Mapping[str, Any], mask: str, n_pieces: int = 1) -> dict[str, Any]:
    """Return the text with so many of the tokenizer's masks for the first gap; its annotations move along.

    Further gaps, which some sentences have, stay one mask each.
    """
    text = ""
    starts: list[int] = []  # where a span that began at this character begins now; the same for ends
    ends: list[int] = []
    for number, part in enumerate(example["text"].split(MASK)):
        if number:
            gap, at = mask * (n_pieces if number == 1 else 1), len(text)
            text += gap
            starts += [at] * len(MASK)  # a span that begins or ends within a gap takes all of it
            ends += [at] + [len(text)] * (len(MASK) - 1)
        unmoved = range(len(text), len(text) + len(part))
        starts += unmoved
        ends += unmoved
        text += part
    starts.append(len(text))
    ends.append(len(text))

    def move(found: Annotations) -> Annotations:
        spans = (replace(span, start=starts[span.start], end=ends[span.end]) for span in found.spans)
        return replace(found, text=text, spans=tuple(spans))

    if example.get("annotations") is None:
        return {"text": text}
    # annotations of another text stay as they are, and the collator rejects them
    moved = (move(found) if found.text == example["text"] else found for found in example["annotations"])
    return {"text": text, "annotations": tuple(moved)}
