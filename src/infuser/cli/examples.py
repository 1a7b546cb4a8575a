"""Options with which people say which columns of a table hold text, pair and label."""

from __future__ import annotations

from typing import Annotated

import typer

TextColumn = Annotated[str, typer.Option(help="Column that holds the text.")]
PairColumn = Annotated[
    str | None,
    typer.Option(help="Column that holds the other side of a sentence pair.", show_default="pair, if there is one"),
]
LabelColumn = Annotated[str, typer.Option(help="Column that holds the label.")]
