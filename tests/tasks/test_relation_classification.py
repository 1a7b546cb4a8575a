"""What TACRED, SemEval-2010-8 and FewRel share."""

from __future__ import annotations

import subprocess
import sys

from infuser.registry import TASKS
from infuser.tasks.relation_classification import FewRel, SemEval2010Task8, Tacred


def test_readers_load_without_torch():
    modules = "entity_markers", "relation_classification", "entity_typing"
    lines = [f"import infuser.tasks.{name}" for name in modules]
    code = "\n".join(["import sys", *lines, "sys.exit('torch' in sys.modules or 'sklearn' in sys.modules)"])
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_kinds_are_registered():
    assert [TASKS[name] for name in ("tacred", "semeval-2010-8", "fewrel")] == [Tacred, SemEval2010Task8, FewRel]
