"""`infuser vectors add` and `infuser vectors show`: more entities for a folder of vectors, and what is in it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from infuser.cli.console import loading, print_fields, print_json, print_table, say, size_of, skipping
from infuser.cli.options import AsJson, Strict, argument, option, option_groups
from infuser.errors import InputError, UnknownNameError
from infuser.words import counted

if TYPE_CHECKING:
    from infuser.knowledge.vectors.descriptions import Missing
    from infuser.knowledge.vectors.store import EntityVectors

Folder = Annotated[Path, argument("A folder that `infuser vectors build` wrote.", metavar="DIR")]
_describe = partial(option, panel="With --describe")


@dataclass(frozen=True, slots=True)
class MissingOptions:
    """What becomes of entities without description."""

    label_when_missing: Annotated[
        bool, _describe("Encode the label of an entity without description.", "--label-when-missing")
    ] = False
    skip_missing: Annotated[bool, _describe("Leave out entities without description.", "--skip-missing")] = False

    def read(self) -> Missing | None:
        """Return what the two flags mean; None if neither is given."""
        if self.label_when_missing and self.skip_missing:
            raise InputError("Give either --label-when-missing or --skip-missing, not both.")
        return "label" if self.label_when_missing else "skip" if self.skip_missing else None


@option_groups
def add(
    folder: Folder,
    entities: Annotated[Path, option("Table of new entities: id, label, description.", metavar="FILE")],
    out: Annotated[Path, option("Folder to write; it may be DIR itself.")],
    encoder: Annotated[str | None, option("Where its encoder lies.", metavar="MODEL", default="where it was")] = None,
    strict: Strict = False,
    *,
    missing: MissingOptions,
) -> None:
    """Add new entities to vectors that were made from descriptions, encoded in the same way.

    Nothing needs to be trained again to use them. A saved model knows its folder
    by digest: write into a new one, and give it to the model.

    Example: infuser vectors add vectors --entities new.csv --out vectors-2
    """
    from infuser.knowledge.artifact import check_place
    from infuser.knowledge.vectors.descriptions import read_described
    from infuser.knowledge.vectors.store import KIND, EntityVectors
    from infuser.linking.description_vectors import add_described

    check_place(out, KIND)
    old = EntityVectors.open(folder)
    with skipping(strict) as skipped:
        new = read_described(entities, skipped)
    with quiet():
        vectors = add_described(old, new, encoder, missing=missing.read(), progress=True)
    vectors.save(out)
    n_new = counted(len(vectors) - len(old), "new entity", "new entities")
    say(f"{out}: {n_new}, {size_line(vectors)} in all, {size_of(out)}")


def show(
    folder: Folder,
    entity: Annotated[str | None, argument("Show the entities nearest to this one.", metavar="ENTITY")] = None,
    n: Annotated[int, option("How many of them.", "-n", min=1)] = 10,
    as_json: AsJson = False,
) -> None:
    """Print how vectors were made, or which entities lie nearest to one.

    Examples:
      infuser vectors show vectors
      infuser vectors show vectors Q70 -n 5
    """
    from infuser.knowledge.vectors.store import EntityVectors

    vectors = EntityVectors.open(folder)
    if entity is None:
        first = [vectors.id_of(row) for row in range(min(3, len(vectors)))]
        facts: dict[str, Any] = {"folder": str(folder), "size": size_of(folder), **vectors.about, "first": first}
        if as_json:
            print_json(facts)
        else:
            print_fields({**facts, "first": ", ".join(first)})
        return
    [row] = vectors.rows([entity]).tolist()
    if row < 0:
        raise UnknownNameError(
            f"{str(folder)!r} has no vector for {entity!r}. Give the id of an entity, as it is written."
        )
    near = vectors.nearest(row, n)
    if as_json:
        print_json([{"id": id, "cosine": cosine} for id, cosine in near], indent=None)
    else:
        print_table(("entity", "cosine"), [(id, f"{cosine:.4f}") for id, cosine in near])


def quiet() -> AbstractContextManager[Any]:
    """Keep transformers from printing expected things while it loads an encoder."""
    return loading("the encoder", quiet=True)  # its bar of texts is enough to look at


def size_line(vectors: EntityVectors) -> str:
    """Return how many vectors of how many numbers there are."""
    return f"{counted(len(vectors), 'entity', 'entities')} with {vectors.dim} numbers each"
