"""Annotations in, tensors out: characters become token positions, and token positions become maps."""

from infuser.signals.align import Aligned, align
from infuser.signals.collator import Collator
from infuser.signals.maps import draw_maps

__all__ = ["Aligned", "Collator", "align", "draw_maps"]
