"""What exported models of each head say: entities, choices, answers; and int8."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from cli.commands import run_command, save_checkpoint, write_lines
from miniatures import tiny_host, tiny_tokenizer
from tiny_infusions import shake

from infuser import Entities, Infused, Types, infuse
from infuser.analysis.predict import predict
from infuser.errors import HostError
from infuser.runtime import load
from infuser.signals.tags import Tags

pytestmark = pytest.mark.slow

NAMES = ["bridge", "river", "old town", "glipizide"]


def infuse_small(head: str) -> Infused:
    host = tiny_host("bert", head, num_hidden_layers=1)
    infused = infuse(host, Types(), sources=[Entities(NAMES)], tokenizer=tiny_tokenizer("bert"))
    shake(infused.model)
    return infused


def test_a_tagger_finds_the_entities_that_it_finds_in_torch(tmp_path: Path) -> None:
    infused = infuse_small("token-classification")
    tags = Tags(("thing",), ((0.1, 0.2, 0.0), (0.3, 0.0, 0.4), (0.0, 0.1, 0.2), (0.2, 0.1, 0.0)))
    infused.model.config.id2label = dict(enumerate(tags.names))
    tags.keep(infused.model.config)
    infused.export(tmp_path / "out")
    examples = [{"text": "the old bridge of the river. " * 20}, {"text": "buy glipizide"}, {"text": ""}]
    expected = list(predict(infused.model, infused.collator(), examples))
    found = load(tmp_path / "out").answer(examples, batch_size=2)
    assert len(found[0]["entities"]) > 20 and found[0]["entities"][-1]["end"] > 500  # windows reach the end
    for answer, own in zip(found, expected, strict=True):
        strip = [
            [(one["start"], one["end"], one["label"], one["text"]) for one in side["entities"]]
            for side in (answer, own)
        ]
        assert strip[0] == strip[1]
        shares = [[one["probability"] for one in side["entities"]] for side in (answer, own)]
        assert shares[0] == pytest.approx(shares[1], abs=1e-4)


def test_choices_and_answers_to_questions(tmp_path: Path) -> None:
    infused = infuse_small("multiple-choice")
    infused.export(tmp_path / "choices")
    story, endings = "the old town", ["a bridge", "the river flows", "red"]
    with torch.inference_mode():
        logits = infused.model(**infused.collator()([{"text": story, "pair": endings}])).logits[0]
    model = load(tmp_path / "choices")
    answers = model.predict([story, "red"], [endings, endings[:2]])
    assert answers[0]["choice"] == int(logits.argmax())
    assert answers[0]["probabilities"] == pytest.approx(logits.softmax(-1).tolist(), abs=1e-4)
    assert len(answers[1]["probabilities"]) == 2  # other examples may have other numbers of choices

    infuse_small("question-answering").export(tmp_path / "questions")
    passage = "the old bridge lies on the river"
    model = load(tmp_path / "questions")
    [answer] = model.predict(["what lies on the river"], [passage])
    assert answer["answer"] == passage[answer["start"] : answer["end"]] != ""
    with pytest.raises(ValueError, match="give texts"):
        model.predict(["what lies on the river"])


def test_the_command_exports_to_int8_and_says_what_it_changes(tmp_path: Path) -> None:
    checkpoint = save_checkpoint(tmp_path / "tiny", "sequence-classification", num_hidden_layers=1)
    names, texts = write_lines(tmp_path / "names.txt", *NAMES), write_lines(tmp_path / "texts.txt", *NAMES, "red")
    command = ("export", checkpoint, "--entities", names, "--out", tmp_path / "out", "--int8", "--data", texts)
    said = run_command(*command).output
    assert "texts compared" in said and "5" in said and "of answers agree" in said and "MB" in said
    model = load(tmp_path / "out")
    assert model.card.int8 and model.predict(["the old bridge"])[0]["label"] in model.labels


def test_a_head_that_cannot_be_exported_says_so(tmp_path: Path) -> None:
    host = tiny_host("bert", "masked-lm")
    infused = infuse(host, Types(), sources=[Entities(NAMES)], tokenizer=tiny_tokenizer("bert"))
    with pytest.raises(HostError, match=r"BertForMaskedLM cannot be exported: its head is none of"):
        infused.export(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
