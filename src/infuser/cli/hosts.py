"""`infuser hosts`: which encoders can be infused, and what to do about one that cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from infuser.cli.console import loading, print_fields, print_table, say
from infuser.cli.options import argument

if TYPE_CHECKING:
    from infuser.hosts.kinds import HostKind


def hosts(
    checkpoint: Annotated[
        str | None, argument("An encoder to look up: a folder, a hub id, or an asset such as minilm, which is fetched.")
    ] = None,
) -> None:
    """List the kinds of encoders that can be infused, or look one checkpoint up.

    Of a checkpoint, only its config is read. If its kind is not supported, the nearest one that is, is named, with what
    differs and how to describe it: usually ten lines (docs/guides/new-host.md).

    Examples:
      infuser hosts
      infuser hosts minilm
      infuser hosts microsoft/layoutlm-base-uncased
    """
    if checkpoint is None:
        _list_kinds()
        return
    with loading(checkpoint) as progress:
        from infuser.hosts.checkpoints import find_checkpoint
        from infuser.hosts.drafts import look_up
        from infuser.hosts.kinds import kind_called

        found = look_up(find_checkpoint(checkpoint, progress))
        kind = None if found.nearest else kind_called(found.kind)
    if kind is not None:
        say(f"{checkpoint} is supported. Its kind is {kind.name!r}.")
        print_fields({"heads": ", ".join(kind.heads), "notes": "; ".join(kind.notes) or "none"})
        return
    say(f"{checkpoint} is not supported yet. Its kind is {found.kind!r}. {found.nearest}")
    if found.block:
        blocks, *layers = found.block
        say(f"\nIts blocks: {blocks}. Layers of the first:")
        say("  " + ", ".join(layers))
    if found.draft:
        say("\nA first draft of its entry, to be tested:")
        for line in found.draft:
            say(f"  {line}")
    say("\nHow to describe and test it: docs/guides/new-host.md")


def _list_kinds() -> None:
    with loading("the list of encoders"):
        from infuser.hosts.kinds import supported_kinds

        kinds = supported_kinds()
    headers = ("kind", "for example", "heads", "notes")
    rows = [(kind.name, kind.example, _heads(kind, kinds), "; ".join(kind.notes)) for kind in kinds]
    print_table(headers, rows, left=range(len(headers)))
    say(f"all heads: {', '.join(_all_heads(kinds))}")
    say("Is mine supported? infuser hosts CHECKPOINT")


def _all_heads(kinds: list[HostKind]) -> list[str]:
    return list(dict.fromkeys(head for kind in kinds for head in kind.heads))


def _heads(kind: HostKind, kinds: list[HostKind]) -> str:
    missing = [head for head in _all_heads(kinds) if head not in kind.heads]
    return f"all but {', '.join(missing)}" if missing else "all"
