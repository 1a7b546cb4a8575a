"""What TACRED, SemEval-2010-8 and FewRel share."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from infuser.registry import TASKS
from infuser.tasks.relation_classification import FewRel, SemEval2010Task8, Tacred, draw_parts


@given(st.lists(st.sampled_from("abc")), st.sampled_from([["dev"], ["dev", "test"]]))
def test_every_label_keeps_examples_to_train_on(labels: list[str], held_out: list[Any]):
    parts = draw_parts(labels, held_out)
    assert draw_parts(labels, held_out) == parts
    for label, n_examples in Counter(labels).items():
        counts = Counter(part for part, other in zip(parts, labels, strict=True) if other == label)
        n_held = max(1, n_examples // 10) if n_examples > len(held_out) else 0
        assert [counts[split] for split in held_out] == [n_held] * len(held_out)
        assert counts["train"] >= 1


def test_readers_load_without_torch():
    modules = "entity_markers", "relation_classification", "entity_typing"
    lines = [f"import infuser.tasks.{name}" for name in modules]
    code = "\n".join(["import sys", *lines, "sys.exit('torch' in sys.modules or 'sklearn' in sys.modules)"])
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_kinds_are_registered():
    assert [TASKS[name] for name in ("tacred", "semeval-2010-8", "fewrel")] == [Tacred, SemEval2010Task8, FewRel]
