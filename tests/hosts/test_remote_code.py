"""Code that a checkpoint brings along is never run, and nobody is asked whether it may be."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import infuser
from infuser.errors import InfuserError
from infuser.hosts.loading import load_model, load_tokenizer
from infuser.sources import TokenClassifier

CLASSES = {
    "AutoConfig": "own.Config",
    "AutoModel": "own.Model",
    "AutoModelForTokenClassification": "own.Model",
    "AutoTokenizer": ["own.Tokenizer", None],
}
SOURCE = Path(infuser.__file__).parent


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    def ask(*_: Any) -> str:
        raise AssertionError("a user was asked whether foreign code may be run")

    monkeypatch.setattr("builtins.input", ask)
    folder = tmp_path / "hostile"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": "own", "auto_map": CLASSES}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"auto_map": CLASSES}))
    (folder / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    return folder


@pytest.mark.parametrize(
    "load",
    [
        lambda folder: load_model(folder, "encoder"),
        load_tokenizer,
        lambda folder: TokenClassifier(folder).annotate(["one"]),
        lambda folder: TokenClassifier(folder).span_types,
        lambda folder: infuser.infuse(folder, infuser.Kam(), sources=[infuser.Entities.tiny()]),
    ],
    ids=["model", "tokenizer", "tagger", "tags", "infuse"],
)
def test_a_checkpoint_with_code_is_refused(load: Callable[[str], Any], hostile: Path) -> None:
    with pytest.raises(InfuserError):
        load(str(hostile))
    assert not (hostile.parent / "ran").exists()


def test_every_call_that_could_run_code_forbids_it() -> None:
    allowed = {"GLiNER"}  # checks the folder itself, see test_gliner.py
    calls = [
        (path.relative_to(SOURCE), node)
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("from_pretrained", "from_config")
        and getattr(node.func.value, "attr", "") not in allowed
    ]
    trusting = [
        f"{path}:{node.lineno}"
        for path, node in calls
        if not any(
            word.arg == "trust_remote_code" and isinstance(word.value, ast.Constant) and word.value.value is False
            for word in node.keywords
        )
    ]
    assert len(calls) >= 9 and not trusting
