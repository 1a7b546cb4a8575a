"""Save and load: the whole form, the small form, and every way in which a directory can be broken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from miniatures import HEADS, Repeats, tiny_host, tiny_tokenizer
from safetensors.torch import load_file, save_file
from tiny_infusions import KNOWN_TEXT, answer, examples, infuse_tiny, plain, shake
from torch import Tensor
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer

import infuser
from infuser import saving
from infuser.errors import CheckpointError, InfuserError, SourceError, UnknownNameError
from infuser.hosts import is_new_weight
from infuser.seals import seal
from infuser.sources import Phrases

TEXTS = ["buy glipizide near me", KNOWN_TEXT, "New York lies on the shop"]
PAIRS = ["Fred Meyer pharmacy near me", "Bern on the Aare", "a shop"]


def real_sources() -> list[infuser.Source]:
    return [
        infuser.Entities({"Bern": "city", "New York": "city"}, fold_case=False, overlaps="keep"),
        Phrases(("near me", "lies on")),
        infuser.Correlation({("buy", "shop"): 2.0, ("bridge", "river"): 1.5, ("near", "shop"): 0.5}, n_terms=2),
        infuser.Graph([("glipizide", "sold by", "pharmacy", 0.5)], aliases={"pharmacy": ["Fred Meyer"]}, hops=2),
    ]


def base_checkpoint(directory: Path, *, seed: int = 0, **settings: Any) -> Path:
    tiny_host("bert", seed=seed).save_pretrained(directory)
    tiny_tokenizer("bert", **settings).save_pretrained(directory)
    return directory


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return base_checkpoint(tmp_path / "base")


def infuse_base(base: Path, **settings: Any) -> infuser.Infused:
    """Return a classifier on a base checkpoint, its new weights moved as if it had been trained."""
    torch.manual_seed(7)
    infused = infuser.infuse(
        base, infuser.Kam(**settings), sources=real_sources(), task="sequence-classification", num_labels=4
    )
    shake(infused.model)
    return infused


def told(infused: infuser.Infused) -> Tensor:
    with torch.no_grad():
        return answer(infused.model, infused.batch(TEXTS, PAIRS))


def card(directory: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((directory / "infuser.json").read_text())
    return found


# The whole form.


@pytest.mark.parametrize("head", HEADS)
def test_the_whole_form_restores_everything(head: str, tmp_path: Path) -> None:
    infused = infuser.infuse(
        tiny_host("bert", head),
        infuser.Kam(alpha=0.35, kernel_size=5, residual=0.25, cls_row=False, bypass_empty=True),
        sources=real_sources(),
        tokenizer=tiny_tokenizer("bert", padding_side="left", model_max_length=48),
    )
    shake(infused.model)
    infused.save(tmp_path / "out")
    again = infuser.load(tmp_path / "out")
    assert type(again.model) is type(infused.model)
    assert again.method == infused.method
    assert again.sources == infused.sources
    assert again.tokenizer.padding_side == "left"
    assert again.tokenizer.model_max_length == 48
    assert not again.model.training
    state, expected = again.model.state_dict(), infused.model.state_dict()
    assert list(state) == list(expected)
    assert all(torch.equal(state[name], tensor) for name, tensor in expected.items())
    one, other = infused.collator()(examples(head)), again.collator()(examples(head))
    assert one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)
    with torch.no_grad():
        assert torch.equal(answer(again.model, other), answer(infused.model, one))


def test_a_model_that_was_loaded_can_be_saved_again_in_its_own_place(base: Path, tmp_path: Path) -> None:
    infused = infuse_base(base)
    infused.save(tmp_path / "out")
    expected = told(infused)
    for _ in range(2):
        again = infuser.load(tmp_path / "out")
        again.save(tmp_path / "out")
    assert torch.equal(told(again), expected)
    assert torch.equal(told(infuser.load(tmp_path / "out")), expected)
    assert again.base == str(base)


def test_the_whole_form_is_a_plain_checkpoint_too(base: Path, tmp_path: Path) -> None:
    infused = infuse_base(base)
    infused.save(tmp_path / "out")
    model, info = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not any(info.values())
    assert model.config._attn_implementation == "sdpa"
    batch = plain(infused.batch(TEXTS, PAIRS))
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    assert tokenizer(TEXTS, PAIRS)["input_ids"] == infused.tokenizer(TEXTS, PAIRS)["input_ids"]
    with torch.no_grad():
        torch.testing.assert_close(model(**batch).logits, infused.model(**batch).logits, atol=1e-12, rtol=0)
    assert "infuser" not in (tmp_path / "out" / "config.json").read_text()


@pytest.mark.parametrize("only_new", [False, True])
def test_files_are_safetensors_and_json_only(only_new: bool, base: Path, tmp_path: Path) -> None:
    infuse_base(base).save(tmp_path / "out", only_new=only_new)
    files = {path.name for path in (tmp_path / "out").rglob("*") if path.is_file()} - {"README.md"}
    assert {Path(name).suffix for name in files} <= {".json", ".safetensors"}
    assert {"infuser.json", "knowledge.safetensors", "config.json", "tokenizer.json"} <= files
    assert ("model.safetensors" in files) is not only_new
    for path in (tmp_path / "out").rglob("*.json"):
        json.loads(path.read_text(encoding="utf-8"))
    for path in (tmp_path / "out").rglob("*.safetensors"):
        assert load_file(path)


def test_new_weights_in_a_finer_type_than_the_host_are_kept_so(tmp_path: Path) -> None:
    infused = infuse_tiny("bert", terms=False)
    infused.model.to(torch.bfloat16)
    for name, module in infused.model.named_modules():
        if name.endswith("knowledge"):
            module.float()
    shake(infused.model)
    infused.save(tmp_path / "out")
    state = infuser.load(tmp_path / "out", sources=infused.sources).model.state_dict()
    for name, tensor in infused.model.state_dict().items():
        assert state[name].dtype == tensor.dtype == (torch.float32 if is_new_weight(name) else torch.bfloat16)
        assert torch.equal(state[name], tensor)


def test_config_that_asks_for_attentions_is_saved_and_loaded(base: Path, tmp_path: Path) -> None:
    infused = infuser.infuse(base, sources=real_sources(), output_attentions=True)
    assert len(infused.model(**infused.batch(TEXTS)).attentions) == 2
    infused.save(tmp_path / "out")
    again = infuser.load(tmp_path / "out")
    assert torch.equal(told(again), told(infused))


# The small form.


def test_the_small_form_restores_everything_and_is_small(base: Path, tmp_path: Path) -> None:
    infused = infuse_base(base, learn_alpha=True)
    infused.save(tmp_path / "small", only_new=True)
    again = infuser.load(tmp_path / "small")
    assert type(again.model) is type(infused.model)
    assert again.sources == infused.sources and again.method == infused.method
    assert torch.equal(told(again), told(infused))
    tensors = load_file(tmp_path / "small" / "knowledge.safetensors")
    own = set(AutoModel.from_pretrained(base).state_dict())
    assert not {name.removeprefix("bert.") for name in tensors} & own
    assert {"classifier.weight", "classifier.bias"} < set(tensors)  # the head is new, too
    assert sum(t.numel() for t in tensors.values()) == infused.n_new_weights() + 16 * 4 + 4
    assert card(tmp_path / "small")["base"]["id"] == str(base)
    assert len(card(tmp_path / "small")["base"]["sha256"]) == 64


def test_the_small_form_finds_its_base_where_it_is_told(base: Path, tmp_path: Path) -> None:
    infused = infuse_base(base)
    expected = told(infused)
    infused.save(tmp_path / "small", only_new=True)
    base.rename(tmp_path / "moved")
    with pytest.raises(CheckpointError, match=r"base=\.\.\."):
        infuser.load(tmp_path / "small")
    again = infuser.load(tmp_path / "small", base=str(tmp_path / "moved"))
    assert torch.equal(told(again), expected)
    assert again.base == str(tmp_path / "moved")


def test_another_base_is_one_clear_error(base: Path, tmp_path: Path) -> None:
    infuse_base(base).save(tmp_path / "small", only_new=True)
    other = base_checkpoint(tmp_path / "other", seed=1)
    with pytest.raises(CheckpointError, match=r"has other weights.*base="):
        infuser.load(tmp_path / "small", base=str(other))
    tiny_host("bert", hidden_size=32).save_pretrained(tmp_path / "wider")
    with pytest.raises(CheckpointError, match="wider"):
        infuser.load(tmp_path / "small", base=str(tmp_path / "wider"))
    tiny_host("roberta").save_pretrained(tmp_path / "roberta")
    with pytest.raises(CheckpointError, match="roberta"):
        infuser.load(tmp_path / "small", base=str(tmp_path / "roberta"))


def test_one_changed_weight_of_the_base_is_noticed(base: Path, tmp_path: Path) -> None:
    infuse_base(base).save(tmp_path / "small", only_new=True)
    weights = load_file(base / "model.safetensors")
    weights["encoder.layer.0.output.dense.bias"][3] += 1e-9
    save_file(weights, base / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(CheckpointError, match="has other weights"):
        infuser.load(tmp_path / "small")


def test_a_host_that_was_trained_needs_the_whole_form(base: Path, tmp_path: Path) -> None:
    infused = infuse_base(base)
    with torch.no_grad():
        infused.model.bert.embeddings.word_embeddings.weight[5] += 1e-6
    with pytest.raises(CheckpointError, match=r"word_embeddings.*Save the whole form"):
        infused.save(tmp_path / "small", only_new=True)
    assert not (tmp_path / "small").exists()
    infused.save(tmp_path / "whole")
    assert torch.equal(told(infuser.load(tmp_path / "whole")), told(infused))


def test_a_live_model_of_no_checkpoint_needs_the_whole_form(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="needs a base checkpoint"):
        infuse_tiny("bert").save(tmp_path / "small", only_new=True)


# Sources that hold code, and other sources.


def first_half(text: str) -> list[tuple[int, int]]:
    return [(0, len(text) // 2)]


@pytest.mark.parametrize("source", [Phrases(chunker=first_half), Repeats()], ids=["code", "not registered"])
def test_a_source_that_cannot_be_written_down_is_asked_for(source: infuser.Source, tmp_path: Path) -> None:
    infused = infuser.infuse(tiny_host("bert"), sources=[source], tokenizer=tiny_tokenizer("bert"))
    shake(infused.model)
    infused.save(tmp_path / "out")
    with pytest.raises(SourceError, match=r"(?i)(repeats|phrases).*sources=\[\.\.\.\]"):
        infuser.load(tmp_path / "out")
    again = infuser.load(tmp_path / "out", sources=[source])
    assert torch.equal(again.encode(TEXTS), infused.encode(TEXTS))


def test_other_sources_take_the_place_of_the_saved_ones(base: Path, tmp_path: Path) -> None:
    infuse_base(base).save(tmp_path / "out")
    others = real_sources()[::-1]
    assert infuser.load(tmp_path / "out", sources=others).sources == tuple(others)
    with pytest.raises(CheckpointError, match=r"saved with 4 sources, but 1"):
        infuser.load(tmp_path / "out", sources=others[:1])


# Interruptions and places.


def test_an_interrupted_save_leaves_the_old_one_as_it_was(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    infused = infuse_base(base)
    infused.save(tmp_path / "out")
    expected = told(infused)
    shake(infused.model, seed=5)

    def fail(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    for step in ("save_file", "save_sources"):
        with monkeypatch.context() as patch:
            patch.setattr(saving, step, fail)
            with pytest.raises(KeyboardInterrupt):
                infused.save(tmp_path / "out")
        assert torch.equal(told(infuser.load(tmp_path / "out")), expected)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["base", "out"]  # no drafts are left


def test_a_save_that_cannot_be_put_in_place_gives_the_old_one_back(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    infused = infuse_base(base)
    infused.save(tmp_path / "out")
    expected = told(infused)
    rename = Path.rename

    def fail_for_drafts(self: Path, target: Path) -> Path:
        if self.name == "new" and target == tmp_path / "out":
            raise OSError("disk full")
        return rename(self, target)

    shake(infused.model, seed=5)
    monkeypatch.setattr(Path, "rename", fail_for_drafts)
    monkeypatch.setattr("infuser.files._exchange", lambda *_: False)  # as on a system that cannot swap folders
    with pytest.raises(OSError, match="disk full"):
        infused.save(tmp_path / "out")
    assert torch.equal(told(infuser.load(tmp_path / "out")), expected)


def test_other_peoples_files_are_never_replaced(tmp_path: Path) -> None:
    infused = infuse_tiny("bert")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(CheckpointError, match="holds other files"):
        infused.save(tmp_path / "mine")
    with pytest.raises(CheckpointError, match="is a file"):
        infused.save(tmp_path / "mine" / "thesis.txt")
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"


def test_missing_parents_empty_directories_and_relative_paths_are_fine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    infused = infuser.infuse(tiny_host("bert"), sources=real_sources(), tokenizer=tiny_tokenizer("bert"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    for place in ("empty", "a/b/c", "./d/"):
        infused.save(place)
        assert torch.equal(infuser.load(place).encode(TEXTS), infused.encode(TEXTS))


# Broken directories: each is one clear error of ours.


def edit_card(directory: Path, **changes: Any) -> None:
    (directory / "infuser.json").write_text(json.dumps(card(directory) | changes))


def cut(path: Path, n_bytes: int) -> None:
    path.write_bytes(path.read_bytes()[:n_bytes])


def drop_tensors(path: Path, ending: str) -> None:
    save_file({k: v for k, v in load_file(path).items() if not k.endswith(ending)}, path, metadata={"format": "pt"})


DAMAGES: dict[str, tuple[Any, str]] = {
    "no card": (lambda d: (d / "infuser.json").unlink(), "it has no infuser.json"),
    "cut card": (lambda d: cut(d / "infuser.json", 100), "infuser.json is damaged"),
    "card of bytes": (lambda d: (d / "infuser.json").write_bytes(b"\xff\xfe\x00"), "infuser.json is damaged"),
    "card is a list": (lambda d: (d / "infuser.json").write_text("[1]"), "infuser.json is damaged"),
    "card lacks the method": (lambda d: edit_card(d, method=None), "lacks a usable method"),
    "card lacks the sources": (lambda d: edit_card(d, sources=None), "lacks a usable sources"),
    "unknown form": (lambda d: edit_card(d, form="half"), "lacks a usable form"),
    "unknown method": (lambda d: edit_card(d, method={"name": "kamm", "settings": {}}), "Did you mean 'kam'"),
    "method without name": (lambda d: edit_card(d, method={"settings": {}}), "cannot be set up"),
    "unknown setting": (lambda d: edit_card(d, method={"name": "kam", "settings": {"beta": 1}}), "cannot be set up"),
    "wrong setting": (lambda d: edit_card(d, method={"name": "kam", "settings": {"kernel_size": 4}}), "kernel_size=4"),
    "other kernel": (lambda d: edit_card(d, method={"name": "kam", "settings": {"kernel_size": 5}}), "other shapes"),
    "other fusion": (lambda d: edit_card(d, method={"name": "kam", "settings": {"fusion": "mean"}}), "do not fit"),
    "unknown model": (lambda d: edit_card(d, model="BertForTelepathy"), "no model class 'BertForTelepathy'"),
    "no model at all": (lambda d: edit_card(d, model="pipeline"), "no model class 'pipeline'"),
    "too few sources": (lambda d: edit_card(d, sources=card(d)["sources"][:2]), "number of sources"),
    "too many sources": (lambda d: edit_card(d, sources=card(d)["sources"] * 2), "number of sources"),
    "unknown source": (lambda d: edit_card(d, sources=[{"name": "rumours"}] * 4), "rumours"),
    "no terms": (lambda d: edit_card(d, with_terms=False), "do not fit"),
    "no new weights": (lambda d: (d / "knowledge.safetensors").unlink(), "missing or damaged"),
    "cut new weights": (lambda d: cut(d / "knowledge.safetensors", 500), "missing or damaged"),
    "empty new weights": (lambda d: cut(d / "knowledge.safetensors", 0), "missing or damaged"),
    "fewer new weights": (lambda d: drop_tensors(d / "knowledge.safetensors", "maps"), "do not fit"),
    "no host": (lambda d: (d / "model.safetensors").unlink(), "missing or damaged"),
    "cut host": (lambda d: cut(d / "model.safetensors", 2000), "missing or damaged"),
    "pickled host": (lambda d: (d / "model.safetensors").rename(d / "pytorch_model.bin"), "missing or damaged"),
    "host lacks weights": (lambda d: drop_tensors(d / "model.safetensors", "key.bias"), "lacks 2 weights"),
    "no config": (lambda d: (d / "config.json").unlink(), "missing or damaged"),
    "cut config": (lambda d: cut(d / "config.json", 60), "missing or damaged"),
    "no tokenizer": (lambda d: [p.unlink() for p in d.glob("tokenizer*")], "tokenizer"),
    "cut tokenizer": (lambda d: cut(d / "tokenizer.json", 200), "tokenizer"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_broken_directory_is_one_clear_error(
    damage: str, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    infuse_base(base).save(tmp_path / "out")
    break_it, message = DAMAGES[damage]
    break_it(tmp_path / "out")
    with pytest.raises(CheckpointError):
        infuser.load(tmp_path / "out")
    seal(tmp_path / "out")  # whoever changes a file on purpose hears what is wrong with it
    with pytest.raises(InfuserError, match=message) as caught:
        infuser.load(tmp_path / "out")
    assert isinstance(caught.value, CheckpointError | UnknownNameError | SourceError | infuser.errors.InputError)


SMALL_DAMAGES: dict[str, tuple[Any, str]] = {
    "no config": (lambda d: (d / "config.json").unlink(), "config.json is missing or damaged"),
    "cut config": (lambda d: cut(d / "config.json", 60), "config.json is missing or damaged"),
    "no digest": (lambda d: edit_card(d, base={"id": card(d)["base"]["id"]}), "has other weights"),
    "no base": (lambda d: edit_card(d, base={}), r"base=\.\.\."),
    "head is lost": (lambda d: drop_tensors(d / "knowledge.safetensors", "classifier.bias"), "lacks 1 weights"),
}


@pytest.mark.parametrize("damage", SMALL_DAMAGES)
def test_a_broken_small_form_is_one_clear_error(
    damage: str, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    infuse_base(base).save(tmp_path / "out", only_new=True)
    break_it, message = SMALL_DAMAGES[damage]
    break_it(tmp_path / "out")
    seal(tmp_path / "out")
    with pytest.raises(CheckpointError, match=message):
        infuser.load(tmp_path / "out")


def test_a_directory_that_does_not_exist_is_one_clear_error(tmp_path: Path) -> None:
    for place in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(CheckpointError, match="not a saved infused model"):
            infuser.load(place)


# A checkpoint that transformers wrote of an infused model.


def test_new_weights_in_a_checkpoint_of_transformers_are_given_back(base: Path, tmp_path: Path) -> None:
    infused = infuse_base(base)
    infused.model.save_pretrained(tmp_path / "checkpoint-10")
    infused.tokenizer.save_pretrained(tmp_path / "checkpoint-10")
    again = infuser.infuse(
        tmp_path / "checkpoint-10", infuser.Kam(), sources=real_sources(), task="sequence-classification"
    )
    assert torch.equal(told(again), told(infused))
    encoder = infuser.infuse(tmp_path / "checkpoint-10", infuser.Kam(), sources=real_sources())
    assert torch.equal(encoder.encode(TEXTS), infused.encode(TEXTS))
    with pytest.raises(CheckpointError, match="number of sources"):
        infuser.infuse(tmp_path / "checkpoint-10", infuser.Kam(), sources=real_sources()[:2])


def test_a_tokenizer_is_saved_as_it_was_before_its_first_text(base: Path, tmp_path: Path) -> None:
    infused = infuse_base(base)
    infused.save(tmp_path / "fresh")
    infused.collator()([{"text": "one two three"}, {"text": "four"}])
    infused.tokenizer("a b c d", truncation=True, max_length=3, padding="max_length")
    infused.save(tmp_path / "used")
    fresh, used = ((tmp_path / name / "tokenizer.json").read_text() for name in ("fresh", "used"))
    assert used == fresh
    assert infused.tokenizer.backend_tokenizer.truncation["max_length"] == 3  # and goes on as it was
