"""The encoder's inside: what transformers models look like is known here and nowhere else."""

from infuser.hosts.anatomy import (
    HOSTS,
    Anatomy,
    anatomy_of,
    attentions,
    embeddings_of,
    is_new_weight,
    plain_state,
)
from infuser.hosts.attention import check_plugged_in, plain_config, plug_in, showing_weights, unplug
from infuser.hosts.blocks import hook_blocks, n_blocks, unhook_blocks
from infuser.hosts.calls import BatchKnowledge, Call, add_reader, graph_inputs, reader_called, remove_reader
from infuser.hosts.terms import embed_names, terms_for_layers
from infuser.hosts.watching import answering, watching_attention

__all__ = [
    "HOSTS",
    "Anatomy",
    "BatchKnowledge",
    "Call",
    "add_reader",
    "anatomy_of",
    "answering",
    "attentions",
    "check_plugged_in",
    "embed_names",
    "embeddings_of",
    "graph_inputs",
    "hook_blocks",
    "is_new_weight",
    "n_blocks",
    "plain_config",
    "plain_state",
    "plug_in",
    "reader_called",
    "remove_reader",
    "showing_weights",
    "terms_for_layers",
    "unhook_blocks",
    "unplug",
    "watching_attention",
]
