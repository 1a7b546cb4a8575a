"""CrossNER: entities of one domain (politics, science, music, literature, AI), with few sentences for training."""

from __future__ import annotations

from dataclasses import dataclass

from infuser.registry import TASKS
from infuser.tasks.ner import Ner


@TASKS.register("crossner")
@dataclass(frozen=True)
class CrossNer(Ner):
    """One domain of CrossNER; `data` is its folder with train.txt, dev.txt and test.txt, words with IOB tags.

    Published sizes: politics 200 / 541 / 651 sentences with 9 types, science 200 / 450 / 543 with 17.
    """

    train: str = "train.txt"
    """The file of the training part."""
    dev: str | None = "dev.txt"
    """The file of the dev part."""
    test: str | None = "test.txt"
    """The file of the test part."""
