"""`infuser vectors`: vectors of entities, read from a file, trained on triples or encoded from descriptions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from infuser.cli.knowledge import Strict, size_of, tell_skipped
from infuser.errors import InputError, UnknownNameError
from infuser.words import counted

if TYPE_CHECKING:
    from infuser.knowledge.vectors.descriptions import Missing
    from infuser.knowledge.vectors.store import EntityVectors
    from infuser.tables.skipped import Skipped

app = typer.Typer(
    no_args_is_help=True,
    help="Vectors of entities, for methods that put entities inside an encoder.\n\n"
    "They are built once, in one of three ways, into a folder that opens in milliseconds and is read row by row.",
)

_WAYS = "What the vectors are made from; give one"
_FILE, _TRAIN, _DESCRIBE = "With --file", "With --train", "With --describe"

Folder = Annotated[
    Path, typer.Argument(metavar="DIR", help="A folder that `infuser vectors build` wrote.", show_default=False)
]
LabelWhenMissing = Annotated[
    bool,
    typer.Option(
        "--label-when-missing", help="Encode the label of an entity without description.", rich_help_panel=_DESCRIBE
    ),
]
SkipMissing = Annotated[
    bool, typer.Option("--skip-missing", help="Leave out entities without description.", rich_help_panel=_DESCRIBE)
]


def _option(help: str, panel: str, metavar: str | None = None, default: str | bool = True) -> Any:
    return typer.Option(help=help, rich_help_panel=panel, metavar=metavar, show_default=default)


@app.command()
def build(
    out: Annotated[Path, typer.Option(help="Folder to write; older vectors there are replaced.", show_default=False)],
    file: Annotated[
        Path | None, _option("Vectors: GloVe or word2vec text (.gz, .zst), .safetensors.", _WAYS, "FILE", False)
    ] = None,
    train: Annotated[
        Path | None, _option("Triples to train on: a graph folder or a file of triples.", _WAYS, "GRAPH", False)
    ] = None,
    describe: Annotated[
        Path | None,
        _option("Entities to encode: a graph folder, or a table with id, label, description.", _WAYS, "GRAPH", False),
    ] = None,
    ids: Annotated[
        Path | None, _option("Ids of the rows: one per line, or ERNIE's entity2id.txt.", _FILE, "FILE", False)
    ] = None,
    tensor: Annotated[
        str | None, _option("Which matrix of a .safetensors file.", _FILE, "NAME", "the only one")
    ] = None,
    encoder: Annotated[
        str, _option("Checkpoint folder, hub id or asset that reads descriptions.", _DESCRIBE, "MODEL")
    ] = "minilm",
    label: Annotated[bool, _option('Read "label: description", or the description alone.', _DESCRIBE)] = True,
    label_when_missing: LabelWhenMissing = False,
    skip_missing: SkipMissing = False,
    max_tokens: Annotated[int, typer.Option(min=1, help="Tokens of a description.", rich_help_panel=_DESCRIBE)] = 128,
    model: Annotated[str, _option("A model of PyKEEN: TransE, DistMult, ComplEx, RotatE ...", _TRAIN)] = "TransE",
    epochs: Annotated[int, typer.Option(min=1, help="How often triples are read.", rich_help_panel=_TRAIN)] = 20,
    learning_rate: Annotated[float, _option("Step size.", _TRAIN)] = 0.005,
    seed: Annotated[int, _option("The same seed gives the same vectors.", _TRAIN)] = 0,
    dim: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Numbers per vector: 100 if trained; all that the encoder gives if encoded, or so many principal "
            "components; read from the first row of a --file.",
            show_default=False,
        ),
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="Triples or descriptions at once.", show_default="1024 or 64")
    ] = None,
    scale: Annotated[bool, typer.Option(help="Give each vector the length sqrt(dim).")] = True,
    strict: Strict = False,
) -> None:
    """Build vectors of entities from a vector file, from triples or from descriptions.

    Training needs PyKEEN, the extra "pykeen" of this package.

    Examples:
      infuser vectors build --file glove.txt.gz --out vectors
      infuser vectors build --file entity2vec.vec --ids entity2id.txt --out v
      infuser vectors build --train kg --dim 100 --out vectors
      infuser vectors build --describe kg --encoder minilm --out vectors
      infuser vectors show vectors Q70
    """
    from infuser.knowledge.artifact import check_place
    from infuser.knowledge.vectors.store import KIND
    from infuser.tables.skipped import Skipped

    if sum(way is not None for way in (file, train, describe)) != 1:
        raise InputError("Name what the vectors are made from, one of: --file FILE, --train GRAPH, --describe GRAPH.")
    if file is None and (ids or tensor):
        raise InputError("--ids and --tensor are for vectors that are read from a file: --file FILE.")
    check_place(out, KIND)
    skipped = Skipped(strict)
    sizes = {name: size for name, size in (("dim", dim), ("batch_size", batch_size)) if size is not None}
    if file is not None:
        from infuser.knowledge.vectors.files import build_from_file

        vectors = build_from_file(file, out, ids=ids, tensor=tensor, dim=dim, scale=scale, progress=True)
    elif train is not None:
        trained = {"model": model, "epochs": epochs, "learning_rate": learning_rate, "seed": seed, **sizes}
        vectors = _train(train, out, skipped, scale=scale, **trained)
    else:
        assert describe is not None
        missing = _missing(label_when_missing, skip_missing) or "error"
        how = {"with_label": label, "missing": missing, "max_tokens": max_tokens, **sizes}
        vectors = _describe(describe, out, encoder, skipped, scale=scale, **how)
    typer.echo(f"{out}: {_counts(vectors)}, {size_of(out)}")


@app.command()
def add(
    folder: Folder,
    entities: Annotated[
        Path, typer.Option(metavar="FILE", help="Table of new entities: id, label, description.", show_default=False)
    ],
    out: Annotated[Path, typer.Option(help="Folder to write; it may be DIR itself.", show_default=False)],
    encoder: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Where the encoder lies now.", show_default="where it was")
    ] = None,
    label_when_missing: LabelWhenMissing = False,
    skip_missing: SkipMissing = False,
    strict: Strict = False,
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
    from infuser.tables.skipped import Skipped

    check_place(out, KIND)
    old, skipped = EntityVectors.open(folder), Skipped(strict)
    new = read_described(entities, skipped)
    tell_skipped(skipped)
    missing = _missing(label_when_missing, skip_missing)
    with _quiet():
        vectors = add_described(old, new, encoder, missing=missing, progress=True)
    vectors.save(out)
    n_new = counted(len(vectors) - len(old), "new entity", "new entities")
    typer.echo(f"{out}: {n_new}, {_counts(vectors)} in all, {size_of(out)}")


@app.command()
def show(
    folder: Folder,
    entity: Annotated[
        str | None, typer.Argument(metavar="ENTITY", help="Show the entities nearest to this one.", show_default=False)
    ] = None,
    n: Annotated[int, typer.Option("-n", min=1, help="How many of them.")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Tell how vectors were made, or which entities lie nearest to one.

    Examples:
      infuser vectors show vectors
      infuser vectors show vectors Q70 -n 5
    """
    from infuser.knowledge.vectors.store import EntityVectors

    vectors = EntityVectors.open(folder)
    if entity is None:
        first = [vectors.id_of(row) for row in range(min(3, len(vectors)))]
        facts = {"folder": str(folder), "size": size_of(folder), **vectors.about, "first": first}
        _tell(facts, as_json)
        return
    [row] = vectors.rows([entity]).tolist()
    if row < 0:
        raise UnknownNameError(
            f"{str(folder)!r} has no vector for {entity!r}. Give the id of an entity, as it is written."
        )
    near = vectors.nearest(row, n)
    if as_json:
        typer.echo(json.dumps([{"id": id, "cosine": cosine} for id, cosine in near], ensure_ascii=False))
        return
    table = Table("entity", "cosine")
    for id, cosine in near:
        table.add_row(id, f"{cosine:.4f}")
    Console().print(table, markup=False)


