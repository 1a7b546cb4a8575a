"""FewRel as plain classification: which of the relations of one file two entities of a sentence have.

train_wiki.json (64 relations, 44,800 sentences) or val_wiki.json (16, 11,200), as `relations.readers.fewrel` reads it:

    {"P177": [{"tokens": ["The", "bridge", ...], "h": ["bridge", "Q12570", [[1]]], "t": ["river", "Q4022", [[5, 6]]]}]}

The files have no relation in common and so cannot be training and test part of one classifier. We take one of them and
hold out, by a fixed draw, a tenth of each relation's sentences for dev and a tenth for test. FewRel's own N-way
K-shot episodes over unseen relations are another task, and the 80-relation split in ERNIE's release is another split:
numbers published for either cannot be compared with these.

`datasets:thunlp/few_rel` has the same parts with the columns relation, tokens, head and tail {text, type, indices}.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from infuser.registry import TASKS
from infuser.relations.examples import RelationText
from infuser.relations.readers.common import Unreadable
from infuser.relations.readers.fewrel import fewrel_example, read_fewrel
from infuser.tables.skipped import Place
from infuser.tables.values import is_text
from infuser.tasks.base import Split
from infuser.tasks.official import dataset_records, find_file, is_datasets_name
from infuser.tasks.relation_classification import NoSkipping, RelationClassification, read_texts, select_part

_HUB_ADVICE = "Its columns: relation, tokens, head and tail {text, type, indices}."


@TASKS.register("fewrel")
@dataclass(frozen=True)
class FewRel(RelationClassification):
    """Wikidata relations between two entities; they have no types, so "typed" marks are plain ones."""

    part: str = "train_wiki"
    """Which file, without its ending, or which split of the hub's version the examples of all three parts are from."""

    metrics = ("accuracy",)

    def texts(self, split: Split) -> Iterator[RelationText]:
        """Yield the texts of a split."""
        return iter(select_part(self._all(), split, ["dev", "test"]))

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The ids of the relations; there is no class "no relation"."""
        return tuple(sorted({text.triples[0].relation for text in self._all()}))

    def _all(self) -> Iterator[RelationText]:
        if is_datasets_name(self.data):
            return read_texts(dataset_records(self.data, self.part), _hub_text, advice=_HUB_ADVICE)
        return read_fewrel(find_file(self.data, f"{self.part}.json"), NoSkipping())


def _hub_text(place: Place, row: dict[str, Any]) -> RelationText:
    if not is_text(row.get("relation")):
        raise Unreadable(f"its 'relation' is no text but {row.get('relation')!r:.40}")
    entities = {"h": _entity(row.get("head")), "t": _entity(row.get("tail"))}
    return fewrel_example({"tokens": row.get("tokens"), **entities}, row["relation"], "")


def _entity(value: Any) -> list[Any] | None:
    """Return an entity as the files have it, or None."""
    return [value.get("text"), value.get("type"), value.get("indices")] if isinstance(value, dict) else None
