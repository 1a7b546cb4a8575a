"""Annotations in, tensors out: characters become token positions, and token positions become maps."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

_HOMES = {
    "Aligned": "infuser.signals.align",
    "align": "infuser.signals.align",
    "Collator": "infuser.signals.collator",
    "draw_maps": "infuser.signals.maps",
}

__all__ = ["Aligned", "Collator", "align", "draw_maps"]

if TYPE_CHECKING:
    from infuser.signals.align import Aligned as Aligned
    from infuser.signals.align import align as align
    from infuser.signals.collator import Collator as Collator
    from infuser.signals.maps import draw_maps as draw_maps


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'infuser.signals' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
