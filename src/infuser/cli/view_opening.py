"""What `infuser view` opens: the embedded example, a run, a saved model, relations, or any checkpoint."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from infuser.cli.console import loading
from infuser.cli.relations_data import is_fitted, open_fitted, sources_of
from infuser.errors import InfuserError, InputError
from infuser.experiments.run_folder import Run
from infuser.tables.examples import Columns, read_examples
from infuser.types import Source

if TYPE_CHECKING:
    from infuser.viewer.looking import Example, View

_N_EXAMPLES, _MOST_SIGNS, _MOST_READ = 8, 400, 500
"""So many texts of a run's own data are offered to begin with, none that is longer, of the first of them."""
_FRESH = "Freshly infused: knowledge changes nothing before the model is trained with it, see infuser train --help."
_PLAIN = "This encoder holds no knowledge: name some, such as --graph FILE, or give a model that infuser train wrote."


def open_view(name: str | None, sources: Sequence[Source], encoder: str | None, console: Console) -> View:
    """Return what is looked at, loaded; sources that are named take the place of those that were saved."""
    if name is None:
        if sources or encoder is not None:
            raise InputError("Name the checkpoint that is infused with this knowledge: infuser view minilm --graph ...")
        return _open_default(console)
    if is_fitted(Path(name)):
        return _open_relations(Path(name), sources, encoder, console)
    if encoder is not None:
        raise InputError(f"--encoder says where the encoder of a relation model lies; {name!r} holds none.")
    folder = Path(name)
    model = folder / "model" if (folder / "model" / "config.json").exists() else folder
    return _open_model(name, str(model), sources, console)


def _open_default(console: Console) -> View:
    with loading(console, "the embedded example") as progress:
        from infuser.hosts.checkpoints import find_checkpoint
        from infuser.viewer.default import open_default

        find_checkpoint("minilm", progress)
        return open_default()


def _open_model(name: str, model: str, sources: Sequence[Source], console: Console) -> View:
    examples = _examples_of(Path(name)) or _any_examples()
    with loading(console, "the model") as progress:
        from infuser.hosts.checkpoints import is_infused
        from infuser.opening import open_infused, open_plain
        from infuser.relations.encoders import Encoder
        from infuser.viewer.looking import InfusedView

        if sources or is_infused(model):
            note = "" if is_infused(model) else _FRESH
            return InfusedView(open_infused(model, sources, progress=progress), _title(name), note, examples)
        return InfusedView(Encoder(*open_plain(model, progress=progress)), _title(name), _PLAIN, examples)


def _open_relations(folder: Path, sources: Sequence[Source], encoder: str | None, console: Console) -> View:
    from infuser.viewer.looking import RelationsView

    model = open_fitted(folder, encoder, console)
    known = sorted(label or name for name, label in model.labels_.items())
    note = f"Relations that it knows: {', '.join(known[:6])}" + (" and others." if len(known) > 6 else ".")
    return RelationsView(model, sources_of(folder, sources), _title(str(folder)), note, _any_examples(pair=False))


def _title(name: str) -> str:
    path = Path(name).resolve()
    return path.parent.name if path.name == "model" and path.exists() else path.name if path.exists() else name


def _examples_of(folder: Path) -> list[Example]:
    """Return a few texts of what a run was trained or judged on, none where that is not there any more."""
    run = Run(folder.parent if folder.name == "model" else folder)
    try:
        if run.record.exists():
            return _of_training(run.read())
        report = json.loads((run.folder / "report.json").read_text(encoding="utf-8"))
        return _listed(report["explanations"])
    except (InfuserError, OSError, ValueError, KeyError, TypeError):
        return []  # data have moved: the page starts with texts of ours


def _of_training(record: dict[str, Any]) -> list[Example]:
    files, columns = record["files"], Columns(**record["made_with"]["columns"])
    path = Path((files["dev"] or files["data"])["path"])
    return _listed(example for _, example in read_examples(path, columns))


def _listed(examples: Any) -> list[Example]:
    from infuser.viewer.looking import Example

    sides = ((example["text"], example["pair"]) for example in islice(examples, _MOST_READ))
    return [Example(*both) for both in islice((both for both in sides if _is_short(both)), _N_EXAMPLES)]


def _is_short(sides: tuple[str, str | None]) -> bool:
    return sum(len(side or "") for side in sides) <= _MOST_SIGNS


def _any_examples(*, pair: bool = True) -> list[Example]:
    from infuser.viewer.looking import Example

    texts = ["Bern is the capital of Switzerland and lies on the Aare.", "Marie Curie was born in Warsaw."]
    return [*map(Example, texts), *([Example("buy glipizide online", "drug store near me")] if pair else [])]
