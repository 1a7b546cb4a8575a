"""`infuser view`: what it opens, what it offers to begin with, and a server that starts and stops."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from cli.commands import error_of, write_lines
from relation_texts import shaped_texts

from infuser.analysis.explain import explain
from infuser.relations.model import AttentionRelations
from infuser.relations.saving import save_with_sources
from infuser.sources import Entities
from infuser.viewer.opening import open_view
from infuser.viewer.request import ViewRequest
from infuser.viewer.views import InfusedView, RelationsView


def opened(name: Path, *sources: Entities) -> InfusedView | RelationsView:
    return open_view(str(name), sources)


def test_a_run_is_opened_with_texts_of_its_own_data(trained: Path, task: Path) -> None:
    of_run, of_model = opened(trained).about(), opened(trained / "model").about()
    assert of_run["title"] == of_model["title"] == "mine" and of_run == of_model
    assert (of_run["kind"], of_run["pairs"], len(of_run["examples"])) == ("kam", True, 8)
    rows = (task / "dev.csv").read_text()
    assert all(example["text"] in rows for example in of_run["examples"])


def test_a_run_whose_data_are_gone_is_opened_all_the_same(trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained, tmp_path / "moved")
    record = tmp_path / "moved" / "train.json"
    content = json.loads(record.read_text().replace("dev.csv", "gone.csv"))
    del content["sha256"]  # as the first records, which had no digest
    record.write_text(json.dumps(content))
    assert opened(tmp_path / "moved").about()["examples"][0]["text"].startswith("Bern")


def test_a_checkpoint_is_infused_on_the_fly_or_shown_as_it_is(checkpoint: Path) -> None:
    fresh, plain = opened(checkpoint, Entities(["river"])), opened(checkpoint)
    assert fresh.about()["kind"] == "kam" and "Freshly infused" in fresh.about()["note"]
    assert plain.about()["kind"] == "plain" and "holds no knowledge" in plain.about()["note"]
    assert isinstance(plain, InfusedView) and not plain.see(ViewRequest("the river")).maps


def test_relations_are_opened_with_the_sources_of_their_spans(checkpoint: Path, tmp_path: Path) -> None:
    model = AttentionRelations(checkpoint, trigger=False).fit(shaped_texts(40, 0, triggers=False))
    save_with_sources(model, [Entities(["river", "town"])], tmp_path / "relations")
    folder = tmp_path / "relations"
    view = opened(folder)
    assert isinstance(view, RelationsView) and view.about()["kind"] == "relations"
    assert view.see(ViewRequest("the river lies in the town")).found["entities"].spans


def test_what_does_not_fit_together_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    names = write_lines(tmp_path / "names.txt", "river")
    assert "Name the checkpoint" in error_of("view", "--entities", names)
    assert "relation model" in error_of("view", checkpoint, "--encoder", checkpoint)
    assert "nowhere/at/all" in error_of("view", "nowhere/at/all", code=1)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is a signal here")
def test_the_server_tells_its_address_answers_and_stops(trained: Path) -> None:
    command = [sys.executable, "-m", "infuser", "view", str(trained), "--no-browser", "--port", "0"]
    quiet = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=quiet) as server:
        try:
            assert server.stdout is not None
            address = server.stdout.readline().split()[1]
            assert address.startswith("http://127.0.0.1:")
            view = opened(trained)
            assert isinstance(view, InfusedView)
            question = view.about()["examples"][0]
            answer = httpx.post(f"{address}/api/explain", json=question, timeout=60).json()
            assert answer["answer_infused"] == explain(view.infused, **question).to_dict()["answer_infused"]
            server.send_signal(signal.SIGINT)
            out, err = server.communicate(timeout=30)
            assert server.returncode == 0 and "Traceback" not in out + err
        finally:
            server.kill()