def _train(path: Path, out: Path, skipped: Skipped, **settings: Any) -> EntityVectors:
    from infuser.knowledge.vectors.training import TrainedVectors, read_triples, train_vectors

    triples = read_triples(path, skipped)
    tell_skipped(skipped)
    n_entities = counted(len(triples.ids), "entity", "entities")
    typer.echo(f"{path}: {counted(len(triples.numbers), 'triple')} of {n_entities}")
    vectors = train_vectors(triples, TrainedVectors(**settings), progress=True)
    vectors.save(out)
    return vectors


def _describe(path: Path, out: Path, encoder: str, skipped: Skipped, **settings: Any) -> EntityVectors:
    from infuser.knowledge.vectors.descriptions import read_described
    from infuser.linking.description_vectors import DescriptionVectors, build_from_descriptions

    entities = read_described(path, skipped)
    tell_skipped(skipped)
    with _quiet():
        return build_from_descriptions(entities, encoder, out, DescriptionVectors(**settings), progress=True)


def _quiet() -> Any:
    """Keep transformers from telling about expected things while it loads an encoder."""
    from infuser.cli.console import loading

    return loading(Console(quiet=True), "the encoder")  # its bar of texts is enough to look at


def _missing(label_when_missing: bool, skip_missing: bool) -> Missing | None:
    if label_when_missing and skip_missing:
        raise InputError("Give either --label-when-missing or --skip-missing, not both.")
    return "label" if label_when_missing else "skip" if skip_missing else None


def _counts(vectors: EntityVectors) -> str:
    return f"{counted(len(vectors), 'entity', 'entities')} with {vectors.dim} numbers each"


def _tell(facts: dict[str, Any], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(facts, ensure_ascii=False, indent=1))
        return
    table = Table(show_header=False, box=None)
    for name, value in facts.items():
        shown = ", ".join(value) if isinstance(value, list) else f"{value:,}" if type(value) is int else str(value)
        table.add_row(name, shown)
    Console().print(table, markup=False)
