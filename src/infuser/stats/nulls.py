"""Numbers that JSON has no word for travel as null."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np


def with_nulls(value: Any) -> Any:
    """Return the same for JSON: null in place of NaN and infinity, lists in place of tuples and arrays."""
    if isinstance(value, Mapping):
        return {key: with_nulls(inside) for key, inside in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return with_nulls(value.tolist())
    if isinstance(value, list | tuple):
        return [with_nulls(inside) for inside in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def without_nulls(value: Any) -> Any:
    """Return the same with NaN in place of null."""
    if isinstance(value, Mapping):
        return {key: without_nulls(inside) for key, inside in value.items()}
    if isinstance(value, list):
        return [without_nulls(inside) for inside in value]
    return math.nan if value is None else value
