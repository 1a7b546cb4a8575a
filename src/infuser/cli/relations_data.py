"""What the commands around relations read and keep: texts with known triples, fitted models, the sources of spans.

MODEL/relations.json, relations.safetensors   what was learned
MODEL/sources.json, sources/                  the sources that find spans, so that nobody has to name them again
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console

from infuser.cli.console import loading
from infuser.cli.knowledge import tell_skipped
from infuser.errors import CheckpointError, InputError
from infuser.files import whole_folder
from infuser.types import Source
from infuser.words import counted

if TYPE_CHECKING:
    from infuser.relations.encoders import Encoder
    from infuser.relations.examples import RelationText
    from infuser.relations.model import AttentionRelations

_SOURCES = "sources.json"
_MODEL = "relations.json"
_NAME_SOME = "Name some, such as --source spacy-entities --source spacy-phrases, or --entities FILE."

DATA = "Texts whose relations are known: JSON lines, or a file of T-REx, DocRED, FewRel, SemEval-2010-8."
"""What the commands say about their data."""
RelationFormat = Annotated[
    Literal["auto", "jsonl", "trex", "docred", "fewrel", "semeval"],
    typer.Option("--format", help="How relations are written: ours, jsonl, or that of a data set."),
]
LabelFile = Annotated[
    Path | None,
    typer.Option("--labels", metavar="FILE", help="Names of relations: id<TAB>name, or .json.", show_default=False),
]
Sentences = Annotated[
    bool,
    typer.Option("--sentences", help="Cut DocRED's documents into sentences; facts that lie in none are left out."),
]
FittedModel = Annotated[Path, typer.Argument(metavar="MODEL", help="A folder that `infuser relations fit` wrote.")]
EncoderNow = Annotated[
    str | None,
    typer.Option("--encoder", help="Where the encoder that it was fitted on lies now.", show_default="as saved"),
]
Gate = Annotated[
    float | None,
    typer.Option(min=0, max=1, help="Tell triples that are related with more than this.", show_default="the model's"),
]
Best = Annotated[
    float | None,
    typer.Option(min=0, max=1, help="And whose best relation has more than this.", show_default="the model's"),
]


def read_texts(paths: Sequence[Path], format: Any, labels: Path | None, *, sentences: bool) -> list[RelationText]:
    """Return the texts of all files, at least one of which states a relation, and tell what was left out."""
    from infuser.relations.readers import read_relations
    from infuser.sources.lists import read_aliases
    from infuser.tables.skipped import Skipped

    names = None if labels is None else {id: of_id[0] for id, of_id in read_aliases([labels]).items()}
    skipped, left_out = Skipped(), Counter[str]()
    how: dict[str, Any] = {"split_sentences": sentences, "left_out": left_out}
    texts = [text for path in paths for text in read_relations(path, format, skipped=skipped, labels=names, **how)]
    tell_skipped(skipped)
    if left_out:
        n_facts = counted(left_out.total(), "fact")
        typer.secho(f"{n_facts} left out: no sentence mentions both entities.", fg="yellow", err=True)
    if not stated_relations(texts):
        named = ", ".join(map(str, paths))
        raise InputError(
            f"None of the {counted(len(texts), 'text')} in {named} states a relation. A line of such a file: "
            '{"text": "Bern is the capital of Switzerland.", "triples": [{"head": [23, 34], "tail": [0, 4], '
            '"relation": "P36"}]}'
        )
    return texts


def stated_relations(texts: Iterable[RelationText]) -> Counter[str]:
    """Return how many triples state each relation."""
    from infuser.relations.negatives import is_fact

    return Counter(triple.relation for text in texts for triple in text.triples if is_fact(triple))


def open_encoder(name: str, console: Console) -> Encoder:
    """Return an encoder on the fastest device; it keeps the name by which it is found again."""
    with loading(console, name) as progress:
        from infuser.hosts.checkpoints import find_checkpoint
        from infuser.relations.encoders import open_encoder as open_it

        encoder = open_it(find_checkpoint(name, progress))
        _to_fastest(encoder)
    return replace(encoder, base=str(Path(name).resolve()) if Path(name).exists() else name)


def is_fitted(folder: Path) -> bool:
    """Tell whether a folder holds fitted relations."""
    return (folder / _MODEL).is_file()


def open_fitted(
    folder: Path, encoder: str | None, console: Console, *, gate: float | None = None, best: float | None = None
) -> AttentionRelations:
    """Return a saved model with its encoder on the fastest device, or say why it cannot be used."""
    if not is_fitted(folder):
        raise CheckpointError(
            f"{str(folder)!r} is no folder with fitted relations: it has no {_MODEL}. Fit some: infuser relations fit "
            f"DATA --out {folder}"
        )
    with loading(console, "the model") as progress:
        from infuser.hosts.checkpoints import find_checkpoint
        from infuser.relations.keeping import read_card
        from infuser.relations.model import AttentionRelations

        card = read_card(folder)
        name = encoder or dict(card.get("encoder") or {}).get("name")
        try:
            place = None if name is None else find_checkpoint(name, progress)
        except CheckpointError as error:
            if encoder is not None:
                raise
            raise CheckpointError(
                f"{folder} was fitted on the encoder {name!r}, which is not there. Say where it lies now: --encoder "
                "FOLDER"
            ) from error
        model = AttentionRelations.load(folder, encoder=place)
        _to_fastest(model.opened())
    if gate is not None or best is not None:
        set_thresholds(model, gate, best)
    return model


def set_thresholds(model: AttentionRelations, gate: float | None, best: float | None) -> None:
    """Give a fitted model other thresholds; None leaves one as it is."""
    from infuser.relations.classifier import Thresholds

    old = model.thresholds_
    new = Thresholds(old.gate if gate is None else gate, old.best if best is None else best)
    model.model_ = replace(model.model_, thresholds=new)


def check_out(folder: Path) -> None:
    """Refuse a place where other files would be lost, before hours of work and not after them."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--out {str(folder)!r} is a file. Name a folder.")
    if folder.exists() and not (folder / _MODEL).exists() and any(folder.iterdir()):
        raise InputError(f"--out {str(folder)!r} holds other files. Name a new or empty folder.")


