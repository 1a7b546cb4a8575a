"""JSON that is nested deeper than Python goes is one clear error, wherever it is read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import infuser
from infuser.analysis.diagnose.result import Diagnosis
from infuser.analysis.probe.result import ProbeReport
from infuser.errors import InfuserError
from infuser.hosts.loading import load_model
from infuser.relations.saving import load_sources
from infuser.stats.comparison import ArmStatistics
from infuser.work_folder import WorkFolder

DEEP = "[" * 100_000


def record(folder: Path, name: str) -> Path:
    (folder / name).write_text(DEEP)
    return folder


@pytest.mark.parametrize(
    "read",
    [
        lambda folder: infuser.load(record(folder, "infuser.json")),
        lambda folder: load_model(str(record(folder, "config.json")), "encoder"),
        lambda folder: WorkFolder(record(folder, "run.json"), record="run.json", parts=()).read(),
        lambda folder: load_sources(record(folder, "sources.json")),
        lambda folder: ProbeReport.from_json(DEEP),
        lambda folder: Diagnosis.from_json(DEEP),
        lambda folder: ArmStatistics.from_json(DEEP),
    ],
    ids=["model", "checkpoint", "work folder", "relations", "probe", "diagnosis", "comparison"],
)
def test_it_is_refused_in_a_sentence(read: Callable[[Path], Any], tmp_path: Path) -> None:
    with pytest.raises(InfuserError):
        read(tmp_path)
