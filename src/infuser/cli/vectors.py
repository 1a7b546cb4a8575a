"""`infuser vectors`: vectors of entities, read from a file, trained on triples or encoded from descriptions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from infuser.cli.console import say, size_of, skipping
from infuser.cli.options import Strict, option, option_groups
from infuser.cli.vectors_show import MissingOptions, add, quiet, show, size_line
from infuser.errors import InputError
from infuser.words import counted

app = typer.Typer(
    no_args_is_help=True,
    help="Vectors of entities, for methods that put entities inside an encoder.\n\n"
    "They are built once, in one of three ways, into a folder that opens in milliseconds and is read row by row.",
)
app.command()(add)
app.command()(show)

_way = partial(option, panel="What the vectors are made from; give one")
_with_file, _with_train = partial(option, panel="With --file"), partial(option, panel="With --train")
_with_describe = partial(option, panel="With --describe")


@dataclass(frozen=True, slots=True)
class WayOptions:
    """What the vectors are made from."""

    file: Annotated[Path | None, _way("Vectors: GloVe or word2vec text (.gz, .zst), .safetensors.", metavar="FILE")] = (
        None
    )
    train: Annotated[Path | None, _way("Triples to train on: a graph folder or a file.", metavar="GRAPH")] = None
    describe: Annotated[
        Path | None,
        _way("Entities to encode: a graph folder, or a table with id, label, description.", metavar="GRAPH"),
    ] = None
    ids: Annotated[Path | None, _with_file("Ids of rows: one per line, or entity2id.txt.", metavar="FILE")] = None
    tensor: Annotated[str | None, _with_file("Matrix of .safetensors.", metavar="NAME", default="the only one")] = None

    def check(self) -> None:
        """Raise InputError unless there is one way, with its own flags."""
        if sum(way is not None for way in (self.file, self.train, self.describe)) != 1:
            raise InputError(
                "Name what the vectors are made from, one of: --file FILE, --train GRAPH, --describe GRAPH."
            )
        if self.file is None and (self.ids or self.tensor):
            raise InputError("--ids and --tensor are for vectors that are read from a file: --file FILE.")


@app.command()
@option_groups
def build(
    out: Annotated[Path, option("Folder to write; older vectors there are replaced.")],
    way: WayOptions,
    missing: MissingOptions,
    encoder: Annotated[str, _with_describe("Checkpoint that reads descriptions.", metavar="MODEL")] = "minilm",
    label: Annotated[bool, _with_describe('Read "label: description", or the description alone.')] = True,
    max_tokens: Annotated[int, _with_describe("Tokens of a description.", min=1)] = 128,
    model: Annotated[str, _with_train("A model of PyKEEN: TransE, DistMult, ComplEx, RotatE ...")] = "TransE",
    epochs: Annotated[int, _with_train("How often triples are read.", min=1)] = 20,
    learning_rate: Annotated[float, _with_train("Step size.")] = 0.005,
    seed: Annotated[int, _with_train("The same seed gives the same vectors.")] = 0,
    dim: Annotated[
        int | None,
        option(
            "Numbers per vector: 100 if trained; all that the encoder gives if encoded, or so many principal "
            "components; read from the first row of a --file.",
            min=1,
        ),
    ] = None,
    batch_size: Annotated[int | None, option("Triples or descriptions at once.", min=1, default="1024 or 64")] = None,
    scale: Annotated[bool, option("Give each vector the length sqrt(dim).")] = True,
    strict: Strict = False,
) -> None:
    """Build vectors of entities from a vector file, from triples or from descriptions.

    Training needs PyKEEN, the extra "pykeen" of this package.

    Examples:
      infuser vectors build --file glove.txt.gz --out vectors
      infuser vectors build --train kg --dim 100 --out vectors
      infuser vectors build --describe kg --encoder minilm --out vectors
    """
    way.check()
    from infuser.knowledge.artifact import check_place
    from infuser.knowledge.vectors.store import KIND

    check_place(out, KIND)
    sizes: dict[str, Any] = {
        name: size for name, size in (("dim", dim), ("batch_size", batch_size)) if size is not None
    }
    if way.file is not None:
        from infuser.knowledge.vectors.files import build_from_file

        vectors = build_from_file(way.file, out, ids=way.ids, tensor=way.tensor, dim=dim, scale=scale, progress=True)
    elif way.train is not None:
        from infuser.knowledge.vectors.training import TrainedVectors, read_triples, train_vectors

        trained: dict[str, Any] = {"model": model, "epochs": epochs, "learning_rate": learning_rate, "seed": seed}
        with skipping(strict) as skipped:
            triples = read_triples(way.train, skipped)
        n_entities = counted(len(triples.ids), "entity", "entities")
        say(f"{way.train}: {counted(len(triples.numbers), 'triple')} of {n_entities}")
        vectors = train_vectors(triples, TrainedVectors(**trained, **sizes, scale=scale), progress=True)
        vectors.save(out)
    elif way.describe is not None:
        from infuser.knowledge.vectors.descriptions import read_described
        from infuser.linking.description_vectors import DescriptionVectors, build_from_descriptions

        how: dict[str, Any] = {"with_label": label, "max_tokens": max_tokens, **sizes}
        with skipping(strict) as skipped:
            entities = read_described(way.describe, skipped)
        with quiet():
            settings = DescriptionVectors(**how, missing=missing.read() or "error", scale=scale)
            vectors = build_from_descriptions(entities, encoder, out, settings, progress=True)
    say(f"{out}: {size_line(vectors)}, {size_of(out)}")
