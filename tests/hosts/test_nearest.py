"""Unsupported encoders are reason which host is nearest and what to write; the list of supported ones is complete."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest
from miniatures import every_host_and_head
from transformers import AutoConfig

from infuser.errors import CheckpointError, HostError
from infuser.hosts import HOSTS, Anatomy
from infuser.hosts.drafts import block_of, draft_entry, look_up
from infuser.hosts.kinds import EXAMPLES, supported_kinds
from infuser.hosts.loading import load_model
from infuser.hosts.nearest import Nearest, nearest_host
from infuser.hosts.skeletons import calls_the_interface, module_names, skeleton_of_kind


def nearest_to(kind: str) -> Nearest:
    return nearest_host(AutoConfig.for_model(kind), kind)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("data2vec-text", "roberta"), ("layoutlm", "bert"), ("bert-generation", "electra"), ("roc_bert", "bert")],
)
def test_an_encoder_built_like_a_described_one_fits_its_entry(kind: str, expected: str) -> None:
    nearest = nearest_to(kind)
    assert (nearest.kind, nearest.fits, nearest.obstacle) == (expected, True, None)
    assert f"Nearest is '{expected}', whose entry finds" in str(nearest)


@pytest.mark.parametrize("kind", ["xlm-roberta", "camembert", "roberta"])
def test_positions_that_count_from_the_padding_id_are_told_from_those_that_do_not(kind: str) -> None:
    assert HOSTS[nearest_to(kind).kind].counts_from_padding  # bert's modules have the same names


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("gpt2", "looks in one direction only"),
        ("t5", "an encoder with a decoder"),
        ("vit", "no table of token embeddings"),
        ("roformer", "computes its attention itself"),
    ],
)
def test_what_an_entry_cannot_describe_is_said(kind: str, reason: str) -> None:
    assert reason in str(nearest_to(kind))


def test_without_a_config_that_transformers_can_build_names_are_compared() -> None:
    nearest = nearest_host(None, "my-distilbert")
    assert nearest.obstacle is not None and "cannot build it" in nearest.obstacle
    assert (nearest.kind, nearest.in_common) == ("distilbert", None)
    assert "The nearest name is 'distilbert'" in str(nearest)
    assert str(nearest_host(None, "new")).startswith("No described host has a name like it. transformers")
    unbuildable = AutoConfig.for_model("bert", hidden_size=7)
    assert nearest_host(unbuildable, "roberta-2").kind == "roberta"


@pytest.mark.parametrize("kind", sorted(HOSTS))
def test_every_host_has_a_skeleton_an_example_and_its_heads(kind: str) -> None:
    skeleton = skeleton_of_kind(kind)
    assert skeleton is not None and all(weight.device.type == "meta" for weight in skeleton.parameters())
    assert len(module_names(skeleton)) > 10
    assert kind in EXAMPLES


@pytest.mark.parametrize("kind", sorted(HOSTS))
def test_the_route_of_a_host_is_the_one_that_its_attention_needs(kind: str) -> None:
    skeleton = skeleton_of_kind(kind)
    assert skeleton is not None and calls_the_interface(skeleton) == (HOSTS[kind].own is None)


def test_the_list_of_supported_kinds_is_that_of_the_hosts_with_the_heads_that_the_tests_try() -> None:
    kinds = supported_kinds()
    assert [kind.name for kind in kinds] == sorted(HOSTS)
    tried = set(every_host_and_head())
    assert {(kind.name, head) for kind in kinds for head in kind.heads if head != "pretraining"} == tried
    notes = {kind.name: kind.notes for kind in kinds}
    assert notes["bert"] == () and notes["albert"] == ("all layers are one module",)
    assert "own route: its scores are computed by infuser" in notes["mpnet"]
    assert notes["roberta"] == ("positions count from the padding id",)


def test_the_guide_lists_every_field_of_an_entry() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "new-host.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `(\w+)` \|", guide, re.M)
    assert set(listed) == {field.name for field in dataclasses.fields(Anatomy)}


def test_the_guide_says_of_unsupported_encoders_what_is_found() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "new-host.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (.+?) \| ((?:`[\w-]+`(?:, )?)+) \|$", guide.partition("## Not supported")[2], re.M)
    assert len(rows) == 4
    for reason, listed in rows:
        for kind in re.findall(r"`([\w-]+)`", listed):
            assert kind not in HOSTS
            nearest = nearest_to(kind)
            assert nearest.obstacle == reason if nearest.obstacle else (nearest.fits and "fits" in reason), kind


def entry_of(draft: tuple[str, ...]) -> dict[str, Any]:
    """Return what a draft adds to a table of hosts, which is not the real one."""
    names: dict[str, Any] = {}
    exec(draft[0], names)
    assert names["HOSTS"] is HOSTS
    names["HOSTS"] = dict(HOSTS)
    exec("\n".join(draft[1:]), names)
    return {kind: entry for kind, entry in names["HOSTS"].items() if HOSTS.get(kind) is not entry}


@pytest.mark.parametrize("kind", ["bert", "roberta", "distilbert", "electra"])
def test_a_draft_made_of_names_finds_what_the_real_entry_finds(kind: str) -> None:
    config = AutoConfig.for_model(kind)
    draft = draft_entry(config, Nearest("albert", 0.5, fits=False, obstacle=None))
    entry, base = entry_of(draft)[kind], skeleton_of_kind(kind)
    assert base is not None
    found, expected = entry.blocks(base), HOSTS[kind].blocks(base)
    assert len(found) == config.num_hidden_layers and all(
        one is other for one, other in zip(found, expected, strict=True)
    )
    assert entry.attention(found[0]) is HOSTS[kind].attention(expected[0])
    states = base.get_input_embeddings().weight[None, :3]
    if states.shape[-1] == base.config.hidden_size:
        shapes = [keys.shape for keys in entry.project(entry.attention(found[0]), states)]
        assert shapes == [(1, 3, base.config.hidden_size)] * 2


def test_a_checkpoint_is_looked_up_by_its_config_alone(tmp_path: Path) -> None:
    for kind in ("bert", "data2vec-text", "gpt2"):
        AutoConfig.for_model(kind).save_pretrained(tmp_path / kind)
    assert look_up(str(tmp_path / "bert")).nearest is None
    found = look_up(str(tmp_path / "data2vec-text"))
    assert entry_of(found.draft) == {"data2vec-text": HOSTS["roberta"]}
    assert found.block[0] == "encoder.layer (12 x Data2VecTextLayer)" and "attention.self.key (Linear)" in found.block
    assert look_up(str(tmp_path / "gpt2")).draft == ()
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "config.json").write_text(json.dumps({"model_type": "my-bert"}), encoding="utf-8")
    found = look_up(str(tmp_path / "own"))
    assert found.nearest is not None and (found.kind, found.nearest.kind) == ("my-bert", "bert")
    AutoConfig.for_model("bert", is_decoder=True).save_pretrained(tmp_path / "decoder")
    with pytest.raises(HostError, match="is_decoder=False"):
        look_up(str(tmp_path / "decoder"))


def test_the_error_of_an_unsupported_checkpoint_names_the_nearest_host(tmp_path: Path) -> None:
    AutoConfig.for_model("data2vec-text").save_pretrained(tmp_path)
    with pytest.raises(HostError, match=r"'data2vec-text' encoder.* Nearest is 'roberta', whose entry .*new-host\.md"):
        load_model(str(tmp_path), "encoder")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "my-bert"}), encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"whose kind is 'my-bert'\. The nearest name is 'bert'\. transformers"):
        load_model(str(tmp_path), "encoder")


def test_the_inside_of_a_block_is_told_by_its_layers() -> None:
    place, *layers = block_of(AutoConfig.for_model("distilbert"))
    assert place == "transformer.layer (6 x TransformerBlock)"
    assert layers[0] == "attention.q_lin (Linear)" and "sa_layer_norm (LayerNorm)" in layers
    assert block_of(AutoConfig.for_model("bert", hidden_size=7)) == ()
