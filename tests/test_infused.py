"""infuse(): from a directory, a live model or an id, for every task; and what Infused offers."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from miniatures import COUNT_FROM_PADDING, HEADS, HOSTS, N_POSITIONS, PAIRS, TEXTS, Repeats, tiny_host, tiny_tokenizer
from tiny_infusions import KNOWN_TEXT, answer, examples, infuse_tiny, plain, shake, tiny_sources
from transformers import (
    AutoModel,
    BertConfig,
    BertLMHeadModel,
    BigBirdConfig,
    BigBirdModel,
    RoFormerConfig,
    RoFormerModel,
)

import infuser
from infuser.errors import CheckpointError, HostError, InputError, SourceError, UnknownNameError
from infuser.hosts import is_new_weight, loading
from infuser.hosts.loading import longest_input

SMALL = {"vocab_size": 20, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A tiny BERT on disk, as transformers writes it."""
    tiny_host("bert").save_pretrained(tmp_path / "bert")
    tiny_tokenizer("bert").save_pretrained(tmp_path / "bert")
    return tmp_path / "bert"


@pytest.mark.parametrize("task", HEADS)
def test_a_directory_is_loaded_for_every_task(task: str, checkpoint: Path) -> None:
    options = {"num_labels": 4} if task.endswith("-classification") else {}
    infused = infuser.infuse(checkpoint, infuser.Kam(), sources=tiny_sources(), task=task, **options)
    assert infused.base == str(checkpoint)
    batch = infused.collator()(examples(task))
    with torch.no_grad():
        logits = answer(infused.model, batch)
    assert logits.isfinite().all()
    assert not options or logits.shape[-1] == 4
    host = infused.model.base_model.state_dict()
    own = tiny_host("bert").state_dict()
    assert all(torch.equal(host[name], tensor) for name, tensor in own.items() if name in host)


def test_every_task_of_the_tests_is_a_task_of_the_front_door() -> None:
    assert set(loading.HEADS) == {*HEADS, "pretraining"}


def test_a_string_and_a_path_are_the_same_and_kam_is_the_default(checkpoint: Path) -> None:
    one = infuser.infuse(str(checkpoint), sources=[Repeats()])
    other = infuser.infuse(checkpoint, infuser.Kam(), sources=(Repeats(),))
    assert one.method == other.method == infuser.Kam()
    assert torch.equal(one.encode(TEXTS), other.encode(TEXTS))


@pytest.mark.parametrize("head", HEADS)
def test_a_live_model_is_infused_in_place(head: str) -> None:
    host = tiny_host("bert", head)
    infused = infuser.infuse(host, sources=[Repeats()], tokenizer=tiny_tokenizer("bert"))
    assert infused.model is host
    assert infused.base is None


def test_a_live_model_that_came_from_a_directory_brings_its_tokenizer(checkpoint: Path) -> None:
    infused = infuser.infuse(AutoModel.from_pretrained(checkpoint), sources=[Repeats()])
    assert infused.base == str(checkpoint)
    assert infused.tokenizer(TEXTS[0])["input_ids"] == tiny_tokenizer("bert")(TEXTS[0])["input_ids"]


def test_new_weights_take_the_type_and_mode_of_the_host() -> None:
    for training in (True, False):
        infused = infuser.infuse(
            tiny_host("bert").half().train(training), sources=[Repeats()], tokenizer=tiny_tokenizer("bert")
        )
        new = [(name, module) for name, module in infused.model.named_modules() if is_new_weight(name)]
        assert new and all(module.training is training for _, module in new)
        assert {weight.dtype for weight in infused.model.parameters()} == {torch.float16}


@pytest.mark.parametrize("host", HOSTS)
def test_texts_and_pairs_become_a_batch_and_states(host: str) -> None:
    infused = infuse_tiny(host)
    batch = infused.batch(TEXTS, PAIRS)
    assert batch["input_ids"].shape[0] == len(TEXTS)
    knowledge = {"boxes", "weights", "kinds", "spans", "terms", "ties", "tie_weights"}
    assert {f"knowledge_{part}" for part in knowledge} <= set(batch)
    states = infused.encode(TEXTS, PAIRS)
    assert states.shape == (*batch["input_ids"].shape, 16)
    with torch.no_grad():
        torch.testing.assert_close(states, infused.model(**batch).last_hidden_state)
        assert (states - infused.model(**plain(batch)).last_hidden_state).abs().max() > 1e-2


def test_links_between_the_two_sides_of_a_pair_reach_the_model() -> None:
    infused = infuse_tiny("bert", terms=False)
    tied = infused.batch(["buy medicine"], ["cheap medicine"])
    n_first = int((tied["token_type_ids"][0] == 0).sum())
    crossing = [box for box in tied["knowledge_boxes"][0].tolist() if box[2] <= n_first <= box[3]]
    assert crossing


