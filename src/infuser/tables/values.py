"""Checks of values that JSON files hold."""

from __future__ import annotations

from typing import Any, TypeGuard


def is_unicode(value: Any) -> TypeGuard[str]:
    """Return whether this is a text, empty or not, that can be written down: JSON can spell halves of characters."""
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:
        return False


def is_text(value: Any) -> TypeGuard[str]:
    """Return whether this is a text that can be written down and is not blank."""
    return is_unicode(value) and bool(value.strip())


def is_place(value: Any, length: int) -> bool:
    """Return whether this is [start, end] of at least one thing among `length` things."""
    if not isinstance(value, list) or len(value) != 2 or not all(type(end) is int for end in value):
        return False
    return bool(0 <= value[0] < value[1] <= length)
