"""`infuser predict`: what goes in, what comes out, and what knowledge changes in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from cli.commands import error_of, read_json_lines, run_command, save_checkpoint, write_lines

import infuser

COLUMNS = ("--text-column", "query", "--pair-column", "ad")


def test_every_text_gets_a_label_and_probabilities(trained: Path, task: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "predictions.jsonl"
    result = run_command("predict", trained / "model", task / "dev.csv", "--out", out, *COLUMNS, "--batch-size", 5)
    answers = read_json_lines(out)
    assert len(answers) == 24 and "24 texts labelled" in result.stderr
    infused = infuser.load(trained / "model")
    with torch.inference_mode():
        batch = infused.batch([answer["text"] for answer in answers], [answer["pair"] for answer in answers])
        expected = infused.model(**batch).logits.softmax(dim=-1)
    found = torch.tensor([[answer["probabilities"][label] for label in ("bad", "good")] for answer in answers])
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    assert all(answer["label"] == max(answer["probabilities"], key=answer["probabilities"].get) for answer in answers)
    assert [path.name for path in out.parent.iterdir()] == [out.name]  # no temporary file is left


def test_answers_without_knowledge_differ(trained: Path, task: Path, tmp_path: Path) -> None:
    read = ("predict", trained / "model", task / "dev.csv", *COLUMNS, "--out")
    run_command(*read, tmp_path / "with.jsonl")
    run_command(*read, tmp_path / "without.jsonl", "--no-knowledge")
    both = zip(read_json_lines(tmp_path / "with.jsonl"), read_json_lines(tmp_path / "without.jsonl"), strict=True)
    changes = [abs(one["probabilities"]["good"] - other["probabilities"]["good"]) for one, other in both]
    assert max(changes) > 1e-3


def test_newer_knowledge_takes_the_place_of_what_was_saved(trained: Path, tmp_path: Path) -> None:
    question = ("predict", trained / "model", "--text", "buy aspirin", "--pair", "the pharmacy near me")
    graph = write_lines(tmp_path / "newer.tsv", "aspirin\tsold by\tpharmacy")
    before, after = run_command(*question).output, run_command(*question, "--graph", graph).output
    assert "without knowledge" in before and before != after


def test_one_text_is_answered_with_a_table(trained: Path) -> None:
    told = run_command("predict", trained / "model", "--text", "buy glipizide", "--pair", "the pharmacy near me").output
    assert "good" in told and "bad" in told and "without knowledge" in told
    assert "without knowledge" not in run_command("predict", trained / "model", "--text", "a", "--no-knowledge").output


def test_standard_input_and_output_make_a_pipe(trained: Path) -> None:
    result = run_command("predict", trained / "model", "-", stdin="buy glipizide\tthe pharmacy\n\nbuy adze\tthe shop\n")
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    assert [answer["pair"] for answer in answers] == ["the pharmacy", "the shop"]
    result = run_command("predict", trained / "model", "-", stdin='{"text": "buy 👍 \\"now\\""}\n')
    assert json.loads(result.stdout)["text"] == 'buy 👍 "now"'
    assert "pair" not in json.loads(result.stdout)


@pytest.mark.parametrize("name", ["new.csv", "new.tsv", "new.json", "new.jsonl", "new.txt"])
def test_every_kind_of_table_reads_the_same(name: str, trained: Path, tmp_path: Path) -> None:
    texts = ["buy, the", 'a "b" c', ""]
    content = {
        ".csv": '\ufefftext\r\n"buy, the"\r\n"a ""b"" c"\r\n',
        ".tsv": 'text\nbuy, the\na "b" c\n',
        ".json": json.dumps([{"text": text} for text in texts[:2]]),
        ".jsonl": "\n\n".join(json.dumps({"text": text}) for text in texts[:2]),
        ".txt": 'buy, the\na "b" c\n',
    }[Path(name).suffix]
    (tmp_path / name).write_bytes(content.encode())
    result = run_command("predict", trained / "model", tmp_path / name)
    assert [json.loads(line)["text"] for line in result.stdout.splitlines()] == texts[:2]


def test_a_broken_line_is_found_before_any_work(trained: Path, tmp_path: Path) -> None:
    data = write_lines(tmp_path / "new.jsonl", '{"text": "a"}', '{"text": 3}')
    out = tmp_path / "out.jsonl"
    told = error_of("predict", trained / "model", data, "--out", out)
    assert "new.jsonl, line 2" in told and "int" in told and not out.exists()
    write_lines(data, '{"text": "a"}', '{"text": ')
    assert "line 2 is not JSON" in error_of("predict", trained / "model", data, "--out", out)
    write_lines(data, '{"text": "a"}', '{"text": "\\ud800"}')
    assert "line 2" in error_of("predict", trained / "model", data, "--out", out)
    data.write_bytes(b'{"text": "a"}\n{"text": "\xff"}\n')
    assert "line 2 is not UTF-8" in error_of("predict", trained / "model", data, "--out", out)


def test_an_output_survives_a_run_that_fails(trained: Path, tmp_path: Path) -> None:
    out = write_lines(tmp_path / "out.jsonl", "precious")
    error_of("predict", trained / "model", "-", "--out", out, stdin='{"text": "a"}\n{"text": 3}\n')
    assert out.read_text() == "precious\n"
    assert [path.name for path in tmp_path.iterdir()] == ["out.jsonl"]


def test_questions_that_make_no_sense_are_refused(trained: Path, tmp_path: Path) -> None:
    data = write_lines(tmp_path / "new.txt", "a")
    assert "--text" in error_of("predict", trained / "model")
    assert "either" in error_of("predict", trained / "model", data, "--text", "a")
    assert "--pair" in error_of("predict", trained / "model", data, "--pair", "a")
    assert "file that is read" in error_of("predict", trained / "model", data, "--out", data)
    assert ".jsonl" in error_of("predict", trained / "model", tmp_path / "new.xlsx")
    named = ("--entities", write_lines(tmp_path / "names.txt", "Bern"), "--no-knowledge")
    assert "--no-knowledge" in error_of("predict", trained / "model", "--text", "a", *named)


def test_a_model_that_gives_no_labels_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    told = error_of("predict", checkpoint, "--text", "a", code=1)
    assert "without a trained classifier" in told and "infuser train" in told
    several = save_checkpoint(tmp_path, "sequence-classification", problem_type="multi_label_classification")
    assert "several labels" in error_of("predict", several, "--text", "a", code=1)


def test_a_model_with_one_label_answers_with_a_number(tmp_path: Path) -> None:
    model = save_checkpoint(tmp_path, "sequence-classification", num_labels=1)
    answer = json.loads(run_command("predict", model, "-", stdin="the old bridge\n").stdout)
    assert set(answer) == {"text", "score"} and isinstance(answer["score"], float)
    assert f"score {answer['score']:.4f}" in run_command("predict", model, "--text", "the old bridge").output
