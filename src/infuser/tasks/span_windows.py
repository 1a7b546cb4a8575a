"""Passages as an encoder reads them to answer a question: one window each, the question as text, the passage as pair.

A passage that is longer than the encoder reads is cut at its end. Answers begin and end with whole words, both where
training places them and where they are looked for; signs at the ends of an answer do not count in its score anyway.
A window without an answer points to its first token, [CLS].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from infuser.hosts.answers import finite
from infuser.signals.answers import best_answer, in_pair, passage_words
from infuser.words import find_words

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

    from infuser.signals import Collator
    from infuser.tasks.base import Example

_ARTICLES = ("a", "an", "the")
Window = dict[str, Any]
"""text (the question), pair (a passage), perhaps its annotations and, to learn from, answer: (start, end) or None."""


class PassageAnswer(NamedTuple):
    """The best answer in one passage."""

    score: float
    """How much better it is than no answer; -inf if the passage holds no word."""
    text: str


def windows_of(example: Example) -> list[Window]:
    """Return a window for each passage of a question, with the passage's annotations if the example has any."""
    windows: list[Window] = [{"text": example["text"], "pair": passage} for passage in example["pair"]]
    if example.get("annotations") is not None:
        for window, found in zip(windows, example["annotations"], strict=True):
            window["annotations"] = found
    return windows


def training_windows(example: Example, *, n_negatives: int) -> list[Window]:
    """Return the windows that training reads: the passages that hold an answer, and a few that do not.

    A question whose answer is in none of its passages gives no window.
    """
    windows = [{**window, "answer": find_answer(window["pair"], example["answers"])} for window in windows_of(example)]
    held = [window for window in windows if window["answer"] is not None]
    without = [window for window in windows if window["answer"] is None]
    return held + without[:n_negatives] if held else []


def find_answer(passage: str, answers: Sequence[str]) -> tuple[int, int] | None:
    """Return where the first of the answers that a passage holds stands first: start and end, in characters.

    Words are compared, in any case and with any signs between them; articles before an answer need not be there.
    """
    words = find_words(passage)
    folded = [word.folded for word in words]
    for answer in answers:
        wanted = [word.folded for word in find_words(answer)]
        while len(wanted) > 1 and wanted[0] in _ARTICLES:
            del wanted[0]
        for at in range(len(folded) - len(wanted) + 1 if wanted else 0):
            if folded[at : at + len(wanted)] == wanted:
                return words[at].start, words[at + len(wanted) - 1].end
    return None


class WindowCollator:
    """Batches of windows with the tokens at which their answers start and end; knowledge is the collator's own."""

    def __init__(self, collator: Collator) -> None:
        self.collator = collator

    def for_epoch(self, epoch: int, *, seed: int = 0) -> WindowCollator:
        """Return the collator for one epoch of training, in which selective sources draw."""
        return WindowCollator(self.collator.for_epoch(epoch, seed=seed))

    def __call__(self, windows: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
        """Return the batch of these windows; an answer that was cut off counts as no answer."""
        import torch

        spans = [in_pair(window["text"], [window["answer"]] if window["answer"] else []) for window in windows]
        batch, ranges = self.collator.place(windows, spans)
        firsts = _first_tokens(batch)
        found = [of_window[0] if of_window else None for of_window in ranges]
        places = [(one[0], one[1] - 1) if one else (first, first) for one, first in zip(found, firsts, strict=True)]
        starts, ends = zip(*places, strict=True)
        return batch | {"start_positions": torch.tensor(starts), "end_positions": torch.tensor(ends)}


def read_windows(
    model: PreTrainedModel,
    collator: Collator,
    windows: Sequence[Window],
    *,
    max_answer_tokens: int,
    batch_size: int,
) -> list[PassageAnswer]:
    """Return the best answer in each window; several processes share the work, and each gets all of it."""
    from infuser.training.evaluation import answer_in_batches

    return answer_in_batches(
        model,
        windows,
        lambda some: _read_batch(model, collator, some, max_answer_tokens),
        lengths=[len(window["pair"]) for window in windows],
        batch_size=batch_size,
        title="reading passages",
        unit="passages",
    )


def _read_batch(
    model: PreTrainedModel, collator: Collator, windows: Sequence[Window], max_tokens: int
) -> list[PassageAnswer]:
    """Return the best answer in each window."""
    found = zip(best_answers(model, collator, windows, max_tokens), windows, strict=True)
    return [PassageAnswer(score, window["pair"][start:end]) for (score, start, end), window in found]


def best_answers(
    model: PreTrainedModel, collator: Collator, windows: Sequence[Mapping[str, Any]], max_tokens: int
) -> list[tuple[float, int, int]]:
    """Return the score of the best answer in each window of a batch, and where it stands in the passage."""
    import torch

    words, spans = passage_words(windows)
    batch, ranges = collator.place(windows, spans)
    out: Any = model(**{name: tensor.to(model.device) for name, tensor in batch.items()})
    logits = finite(torch.stack((out.start_logits, out.end_logits), dim=1).float().cpu())  # (windows, 2, seq)
    return [
        best_answer(*row, max_tokens) for row in zip(logits.numpy(), words, ranges, _first_tokens(batch), strict=True)
    ]


def _first_tokens(batch: Mapping[str, Tensor]) -> list[int]:
    """Return where each row of a batch begins, which is not 0 where padding stands on the left."""
    firsts: list[int] = batch["attention_mask"].argmax(dim=1).tolist()
    return firsts
