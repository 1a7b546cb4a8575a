"""`infuser hosts`: the list, a supported checkpoint, and one that is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli.commands import error_of, run_command
from transformers import AutoConfig

from infuser.hosts import HOSTS


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "400")


def test_all_supported_kinds_are_listed_with_an_example_and_notes() -> None:
    output = run_command("hosts").stdout
    assert all(f" {kind} " in output for kind in HOSTS)
    assert "google-bert/bert-base-uncased" in output and "all layers are one module" in output
    assert "all but pretraining" in output  # ModernBERT
    assert "sequence-classification, token-classification" in output.splitlines()[-2]


def test_a_supported_checkpoint_is_told_with_its_heads(tmp_path: Path) -> None:
    AutoConfig.for_model("albert").save_pretrained(tmp_path)
    output = run_command("hosts", tmp_path).stdout
    assert f"{tmp_path} is supported. Its kind is 'albert'." in output
    assert "masked-lm" in output and "all layers are one module" in output


def test_an_unsupported_checkpoint_gets_the_nearest_host_and_a_draft(tmp_path: Path) -> None:
    AutoConfig.for_model("data2vec-text").save_pretrained(tmp_path)
    output = run_command("hosts", tmp_path).stdout
    assert "not supported yet" in output and "Nearest is 'roberta'" in output
    assert "HOSTS['data2vec-text'] = HOSTS['roberta']" in output
    assert "attention.self.value (Linear)" in output and "docs/guides/new-host.md" in output


def test_a_checkpoint_that_does_not_exist_is_one_clear_line(tmp_path: Path) -> None:
    assert "There is no model" in error_of("hosts", tmp_path / "nothing", code=1)


def test_help_teaches_with_examples() -> None:
    output = run_command("hosts", "--help").output
    assert "infuser hosts minilm" in output and "new-host.md" in output
