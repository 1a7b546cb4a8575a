"""The audit's damage to every kind of artifact; its other parts take longer: `python tests/audit.py`."""

from __future__ import annotations

from pathlib import Path

import pytest
from audit import damage
from test_faults import ALL


@pytest.mark.slow
@pytest.mark.parametrize("name", [param for param in ALL if param.values != ("report",)])
def test_no_damage_goes_unnoticed(name: str, tmp_path: Path) -> None:
    cases = list(damage(name, tmp_path))
    assert len(cases) > 45 and {what for what, _ in cases} >= {"flips", "cuts", "deletions"}
    assert [said for _, (how, said) in cases if how in ("unnoticed", "unclear")] == []
