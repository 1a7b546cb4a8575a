from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fetching import fetch_or_skip
from typer.testing import CliRunner

from infuser.cli import app
from infuser.tasks import query_ads


@pytest.mark.slow
def test_the_demo_runs_on_the_real_encoder_and_writes_its_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("minilm", "wordnet"):
        fetch_or_skip(name)

    def build_and_cut(*arguments: Any, **settings: Any) -> query_ads.QueryAds:
        """Build the task of the demo, but do not ask three models about all its 760 pairs."""
        task = build_query_ads(*arguments, **settings)
        return replace(task, dev=task.dev[:60], test=task.test[:120])

    build_query_ads = query_ads.build_query_ads
    monkeypatch.setattr(query_ads, "build_query_ads", build_and_cut)
    arguments = ["demo", "--out", str(tmp_path), "--seeds", "1", "--pairs", "200", "--epochs", "1"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "What to try next" in result.output
    assert "[b]" not in result.output
    report = json.loads((tmp_path / "report.json").read_text())
    assert [arm["name"] for arm in report["comparison"]["arms"]] == ["plain", "types", "text", "placebo"]
    assert len(report["explanations"]) == 4
    assert [len(points) for points in report["curves"].values()] == [1, 1, 1, 1]
    assert all(max(map(max, one["maps"]["graph"])) > 0 for one in report["explanations"][:1])
    assert "<img" in (tmp_path / "report.html").read_text() or "<svg" in (tmp_path / "report.html").read_text()