@pytest.mark.parametrize("head", HEADS)
def test_encode_works_under_every_head_and_without_dropout(head: str) -> None:
    infused = infuse_tiny("bert", head)
    states = infused.encode([KNOWN_TEXT])
    infused.model.train()
    assert torch.equal(infused.encode([KNOWN_TEXT]), states)
    assert all(module.training for module in infused.model.modules())


def test_one_text_may_be_given_as_a_string() -> None:
    infused = infuse_tiny("bert")
    assert torch.equal(infused.encode(KNOWN_TEXT), infused.encode([KNOWN_TEXT]))


def test_choices_given_as_lists_have_a_dimension_of_their_own() -> None:
    infused = infuse_tiny("bert", "multiple-choice")
    batch = infused.batch([["the old town", KNOWN_TEXT], ["buy medicine", "a lake"]], [["a", "b"], ["c", "d"]])
    assert batch["input_ids"].shape[:2] == (2, 2)
    assert infused.model(**batch).logits.shape == (2, 2)


def test_new_weights_are_counted() -> None:
    infused = infuse_tiny("bert")  # two layers, two heads, two sources, kernel 3, with terms
    kernels = 2 * (2 * 4 * 9)
    assert infused.n_new_weights() == kernels + 2 + 1 + 2 * 2  # one bias vector, one gate, two term biases per layer
    assert infuse_tiny("bert", terms=False).n_new_weights() == kernels + 2 + 1
    infused.detach()
    assert infused.n_new_weights() == 0


def test_detach_gives_the_plain_model_back(checkpoint: Path) -> None:
    infused = infuser.infuse(checkpoint, sources=tiny_sources())
    shake(infused.model)
    batch = plain(infused.batch(TEXTS))
    model = infused.detach()
    assert model is infused.model
    with torch.no_grad():
        assert torch.equal(model(**batch)[0], AutoModel.from_pretrained(checkpoint)(**batch)[0])


@pytest.mark.parametrize("host", HOSTS)
def test_texts_are_cut_to_what_the_host_can_read(host: str) -> None:
    infused = infuse_tiny(host)
    infused.tokenizer.model_max_length = int(1e30)  # as many checkpoints have it
    longest = longest_input(infused.model, infused.tokenizer)
    assert longest == (N_POSITIONS if host in COUNT_FROM_PADDING else N_POSITIONS + 2)
    assert infused.encode([f"{KNOWN_TEXT} " * 40]).shape[1] == longest


# What is refused.


@pytest.mark.parametrize(
    "model",
    [
        RoFormerModel(RoFormerConfig(**SMALL)),
        BigBirdModel(BigBirdConfig(**SMALL)),
    ],
    ids=["roformer", "big_bird"],
)
def test_an_undescribed_encoder_is_refused_with_all_that_are_described(model: Any, tmp_path: Path) -> None:
    model.save_pretrained(tmp_path)
    for given in (model, tmp_path, str(tmp_path)):
        with pytest.raises(HostError) as caught:
            infuser.infuse(given, sources=[Repeats()], tokenizer=tiny_tokenizer("bert"))
        assert f"{model.config.model_type!r}" in str(caught.value)
        assert all(name in str(caught.value) for name in HOSTS)


def test_a_decoder_is_refused() -> None:
    with pytest.raises(HostError, match="must not look ahead"):
        infuser.infuse(
            BertLMHeadModel(BertConfig(is_decoder=True, **SMALL)), sources=[Repeats()], tokenizer=tiny_tokenizer("bert")
        )


def test_a_second_infusion_is_refused_and_leaves_the_first_alone() -> None:
    infused = infuse_tiny("bert")
    before = infused.encode(TEXTS)
    with pytest.raises(HostError, match=r"infused already.*detach\(\)"):
        infuser.infuse(infused.model, sources=[Repeats()], tokenizer=infused.tokenizer)
    assert torch.equal(infused.encode(TEXTS), before)


@pytest.mark.parametrize("sources", [[], (), "entities", ["entities"], [None], [Repeats(), {"Bern": "city"}]])
def test_knowledge_that_is_none_is_refused(sources: Any) -> None:
    with pytest.raises(SourceError, match="source"):
        infuser.infuse(tiny_host("bert"), sources=sources, tokenizer=tiny_tokenizer("bert"))


def test_one_source_may_be_given_without_a_list() -> None:
    infused = infuser.infuse(tiny_host("bert"), sources=Repeats(), tokenizer=tiny_tokenizer("bert"))
    assert infused.sources == (Repeats(),)


def test_an_unknown_task_is_named_with_the_known_ones(checkpoint: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"'classification'.*sequence-classification"):
        infuser.infuse(checkpoint, sources=[Repeats()], task="classification")


def test_options_for_loading_do_not_go_with_a_live_model() -> None:
    with pytest.raises(InputError, match="num_labels"):
        infuser.infuse(tiny_host("bert"), sources=[Repeats()], tokenizer=tiny_tokenizer("bert"), num_labels=2)


