"""The encoder's inside: what transformers models look like is known here and nowhere else."""

from infuser.hosts.anatomy import HOSTS, anatomy_of, attentions, is_new_weight, plain_state, terms_for_layers
from infuser.hosts.attention import check_plugged_in, plain_config, plug_in, unplug

__all__ = [
    "HOSTS",
    "anatomy_of",
    "attentions",
    "check_plugged_in",
    "is_new_weight",
    "plain_config",
    "plain_state",
    "plug_in",
    "terms_for_layers",
    "unplug",
]
