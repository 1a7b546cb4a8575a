"""Which column of a table is what: by the names in its header, or by place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from infuser.errors import InputError
from infuser.knowledge.facts import ENTITIES, TRIPLES

Kind = Literal["triples", "entities"]

_NAMES: dict[Kind, dict[str, tuple[str, ...]]] = {
    "triples": {
        "head": ("head", "subject", "subj", "h", "s", "start", "source", "from", "head_id", "subject_id"),
        "relation": ("relation", "predicate", "rel", "r", "p", "property", "edge", "relation_id", "predicate_id"),
        "tail": ("tail", "object", "obj", "t", "o", "end", "target", "to", "tail_id", "object_id"),
        "weight": ("weight", "score", "confidence", "w"),
    },
    "entities": {
        "id": ("id", "entity", "entity_id", "qid", "mid", "curie"),
        "label": ("label", "name", "title", "text"),
        "aliases": ("aliases", "alias", "alternatives", "synonyms", "alternate_names"),
        "description": ("description", "definition", "gloss", "comment"),
        "types": ("types", "type", "category", "categories"),
        "count": ("count", "frequency", "freq", "n_links"),
    },
}
NEEDED: dict[Kind, tuple[str, ...]] = {"triples": ("head", "relation", "tail"), "entities": ("id",)}
"""What every row must have."""

_LETTERS = {"h": "head", "r": "relation", "t": "tail", "w": "weight", "-": ""}


class Layout(NamedTuple):
    """What the columns of one table hold."""

    kind: Kind
    columns: tuple[str, ...]
    """Our name of each column in turn, "" for columns that are not read."""
    header: bool = False
    """Whether the first line holds names."""
    n_optional: int = 0
    """So many of the last columns may be missing in a row."""


def match_names(names: Sequence[str], kind: Kind | None = None) -> Layout | None:
    """Return the layout of a header's names, or None when they are not names that we know."""
    plain = [name.strip().casefold().replace(" ", "_") for name in names]
    kinds: tuple[Kind, ...] = (kind,) if kind else ("triples", "entities")
    for tried in kinds:
        columns = [""] * len(names)
        for ours, theirs in _NAMES[tried].items():
            found = next((plain.index(name) for name in theirs if name in plain), None)
            if found is not None:
                columns[found] = ours
        enough = 1 if tried == "triples" else 2  # an id alone says nothing, and may be a word of the data
        if all(name in columns for name in NEEDED[tried]) and sum(map(bool, columns)) >= enough:
            return Layout(tried, tuple(columns), header=True)
    return None


def match_keys(keys: Sequence[str], kind: Kind | None = None) -> dict[str, str] | None:
    """Return {our name: key} for the keys of a JSON object or the columns of a Parquet file, or None."""
    layout = match_names(keys, kind)
    return layout and {ours: key for ours, key in zip(layout.columns, keys, strict=True) if ours}


def kind_of(names: Mapping[str, str]) -> Kind:
    """Return what kind of table has these columns, by our names."""
    return "triples" if "head" in names else "entities"


def choose_layout(
    lines: Sequence[Sequence[str]],
    where: str,
    *,
    kind: Kind | None,
    order: str,
    columns: Sequence[str],
    header: bool | None,
) -> Layout:
    """Return the layout of a table from the cells of its first lines and what the caller says about it."""
    if columns:
        return _named(tuple(columns), where, kind, header=bool(header))
    if header is not False and (found := match_names(lines[0], kind)):
        return found
    if header:
        raise InputError(
            f"{where}: the header {', '.join(lines[0])} does not say which column is what. Call them head, relation, "
            "tail (and weight) or id, label, aliases, description, types, count; or name them in order with columns=."
        )
    widths = Counter(len(cells) for cells in lines if len(cells) > 1)
    if kind is None:
        narrow = bool(widths) and widths.most_common(1)[0][0] == 2
        kind = "entities" if narrow and order == "hrt" else "triples"
    if kind == "triples":
        letters = _letters(order)
        if len(letters) == 3:
            letters.append("weight")
        return Layout("triples", tuple(letters), n_optional=int(len(letters) == 4 and letters[3] == "weight"))
    width = min(widths.most_common(1)[0][0] if widths else 2, len(ENTITIES))
    return Layout("entities", tuple(ENTITIES.names[:width]))


def _letters(order: str) -> list[str]:
    if not set(order) <= set(_LETTERS) or any(order.count(letter) != 1 for letter in "hrt") or order.count("w") > 1:
        raise InputError(
            f"{order!r} is no order of columns. Write h (head), r (relation) and t (tail) once each as they stand in "
            "the file, w for a weight and - for a column that is not read: 'hrt', 'rht', 'hrtw', 'r-ht'."
        )
    return [_LETTERS[letter] for letter in order]


def _named(columns: tuple[str, ...], where: str, kind: Kind | None, *, header: bool) -> Layout:
    named = [name for name in columns if name and name != "-"]
    kinds: tuple[Kind, ...] = (kind,) if kind else ("triples", "entities")
    for tried in kinds:
        if set(NEEDED[tried]) <= set(named) <= set(_NAMES[tried]) and len(set(named)) == len(named):
            return Layout(tried, tuple("" if name == "-" else name for name in columns), header)
    raise InputError(
        f"{where}: columns named {', '.join(columns)} are neither triples ({', '.join(TRIPLES.names)}) nor entities "
        f"({', '.join(ENTITIES.names)}). Use these names, each once, and - for a column that is not read."
    )
