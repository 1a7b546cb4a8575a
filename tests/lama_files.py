"""Small files in the format of LAMA, questions with a gap, and a process that answers them with another one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from miniatures import tiny_host, tiny_tokenizer

REAL = Path(__file__).parents[2] / "shared" / "data" / "lama"
BORN = {"relation": "P19", "template": "[X] was born in [Y] .", "label": "place of birth", "type": "N-1"}
DANTE = {"sub_label": "Dante", "obj_label": "Florence", "predicate_id": "P19", "uuid": "d"}


def jsonl(path: Path, rows: Sequence[Mapping[str, Any] | str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def trex(folder: Path, rows: Sequence[Mapping[str, Any] | str]) -> str:
    jsonl(folder / "relations.jsonl", [BORN, BORN | {"relation": "P20", "template": "[X] died in [Y] ."}])
    jsonl(folder / "TREx" / "P19.jsonl", rows)
    return str(folder)


COLOURS = [
    {"text": f"the {subject} is [MASK] .", "object": colour, "relation": relation, "others": others}
    for subject, relation, colour, others in (
        ("old bridge of the town", "P1", "red", ["blue", "glipizide"]),
        ("old bridge of the town", "P1", "blue", ["red"]),
        ("lake", "P1", "green", []),
        ("small house", "P2", "glipizide", []),  # several pieces
        ("garden in the city near the river and the train", "P2", "small", []),
    )
]


def write_answers(folder: Path) -> None:
    """Answer in one of two processes and write what it knows."""
    from accelerate import PartialState

    from infuser.signals import Collator
    from infuser.tasks.lama import Lama

    model, tokenizer = tiny_host("bert", "masked-lm"), tiny_tokenizer("bert")
    found = Lama("data").answer(model, Collator(tokenizer), COLOURS, batch_size=1)
    (folder / f"{PartialState().process_index}.json").write_text(json.dumps(found))
    PartialState().destroy_process_group()
