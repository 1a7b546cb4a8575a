"""Tasks on files of your own: a part without a file is held out of the training examples by the data seed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from infuser.errors import InputError
from infuser.tables.rows import Record
from infuser.tasks.base import Example, Split, Task
from infuser.tasks.splitting import DATA_SEED, hold_out


@dataclass(frozen=True)
class InParts(Task):
    """Where the parts of a task come from; `data` is a folder, one file, or a name of the datasets library."""

    train: str = "train.csv"
    """The file of the training part; with the datasets library, what stands before the dot names the split."""
    dev: str | None = None
    """The file of the dev part; None holds it out of the training examples."""
    test: str | None = None
    """The file of the test part; None holds it out of the training examples."""
    dev_share: float = 0.1
    """Share of the training part for dev, and for test, where they have no file; with 0 there is no such part then."""
    seed: int = DATA_SEED
    """Decides which examples are held out, whatever the seed of training is."""
    held_out: tuple[str, ...] = ("test", "dev")
    """Which parts are held out of the training examples where they have no file; others do not exist then."""

    def __post_init__(self) -> None:
        if not 0 <= self.dev_share < 0.5:
            raise InputError(f"The setting dev_share is {self.dev_share!r}; give a share of at least 0 and below 0.5.")

    def load(self, name: str, split: Split) -> list[Record]:
        """Return the examples of a file, or of a split of the datasets library, with their places."""
        raise NotImplementedError

    def rows(self, split: Split) -> list[Record]:
        """Return the examples of a part with their places, as `load` makes them."""
        name: str | None = getattr(self, split)
        if split != "train" and name is not None:
            return self._load(name, split)
        left, held = self._parts
        if split != "train" and split not in held:
            raise InputError(f"{self.data!r} has no {split} part. Name its file, {split} = FILE, or set dev_share.")
        return left if split == "train" else held[split]

    def dev_beside(self, scored: Split) -> list[Example] | None:
        """Return the dev part, unless it is scored itself or does not exist."""
        there = self.dev is not None or (self.dev_share > 0 and "dev" in self.held_out)
        return self.read("dev") if there and scored != "dev" else None

    def path_of(self, name: str) -> Path:
        """Return where a file of this task lies: in the folder, or beside the one file."""
        data = Path(self.data)
        if not data.is_file():
            return data / name
        return data if name == self.train else data.parent / name

    @cached_property
    def _parts(self) -> tuple[list[Record], dict[str, list[Record]]]:
        """The training examples that stay, and the parts that are held out of them."""
        left, held = self._load(self.train, "train"), {}
        for part in self.held_out if self.dev_share else ():
            if getattr(self, part) is None:
                left, held[part] = self._divide(left)
        return left, held

    def _load(self, name: str, split: Split) -> list[Record]:
        rows = self.load(name, split)
        if not rows:
            raise InputError(f"The {split} part in {self.data!r} holds no examples. Give at least one row.")
        return rows

    def _divide(self, rows: list[Record]) -> tuple[list[Record], list[Record]]:
        examples = [example for _, example in rows]
        strata, groups = self.strata(examples), self.held_out_groups(examples)
        for label, n in Counter(strata if groups is None else ()).items() if strata else ():
            if n < 2:
                raise InputError(
                    f"There is one example of the label {label!r}, so none can be held out for evaluation. Give more, "
                    "or a file of its own: --dev FILE, in settings dev = FILE."
                )
        held = hold_out(len(rows), share=self.dev_share, seed=self.seed, strata=strata, groups=groups)
        return [row for place, row in enumerate(rows) if place not in held], [rows[place] for place in sorted(held)]