def test_an_option_that_transformers_does_not_know_is_refused(checkpoint: Path) -> None:
    with pytest.raises(InputError, match="num_lables"):
        infuser.infuse(checkpoint, sources=[Repeats()], task="sequence-classification", num_lables=2)


def test_a_live_model_without_tokenizer_asks_for_one() -> None:
    with pytest.raises(CheckpointError, match="tokenizer="):
        infuser.infuse(tiny_host("bert"), sources=[Repeats()])


def test_a_directory_without_tokenizer_asks_for_one(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    for file in checkpoint.glob("tokenizer*"):
        file.unlink()
    with pytest.raises(CheckpointError, match="tokenizer="):
        infuser.infuse(checkpoint, sources=[Repeats()])
    infused = infuser.infuse(checkpoint, sources=[Repeats()], tokenizer=tiny_tokenizer("bert"))
    assert infused.encode(TEXTS).isfinite().all()


def test_a_damaged_tokenizer_is_one_clear_error(checkpoint: Path) -> None:
    (checkpoint / "tokenizer.json").write_text('{"version": "1.0", "model": {"type": "none"}}')
    with pytest.raises(CheckpointError, match="No tokenizer can be loaded"):
        infuser.infuse(checkpoint, sources=[Repeats()])


def test_a_missing_directory_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"nowhere.*neither a directory with a config.json nor a hub id"):
        infuser.infuse(tmp_path / "nowhere", sources=[Repeats()])


def test_a_missing_hub_id_is_one_clear_error_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    started = time.perf_counter()
    with pytest.raises(CheckpointError, match="'nobody/has-this-model'"):
        infuser.infuse("nobody/has-this-model", sources=[Repeats()])
    assert time.perf_counter() - started < 10


@pytest.mark.parametrize("damage", ["no weights", "cut weights", "pickled weights", "no config", "cut config", "other"])
def test_a_damaged_checkpoint_is_one_clear_error(damage: str, checkpoint: Path) -> None:
    weights, config = checkpoint / "model.safetensors", checkpoint / "config.json"
    if damage == "no weights":
        weights.unlink()
    elif damage == "cut weights":
        weights.write_bytes(weights.read_bytes()[:1000])
    elif damage == "pickled weights":
        weights.rename(checkpoint / "pytorch_model.bin")
    elif damage == "no config":
        config.unlink()
    elif damage == "cut config":
        config.write_text(config.read_text()[:50])
    else:
        config.write_text(json.dumps({"model_type": "no-such-type"}))
    with pytest.raises(CheckpointError) as caught:
        infuser.infuse(checkpoint, sources=[Repeats()])
    assert str(checkpoint) in str(caught.value)


def test_a_method_that_does_not_fit_the_host_is_refused_before_anything_is_changed() -> None:
    host = tiny_host("bert")
    with pytest.raises(InputError, match="first_layer=5"):
        infuser.infuse(host, infuser.Kam(first_layer=5), sources=[Repeats()], tokenizer=tiny_tokenizer("bert"))
    assert not any(is_new_weight(name) for name, _ in host.named_modules())
    assert host.config._attn_implementation == tiny_host("bert").config._attn_implementation


class Silent:
    """A source of a user's own, registered nowhere, that knows nothing."""

    def annotate(self, texts: Sequence[str]) -> list[infuser.Annotations]:
        return [infuser.Annotations(text) for text in texts]


def test_a_source_of_ones_own_needs_nothing_but_annotate() -> None:
    infused = infuser.infuse(tiny_host("bert"), sources=[Silent()], tokenizer=tiny_tokenizer("bert"))  # type: ignore[list-item]
    assert infused.encode(TEXTS).isfinite().all()


def test_batches_share_one_collator_until_tokenizer_or_sources_change(monkeypatch: pytest.MonkeyPatch) -> None:
    infused = infuse_tiny("bert")
    made: list[Any] = []
    collator = infuser.Infused.collator
    monkeypatch.setattr(infuser.Infused, "collator", lambda self: made.append(self) or collator(self))
    first = infused.batch(TEXTS)
    again = infused.batch(TEXTS)
    assert len(made) == 1 and all(torch.equal(first[name], again[name]) for name in first)
    infused.tokenizer.model_max_length = 8
    assert infused.batch(TEXTS)["input_ids"].shape[1] == 8 and len(made) == 2
    infused.tokenizer.add_tokens("Aareschlucht")
    infused.batch(TEXTS)
    assert len(made) == 3
    infused.with_sources(tiny_sources()).batch(TEXTS)
    assert len(made) == 4


@pytest.mark.parametrize("method", ["kam", "kar", "ernie"])
def test_a_batch_under_the_old_key_is_refused_by_name(method: str) -> None:
    infused = infuse_tiny("bert", method=method)
    batch = infused.batch(TEXTS)
    batch["knowledge_maps"] = batch.pop("knowledge_boxes")
    with pytest.raises(InputError, match=r"'knowledge_maps'.*'knowledge_boxes'.*infused\.batch"):
        infused.model(**batch)
