"""Where things sit inside each encoder. A new host is one entry in `HOSTS`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from infuser.errors import HostError
from infuser.hosts.own_scores import DEBERTA, DEBERTA_V2, LIKE_BERT, MPNET, OwnAttention, deberta_keys

NEW = "knowledge"
"""New weights are children of the host's own modules under this name."""


@dataclass(frozen=True, slots=True)
class Anatomy:
    """What a method needs to know about one kind of encoder."""

    blocks: Callable[[Any], list[Any]]
    """The blocks of the encoder, lower to upper, each once."""
    attention: Callable[[Any], Any]
    """The module of a block that calls the attention function."""
    project: Callable[[Any, Any], tuple[Tensor, Tensor]]
    """What `prepare` returned to keys and values of one attention module, heads not yet split."""
    embeddings: Callable[[Any], Any] = lambda base: base.embeddings
    """The module that turns ids into states."""
    words: Callable[[Any, Tensor], Tensor] = lambda base, ids: base.get_input_embeddings()(ids)
    """What ids alone say, without their places: as wide as what `enter` takes."""
    enter: Callable[[Any, Tensor], Tensor] = lambda base, states: states
    """What lies between the embeddings and the first block."""
    prepare: Callable[[Any, Tensor], Any] = lambda block, states: states
    """What a block does to its input before attention (the norm of pre-norm encoders)."""
    turn: Callable[[Any, Any, Tensor, Tensor], tuple[Tensor, Tensor]] | None = None
    """Encoder, block, states and positions to cosine and sine, for encoders that turn keys by their position."""
    own: OwnAttention | None = None
    """For encoders that do not call transformers' attention function: how they attend (see own_attention.py)."""
    shared: bool = False
    """True when all layers are the same module."""
    counts_from_padding: bool = False
    """True when positions start after the padding id, so that as many fewer tokens can be read."""


def _separate(key: str, value: str) -> Callable[[Any, Tensor], tuple[Tensor, Tensor]]:
    return lambda attention, states: (getattr(attention, key)(states), getattr(attention, value)(states))


_BERT = Anatomy(
    blocks=lambda base: list(base.encoder.layer),
    attention=lambda block: block.attention.self,
    project=_separate("key", "value"),
)


_ROBERTA = dataclasses.replace(_BERT, counts_from_padding=True)

_ROTARY = Anatomy(
    blocks=lambda base: list(base.layers),
    attention=lambda block: block.self_attn,
    project=_separate("k_proj", "v_proj"),
    turn=lambda base, block, states, positions: base.rotary_emb(states, positions),
)


def _albert_blocks(base: Any) -> list[Any]:
    return [layer for group in base.encoder.albert_layer_groups for layer in group.albert_layers]


def _deberta_words(base: Any, ids: Tensor) -> Tensor:
    embeddings = base.embeddings
    states: Tensor = embeddings.word_embeddings(ids)
    return states if embeddings.embed_proj is None else embeddings.embed_proj(states)


def _three_in_a_row(base: Any, ids: Tensor) -> Tensor:
    """MobileBERT's embeddings are narrow: a token is widened together with its neighbours, here nothing."""
    embeddings = base.embeddings
    states: Tensor = embeddings.word_embeddings(ids)
    if embeddings.trigram_input:
        nothing = torch.zeros_like(states)
        states = torch.cat([nothing, states, nothing], dim=-1)
    if embeddings.trigram_input or embeddings.embedding_size != embeddings.hidden_size:
        states = embeddings.embedding_transformation(states)
    return states


def _narrowed(block: Any, states: Tensor) -> tuple[Tensor, Tensor]:
    """MobileBERT makes keys and values of different states."""
    return block.bottleneck(states)[1:3] if block.use_bottleneck else (states, states)


