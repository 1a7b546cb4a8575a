"""Entities of GLiNER models: the real library with a random model of one layer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from infuser.errors import CheckpointError, SourceError
from infuser.sources.gliner import Gliner, _tiny
from infuser.sources.storage import load_source, save_source
from infuser.types import join_pair

pytest.importorskip("gliner")

TEXT = "Bern lies on the Aare, far from New York."
LABELS = ("city", "river")


@pytest.fixture(scope="module")
def model() -> Any:
    return _tiny()


def places(source: Gliner, text: str) -> list[tuple[int, int, str]]:
    [answer] = source.annotate([text])
    return [(span.start, span.end, span.label) for span in answer.spans]


def test_entities_are_gliners_own(model: Any) -> None:
    source = Gliner(model, LABELS, threshold=0.3)
    expected = [
        (entity["start"], entity["end"], entity["label"])
        for entity in model.inference([TEXT], list(LABELS), threshold=0.3)[0]
        if any(char.isalnum() for char in entity["text"])
    ]
    assert expected and places(source, TEXT) == sorted(expected)


def test_the_threshold_and_the_labels_decide_what_is_found(model: Any) -> None:
    assert places(Gliner(model, LABELS, threshold=1.0), TEXT) == []
    assert {label for *_, label in places(Gliner(model, ["river"], threshold=0.3), TEXT)} == {"river"}


def test_each_side_of_a_pair_is_read_alone(model: Any) -> None:
    source = Gliner(model, LABELS, threshold=0.3)
    second = [(start + 6, end + 6, label) for start, end, label in places(source, "Aare flows")]
    assert places(source, join_pair("Bern", "Aare flows")) == [*places(source, "Bern"), *second]


def test_no_part_of_a_long_text_is_cut_off(model: Any, recwarn: pytest.WarningsRecorder) -> None:
    text = "Bern lies on the Aare " * 100
    spans = places(Gliner(model, LABELS, threshold=0.0), text)  # all that can be chosen is
    covered = {place for start, end, _ in spans for place in range(start, end)}
    assert covered >= {place for place, char in enumerate(text) if not char.isspace()}
    assert not [warning for warning in recwarn if "truncated" in str(warning.message)]


def test_windows_leave_room_for_the_labels(model: Any) -> None:
    text = "abcdefghijklmnop " * 200  # every letter is a token
    source = Gliner(model, LABELS, threshold=0.3)
    for start, end, own in source._windows(text):
        words = text[start:end].split()
        batch = model.data_processor.tokenize_inputs([words], [list(LABELS)])
        assert int(batch["words_mask"].max()) == len(words)  # the last word is still there
        assert start <= own.start < own.stop <= end


def test_labels_that_leave_no_room_are_refused(model: Any) -> None:
    with pytest.raises(SourceError, match="1 labels leave no room for text"):
        Gliner(model, ["x" * 100 + " " + "long words " * 60]).annotate([TEXT])


def test_a_checkpoint_in_a_folder_is_loaded_and_saved_by_its_folder(model: Any, tmp_path: Path) -> None:
    model.save_pretrained(tmp_path / "model", safe_serialization=True)
    source = Gliner(tmp_path / "model", LABELS, threshold=0.3)
    again = load_source(save_source(source, tmp_path), tmp_path)
    assert again == source
    assert again.annotate([TEXT]) == Gliner(model, LABELS, threshold=0.3).annotate([TEXT])


def test_pickled_weights_are_not_read(model: Any, tmp_path: Path) -> None:
    model.save_pretrained(tmp_path)
    assert (tmp_path / "pytorch_model.bin").exists()
    with pytest.raises(CheckpointError, match=r"holds no model\.safetensors\. Pickled weights"):
        Gliner(tmp_path, LABELS).annotate([TEXT])


@pytest.fixture
def hostile(model: Any, tmp_path: Path) -> Path:
    """A checkpoint beside an encoder whose code writes a file when it is run."""
    encoder = tmp_path / "encoder"
    encoder.mkdir()
    classes = {"AutoConfig": "own.Config", "AutoModel": "own.Model", "AutoTokenizer": ["own.Tokenizer", None]}
    (encoder / "config.json").write_text(json.dumps({"model_type": "own", "auto_map": classes}))
    (encoder / "tokenizer_config.json").write_text(json.dumps({"auto_map": classes}))
    (encoder / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    model.save_pretrained(tmp_path / "model", safe_serialization=True)
    return tmp_path / "model"


def change(folder: Path, name: str, **new: Any) -> None:
    path = folder / name
    path.write_text(json.dumps(json.loads(path.read_text()) | new))


def assert_refused(folder: Path, message: str) -> None:
    """Assert that the checkpoint is refused as it is, and as part of a saved source, and none of its code has run."""
    record = save_source(Gliner(folder, LABELS), folder.parent)
    for source in (Gliner(folder, LABELS), load_source(record, folder.parent)):
        with pytest.raises(CheckpointError, match=message):
            source.annotate([TEXT])
    assert not (folder.parent / "ran").exists()


def test_code_inside_a_checkpoint_is_not_run(hostile: Path) -> None:
    config = json.loads((hostile / "gliner_config.json").read_text())
    change(hostile, "gliner_config.json", encoder_config=config["encoder_config"] | {"auto_map": {"AutoModel": "o.M"}})
    assert_refused(hostile, r"gliner_config\.json' names code of its own")


def test_an_escaped_name_does_not_hide_code(hostile: Path) -> None:
    config = json.loads((hostile / "gliner_config.json").read_text())
    config["encoder_config"]["auto_map"] = {"AutoModel": f"{hostile.parent / 'encoder'}--own.Model"}
    escaped = json.dumps(config).replace('"auto_map"', '"auto\\u005fmap"')
    assert "auto_map" not in escaped
    (hostile / "gliner_config.json").write_text(escaped)
    assert_refused(hostile, "names code of its own")


@pytest.mark.parametrize("encoder", [None, {}, {"model_type": "own"}, {"model_type": None}, "bert"], ids=str)
def test_an_encoder_from_elsewhere_is_not_loaded(encoder: Any, hostile: Path) -> None:
    elsewhere = str(hostile.parent / "encoder")
    change(hostile, "gliner_config.json", encoder_config=encoder, model_name=elsewhere)
    assert_refused(hostile, "has no encoder_config with a model_type that transformers knows")


def test_code_of_a_tokenizer_is_not_run(hostile: Path) -> None:
    change(hostile, "tokenizer_config.json", nested=[{"auto_map": {"AutoTokenizer": ["own.Tokenizer", None]}}])
    assert_refused(hostile, r"tokenizer_config\.json' names code")
    (hostile / "tokenizer_config.json").unlink()  # GLiNER would take that of model_name
    assert_refused(hostile, r"holds no tokenizer_config\.json")


def test_code_beside_an_encoder_of_labels_is_not_run(hostile: Path) -> None:
    elsewhere = str(hostile.parent / "encoder")
    config = json.loads((hostile / "gliner_config.json").read_text())
    change(hostile, "gliner_config.json", labels_encoder=elsewhere, labels_encoder_config=config["encoder_config"])
    assert_refused(hostile, "names code of its own")
    change(hostile, "gliner_config.json", labels_encoder_config=None)
    assert_refused(hostile, "has no labels_encoder_config")


def test_settings_that_are_no_json_are_named(hostile: Path) -> None:
    (hostile / "gliner_config.json").write_text("[" * 100_000)
    assert_refused(hostile, r"gliner_config\.json' cannot be read as JSON")


def test_a_model_given_as_an_object_is_asked_for_again(model: Any, tmp_path: Path) -> None:
    record = save_source(Gliner(model, LABELS), tmp_path)
    with pytest.raises(SourceError, match="given as an object, a UniEncoderSpanGLiNER"):
        load_source(record, tmp_path)


def test_a_checkpoint_that_is_nowhere_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(CheckpointError, match="No GLiNER model at 'nobody/no-such-model'"):
        Gliner("nobody/no-such-model", LABELS).annotate([TEXT])


def test_settings_that_cannot_be_used_are_refused() -> None:
    with pytest.raises(SourceError, match="give labels such as"):
        Gliner("tiny", ())
    with pytest.raises(SourceError, match="labels is 'city'"):
        Gliner("tiny", "city")
    with pytest.raises(SourceError, match=r"threshold is 1\.5"):
        Gliner("tiny", LABELS, threshold=1.5)