def save_fitted(model: AttentionRelations, sources: Sequence[Source], folder: Path) -> list[str]:
    """Write a model and the sources of its spans, all or nothing; return why some sources could not be written."""
    from infuser.sources.storage import save_source

    with whole_folder(folder.resolve()) as draft:
        model.save(draft)
        records = [save_source(source, draft / "sources" / str(place)) for place, source in enumerate(sources)]
        (draft / _SOURCES).write_text(json.dumps(records, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return [f"{record['name']}: {record['needs']}" for record in records if "needs" in record]


def sources_of(folder: Path, given: Sequence[Source], *, otherwise: str = "") -> list[Source]:
    """Return the sources that were given; else those that were saved with a model, at least one.

    `otherwise` says what one can do without sources.
    """
    if given:
        return list(given)
    import infuser.sources  # noqa: F401  # enters the classes into the registry
    from infuser.sources.storage import load_source

    try:
        written = (folder / _SOURCES).read_text(encoding="utf-8")
        records = json.loads(written)
    except FileNotFoundError:
        records = []
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{folder / _SOURCES} is damaged ({error}). {_NAME_SOME}") from error
    if not isinstance(records, list):
        raise CheckpointError(f"{folder / _SOURCES} is damaged: it holds no list. {_NAME_SOME}")
    if not records:
        raise InputError(
            f"{folder} was fitted without sources, so nothing finds spans to relate. {_NAME_SOME}{otherwise}"
        )
    for record in records:
        if isinstance(record, dict) and "needs" in record:
            raise InputError(f"The source {record['name']!r} could not be saved with {folder}. Name all sources again.")
    return [load_source(record, folder / "sources" / str(place)) for place, record in enumerate(records)]


def names_of(sources: Iterable[Source]) -> list[str]:
    """Return what sources are called."""
    from infuser.sources.annotating.fingerprints import name_of

    return [name_of(source) for source in sources]


def _to_fastest(encoder: Encoder) -> None:
    import torch

    if torch.cuda.is_available():
        encoder.model.to("cuda")  # type: ignore[arg-type]
