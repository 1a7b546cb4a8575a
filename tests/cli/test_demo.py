from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from infuser import assets
from infuser.cli import app
from infuser.errors import AssetError


@pytest.mark.slow
def test_the_demo_runs_on_the_real_encoder_and_writes_its_report(tmp_path: Path) -> None:
    try:
        for name in ("minilm", "wordnet"):
            assets.fetch(name)
    except AssetError as error:
        pytest.skip(f"the assets cannot be fetched here: {error}")
    arguments = ["demo", "--out", str(tmp_path), "--seeds", "1", "--pairs", "200", "--epochs", "1"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "What to try next" in result.output
    report = json.loads((tmp_path / "report.json").read_text())
    assert [arm["name"] for arm in report["comparison"]["arms"]] == ["plain", "kam", "placebo"]
    assert len(report["explanations"]) == 4
    assert [len(points) for points in report["curves"].values()] == [1, 1, 1]
    assert all(max(map(max, one["maps"]["graph"])) > 0 for one in report["explanations"][:1])
    assert "<img" in (tmp_path / "report.html").read_text() or "<svg" in (tmp_path / "report.html").read_text()