HOSTS: dict[str, Anatomy] = {
    "bert": _BERT,
    "roberta": _ROBERTA,
    "xlm-roberta": _ROBERTA,
    "camembert": _ROBERTA,
    "electra": dataclasses.replace(
        _BERT,
        enter=lambda base, states: base.embeddings_project(states) if hasattr(base, "embeddings_project") else states,
    ),
    "distilbert": Anatomy(
        blocks=lambda base: list(base.transformer.layer),
        attention=lambda block: block.attention,
        project=_separate("k_lin", "v_lin"),
    ),
    "albert": Anatomy(
        blocks=_albert_blocks,
        attention=lambda block: block.attention,
        project=_separate("key", "value"),
        enter=lambda base, states: base.encoder.embedding_hidden_mapping_in(states),
        shared=True,
    ),
    "modernbert": Anatomy(
        blocks=lambda base: list(base.layers),
        attention=lambda block: block.attn,
        project=lambda attention, states: attention.Wqkv(states).chunk(3, dim=-1)[1:],
        prepare=lambda block, states: block.attn_norm(states),
        turn=lambda base, block, states, positions: base.rotary_emb(states, positions, block.attention_type),
    ),
    "nomic_bert": _ROTARY,
    "jina_embeddings_v3": _ROTARY,
    "eurobert": dataclasses.replace(
        _ROTARY,
        embeddings=lambda base: base.embed_tokens,
        prepare=lambda block, states: block.input_layernorm(states),
    ),
    "roberta-prelayernorm": dataclasses.replace(
        _ROBERTA, prepare=lambda block, states: block.attention.LayerNorm(states)
    ),
    "xlm-roberta-xl": dataclasses.replace(
        _ROBERTA, prepare=lambda block, states: block.attention.self_attn_layer_norm(states)
    ),
    "xmod": dataclasses.replace(
        _ROBERTA,
        prepare=lambda block, states: block.attention.output.LayerNorm(states) if block.pre_norm else states,
    ),
    "ernie": _BERT,  # Baidu's; not the method of that name
    "mobilebert": dataclasses.replace(
        _BERT,
        words=_three_in_a_row,
        prepare=_narrowed,
        project=lambda attention, states: (attention.key(states[0]), attention.value(states[1])),
    ),
    "esm": dataclasses.replace(
        _ROBERTA,
        prepare=lambda block, states: block.attention.LayerNorm(states),
        turn=lambda base, block, states, positions: base.rotary_embeddings(states, positions),
    ),
    "megatron-bert": dataclasses.replace(
        _BERT, own=LIKE_BERT, prepare=lambda block, states: block.attention.ln(states)
    ),
    "rembert": dataclasses.replace(
        _BERT, own=LIKE_BERT, enter=lambda base, states: base.encoder.embedding_hidden_mapping_in(states)
    ),
    "mpnet": dataclasses.replace(
        _ROBERTA, own=MPNET, attention=lambda block: block.attention.attn, project=_separate("k", "v")
    ),
    "deberta": dataclasses.replace(_BERT, own=DEBERTA, words=_deberta_words, project=deberta_keys),
    "deberta-v2": dataclasses.replace(
        _BERT, own=DEBERTA_V2, words=_deberta_words, project=_separate("key_proj", "value_proj")
    ),
}


def anatomy_of(host: PreTrainedModel) -> Anatomy:
    """Return the anatomy of a host; raise for one that is not described or is a decoder."""
    kind = getattr(getattr(host, "config", None), "model_type", type(host).__name__)
    if kind not in HOSTS:
        from infuser.hosts.nearest import nearest_host  # which reads this file's entries

        nearest = f" {nearest_host(host.config, kind)}" if hasattr(host, "config") else ""
        raise HostError(
            f"Cannot infuse a {kind!r} encoder: its anatomy is not described yet.{nearest} Described: "
            f"{', '.join(sorted(HOSTS))}. To add one, see docs/guides/new-host.md."
        )
    if getattr(host.config, "is_decoder", False):
        raise HostError(
            f"Cannot infuse {type(host).__name__} with is_decoder=True: maps tie words in both directions, a decoder "
            "must not look ahead. Load the checkpoint with is_decoder=False."
        )
    return HOSTS[kind]


def attentions(host: PreTrainedModel) -> list[nn.Module]:
    """Return the host's attention modules, lower to upper; one module if all layers share it."""
    anatomy = anatomy_of(host)
    return [anatomy.attention(block) for block in anatomy.blocks(host.base_model)]


def is_new_weight(name: str) -> bool:
    """Return whether a parameter's name is that of a weight which an infusion added."""
    return NEW in name.split(".")


def plain_state(host: PreTrainedModel) -> dict[str, Tensor]:
    """Return the host's own tensors, without those that an infusion added."""
    return {name: tensor for name, tensor in host.state_dict().items() if not is_new_weight(name)}


def embeddings_of(host: PreTrainedModel) -> nn.Module:
    """Return the module that turns ids into states, for weights that belong to no block."""
    module: nn.Module = anatomy_of(host).embeddings(host.base_model)
    return module
