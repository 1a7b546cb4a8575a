"""Text for the terminal: ids, names and file names are shown, whatever is in them, and cannot act."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import RenderableType

_ACTING = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters but tab and line feed, marks of direction, other line breaks, and halves of characters."""


def visible(text: str) -> str:
    r"""Return a text with the characters that would move the cursor, colour, ring or reorder as escapes: `\x1b`."""
    return _ACTING.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def json_for_programs(value: Any, *, indent: int | None = None) -> str:
    """Return plain values as JSON that a terminal shows unharmed; it reads back as the same values."""
    text = json.dumps(value, ensure_ascii=False, indent=indent, allow_nan=False)
    return _ACTING.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def say(message: str, *, style: str | None = None, err: bool = False) -> None:
    """Print one message as it is: no markup, no emoji codes, no highlighting, no wrapping."""
    from rich.text import Text

    show(Text(visible(message), style or ""), err=err, soft_wrap=True)


def show(drawn: RenderableType, *, err: bool = False, soft_wrap: bool = False) -> None:
    """Print a table or text of rich; strings in it must be `Text` of `visible` ones."""
    from rich.console import Console

    Console(stderr=err).print(drawn, markup=False, emoji=False, highlight=False, soft_wrap=soft_wrap)
