"""Views by name: the embedded example, a run, a saved model, a relation model, or any checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from infuser.errors import InfuserError, InputError
from infuser.experiments.run_folder import RunFolder, find_model
from infuser.files import parse_json
from infuser.hosts.checkpoints import Progress, is_infused
from infuser.hosts.loading import to_fastest_device
from infuser.opening import open_infused, open_plain
from infuser.relations.encoders import Encoder
from infuser.relations.model import AttentionRelations
from infuser.relations.saving import find_sources, is_fitted
from infuser.tables.examples import Columns, make_example, read_examples
from infuser.tasks.ner_readers import dataset_entities, read_entities
from infuser.tasks.official import dataset_records
from infuser.types import Source
from infuser.viewer.default import open_default
from infuser.viewer.views import InfusedView, RelationsView, SampleText

_N_EXAMPLES, _MOST_CHARACTERS, _MOST_READ = 8, 400, 500
"""So many texts of a run's own data are offered, none that is longer, of the first so many."""
_FRESH = "Freshly infused: knowledge changes nothing before the model is trained with it, see infuser train --help."
_PLAIN = "This encoder holds no knowledge: name some, such as --graph FILE, or give a model that infuser train wrote."
_SINGLE = (
    SampleText("Bern is the capital of Switzerland and lies on the Aare."),
    SampleText("Marie Curie was born in Warsaw."),
)
_PAIR = SampleText("buy glipizide online", "drug store near me")


def open_view(
    name: str | None = None,
    sources: Sequence[Source] = (),
    *,
    encoder: str | None = None,
    progress: Progress | None = None,
) -> InfusedView | RelationsView:
    """Return a view of a run, model, checkpoint or folder of fitted relations (None: the embedded example).

    Given sources replace saved ones; `encoder` says where the encoder of fitted relations lies now.
    """
    if name is None:
        if sources or encoder is not None:
            raise InputError("Name the checkpoint that is infused with this knowledge: infuser view minilm --graph ...")
        return open_default(progress)
    folder = Path(name)
    if is_fitted(folder):
        return _open_relations(folder, sources, encoder)
    if encoder is not None:
        raise InputError(f"--encoder says where the encoder of a relation model lies; {name!r} holds none.")
    model = find_model(name)
    examples = _examples_of_run(folder) or [*_SINGLE, _PAIR]
    if sources or is_infused(model):
        note = "" if is_infused(model) else _FRESH
        return InfusedView(open_infused(model, sources, progress=progress), _title(name), note, examples)
    return InfusedView(Encoder(*open_plain(model, progress=progress)), _title(name), _PLAIN, examples)


def _open_relations(folder: Path, sources: Sequence[Source], encoder: str | None) -> RelationsView:
    model = AttentionRelations.load(folder, encoder=encoder)
    to_fastest_device(model.opened().model)
    known = sorted(label or relation for relation, label in model.labels_.items())
    note = f"Relations that it knows: {', '.join(known[:6])}" + (" and others." if len(known) > 6 else ".")
    return RelationsView(model, find_sources(folder, sources), _title(str(folder)), note, _SINGLE)


def _title(name: str) -> str:
    path = Path(name).resolve()
    if not path.exists():
        return name
    return path.parent.name if path.name == "model" else path.name


def _examples_of_run(folder: Path) -> list[SampleText]:
    """Return short texts that a run was trained or judged on; none if they are gone."""
    run = RunFolder(folder.parent if folder.name == "model" else folder)
    try:
        if not run.record.exists():
            report = parse_json(run.folder / "report.json", "it")
            return _short_texts(report["explanations"])
        record = run.read()
        files, made_with = record["files"], record["made_with"]
        part, columns = files["dev"] or files["data"], Columns(**made_with["columns"])
        tags_words = made_with.get("task") == "ner"
        if "dataset" in part and tags_words:
            rows = dataset_entities(part["dataset"], part["split"])
        elif "dataset" in part:
            records = dataset_records(part["dataset"], part["split"])
            rows = ((place, make_example(place, cells, columns)) for place, cells in records)
        else:
            path = Path(part["path"])
            rows = read_entities(path) if tags_words else read_examples(path, columns)
        return _short_texts(example for _, example in rows)
    except (InfuserError, OSError, ValueError, KeyError, TypeError):
        return []  # data have moved: the page starts with texts of ours


def _short_texts(examples: Iterable[Mapping[str, Any]]) -> list[SampleText]:
    texts = (SampleText(example["text"], example.get("pair")) for example in islice(examples, _MOST_READ))
    short = (one for one in texts if len(one.text) + len(one.pair or "") <= _MOST_CHARACTERS)
    return list(islice(short, _N_EXAMPLES))
