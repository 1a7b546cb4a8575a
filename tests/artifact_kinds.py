"""All that Infuser writes, tiny, in two versions: what tests and the audit break, and then read with every answer.

`write` puts version 0 or 1 of an artifact into a folder, over what is there; `read` returns all that it answers, in
values that can be compared. What they need (graphs, models, corpora) is made once, before anything is counted.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from knowledge.small_graphs import hub_graph
from miniatures import TEXTS, tiny_host, tiny_tokenizer
from relations.small_relations import small_data, small_encoder
from test_assets import FILES, build_wheel, describe
from training.training_child import tiny_classifier

import infuser
from infuser import Candidates, Entities, EntityVectors, Kam, assets
from infuser.errors import AssetError, InputError
from infuser.experiments.cell import Cell
from infuser.experiments.run_folder import Results, RunFolder
from infuser.files import write_whole
from infuser.knowledge.candidates.store import CandidateStore, MentionFinder, build_candidates, mentions_of
from infuser.knowledge.correlation.store import CorrelationStore
from infuser.knowledge.counting.build import build_correlation
from infuser.knowledge.graph.build import build_graph
from infuser.knowledge.graph.store import GraphStore, save_graph
from infuser.knowledge.graph.store import describe as describe_graph
from infuser.knowledge.names.store import NameStore
from infuser.relations.model import AttentionRelations
from infuser.seals import SEAL
from infuser.sources.annotating import annotate
from infuser.sources.annotating.cache import annotate_cached
from infuser.sources.annotating.reading import read_annotations
from infuser.training.checkpoints import CheckpointStore, load_checkpoint, newest_checkpoint

SENTENCES = [[*TEXTS, "the river of the city"], [*TEXTS[:2], "the town has a bank", "Bern has a bridge", "Bern"]]
NAMES = [{"Bern": "city", "Aare": "river", "glipizide": "drug"}, {"Basel": "city", "bridge": "thing"}]


@dataclass(frozen=True)
class Kind:
    """One kind of artifact."""

    write: Callable[[Path, int], object]
    read: Callable[[Path], Any]
    stays: bool = True
    """The old one stays until the new one is complete; otherwise there is none until then."""
    resumes: bool = False
    """A run that was stopped leaves what it has finished for the next one."""
    parts_alone: bool = False
    """Each of its files or folders is an artifact of its own."""
    slow: bool = False


# knowledge -----------------------------------------------------------------------------------------------------------


@cache
def _graph(version: int) -> GraphStore:
    return build_graph(hub_graph(40, seed=version), n_landmarks=4)


def _write_graph(folder: Path, version: int) -> None:
    save_graph(_graph(version), folder / "graph")


def _read_graph(folder: Path) -> Any:
    store = GraphStore.open(folder / "graph")
    numbers = range(store.n_entities)
    return [
        describe_graph(store),
        [repr(store.entity(number)) + repr(store.edges_of(number)) for number in numbers],
        [store.number_of(store.id_of(number)) for number in numbers],
        store.names.find([" ".join(f"name {n}" for n in range(40))]),
        store.distances(list(numbers), 3).tolist(),
        store.counts(list(numbers)).tolist(),
        [repr(store.ties([0, number, 5], 3, 0.5)) for number in numbers],
    ]


def _write_names(folder: Path, version: int) -> None:
    names = [f"name {number} of {version}" for number in range(30)]
    labels, ids = [f"kind {n % 3}" for n in range(30)], [f"Q{n}" for n in range(30)]
    NameStore.build(names, labels, ids).save(folder / "names")


def _read_names(folder: Path) -> Any:
    source = Entities(names=folder / "names")
    text = " and ".join(f"name {number} of {version}" for number in range(30) for version in range(2))
    return [source.span_types, [repr(found) for found in source.annotate([text, *TEXTS])]]


@cache
def _candidates(version: int) -> CandidateStore:
    known = {f"mention {n} {version}": {f"Q{n}": n + 1, f"Q{n + 1}": 2, "Q0": 1} for n in range(20)}
    return build_candidates(mentions_of(known))


def _read_candidates(folder: Path) -> Any:
    store = CandidateStore.open(folder / "candidates")
    text = ", ".join(f"mention {n} {version}" for n in range(20) for version in range(2))
    found = MentionFinder(store, Candidates(folder / "candidates")).find([text])
    return [[batch.to_pydict() for batch in store.rows()], store.totals().tolist(), repr(found)]


def _write_vectors(folder: Path, version: int) -> None:
    numbers = torch.randn(20, 6, generator=torch.Generator().manual_seed(version)).numpy()
    EntityVectors.of([f"Q{n}" for n in range(20)], numbers).save(folder / "vectors")


def _read_vectors(folder: Path) -> Any:
    vectors = EntityVectors.open(folder / "vectors")
    rows = range(len(vectors))
    ids = [vectors.id_of(row) for row in rows]
    return [vectors.about, ids, vectors.rows(ids).tolist(), vectors.take(list(rows)).tolist(), vectors.nearest(3, 5)]


def _write_correlation(folder: Path, version: int) -> None:
    corpus = folder.parent / f"corpus-{version}.txt"  # beside it: it is no part of what is written
    if not corpus.exists():
        corpus.write_text("\n".join(SENTENCES[version] * 3))
    build_correlation([corpus], folder / "correlation", workers=0)


def _read_correlation(folder: Path) -> Any:
    store = CorrelationStore.open(folder / "correlation")
    words = [store.table.word(number) for number in range(store.n_words)]
    return [
        {name: value for name, value in store.about.items() if name != "corpus"},
        [(word, store.count(word), repr(store.neighbours(word))) for word in words],
        [repr(store.pair(first, second)) for first in words[:8] for second in words],
        repr(store.correlate([[words]], 3)),
        repr([part.tolist() for part in (store.points().together, store.points().scores)]),
    ]


# annotations ---------------------------------------------------------------------------------------------------------


def _write_annotations(folder: Path, version: int) -> None:
    """Version 1 replaces version 0 as a person would: with --restart."""
    annotate(SENTENCES[version], [Entities(NAMES[version])], folder / "annotated", restart=version > 0)


def _read_annotations(folder: Path) -> Any:
    found = read_annotations(folder / "annotated")
    return [found.about, [repr(dict(example)) for example in found], dict(found.frequencies())]


def _write_cache(folder: Path, version: int) -> None:
    annotate_cached([Entities(NAMES[0])], SENTENCES[version], folder / "cache", progress=False)


def _read_cache(folder: Path) -> Any:
    """Whatever lies there, answers are right: what is damaged is annotated again, here in a copy."""
    with tempfile.TemporaryDirectory() as copy:
        if (folder / "cache").exists():
            shutil.copytree(folder / "cache", copy, dirs_exist_ok=True)
        return repr(annotate_cached([Entities(NAMES[0])], [*SENTENCES[0], *SENTENCES[1]], copy, progress=False))


# models --------------------------------------------------------------------------------------------------------------


@cache
def _infused(version: int) -> infuser.Infused:
    model = tiny_host("bert", "sequence-classification", seed=version).float()
    made = infuser.infuse(model, Kam(), sources=[Entities(NAMES[version])], tokenizer=tiny_tokenizer("bert"))
    with torch.no_grad():
        for weight in made.model.parameters():
            weight.add_(0.01 * (version + 1))
    return made


def _read_model(folder: Path) -> Any:
    infused = infuser.load(folder / "model")
    with torch.no_grad():
        logits = infused.model(**infused.batch([*TEXTS])).logits
    return [logits.tolist(), repr(infused.sources), repr(infused.method), infused.tokenizer.tokenize(" ".join(TEXTS))]


@cache
def _relations(version: int) -> AttentionRelations:
    return AttentionRelations(_encoder(), negatives=1 + version, seed=version).fit(small_data()[0][::6])


@cache
def _encoder() -> Any:
    return small_encoder()


def _read_relations(folder: Path) -> Any:
    model = AttentionRelations.load(folder / "relations", encoder=_encoder())
    texts = small_data()[2][:6]
    return [model.get_params()["negatives"], model.predict_proba(texts).tolist(), model.predict(texts).tolist()]


@cache
def _store(version: int) -> tuple[Any, ...]:
    torch.manual_seed(version)
    model = tiny_classifier()
    optimizer = torch.optim.AdamW(model.parameters())
    for weight in model.parameters():
        weight.grad = torch.randn_like(weight)
    optimizer.step()
    return Accelerator(cpu=True), model, optimizer


_MADE_WITH = {"epochs": 2}


def _write_checkpoint(folder: Path, version: int) -> None:
    store = CheckpointStore(folder, *_store(version), _MADE_WITH)
    torch.manual_seed(version)
    store.save(version + 1, {"steps": version + 1}, None)


def _read_checkpoint(folder: Path) -> Any:
    found = load_checkpoint(newest_checkpoint(folder) or folder / "checkpoint", _MADE_WITH)
    tensors = {name: {key: one.tolist() for key, one in group.items()} for name, group in found.tensors.items()}
    del tensors["random"]["python"], tensors["random"]["python_gauss"]  # whatever ran before
    del tensors["random"]["numpy"], tensors["random"]["numpy_gauss"]
    return [tensors, found.facts["run"]]


# experiments ---------------------------------------------------------------------------------------------------------

CELLS = [Cell("minilm", "kam", "ads", seed, made_with={"seed": seed}) for seed in range(2)]


def _write_cell(folder: Path, version: int) -> None:
    """Write a cell beside another one, which stays as it is."""
    results = Results(folder)
    results.write(CELLS[0], {"scores": {"auc": 0.5 + version / 4}, "predictions": [version, 0, 1] * 9})
    if results.read(CELLS[1]) is None:
        results.write(CELLS[1], {"scores": {"auc": 0.625}, "predictions": [1, 1, 0] * 9})


def _read_cell(folder: Path) -> Any:
    found = [Results(folder).read(cell) for cell in CELLS]
    if None in found:
        raise InputError("A cell is not finished: it is computed again.")
    return found


def _write_run(folder: Path, version: int) -> None:
    run = RunFolder(folder / "run")
    with run.begun({"seed": version}, restart=version > 0):
        _infused(version).save(run.model)
        run.finish({"best": version})


def _read_run(folder: Path) -> Any:
    run = RunFolder(folder / "run")
    if not run.is_finished():
        raise InputError("not finished")
    return [run.read(), _read_model(folder / "run")]


# a plain file, without a digest
def _write_report(folder: Path, version: int) -> None:
    write_whole(folder / "report.html", f"<html>{version}" * 2000)


def _read_report(folder: Path) -> Any:
    return (folder / "report.html").read_text()


@cache
def _wheel(folder: Path, version: int) -> Path:
    files = {**FILES, "tiny_data/model/config.json": json.dumps({"layers": version}).encode()}
    return build_wheel(folder, files, version=f"1.{version}")


def _write_asset(folder: Path, version: int) -> None:
    with _tiny_asset(folder, version):
        assets.add("tiny", _wheel(folder.parent / "wheels", version), cache=folder)


def _read_asset(folder: Path) -> Any:
    found: list[Mapping[str, bytes]] = []
    for version in range(2):
        with _tiny_asset(folder, version):
            if assets.path_of("tiny", cache=folder).exists():
                place = assets.verify("tiny", cache=folder)
                found.append({path.name: path.read_bytes() for path in place.rglob("*.*") if path.name != SEAL})
    if not found:
        raise AssetError("not there")
    return found


class _tiny_asset:
    """The asset "tiny" of a version, while the block runs."""

    def __init__(self, folder: Path, version: int) -> None:
        wheel = _wheel(folder.parent / "wheels", version)
        self._asset = replace(describe(wheel), version=f"1.{version}")

    def __enter__(self) -> None:
        assets.ASSETS["tiny"] = self._asset

    def __exit__(self, *error: object) -> None:
        del assets.ASSETS["tiny"]


KINDS: dict[str, Kind] = {
    "graph": Kind(_write_graph, _read_graph, slow=True),
    "gazetteer": Kind(_write_names, _read_names),
    "correlation": Kind(_write_correlation, _read_correlation, resumes=True, slow=True),
    "candidates": Kind(lambda folder, version: _candidates(version).save(folder / "candidates"), _read_candidates),
    "vectors": Kind(_write_vectors, _read_vectors),
    "annotations": Kind(_write_annotations, _read_annotations, stays=False, resumes=True),
    "saved model": Kind(lambda folder, version: _infused(version).save(folder / "model"), _read_model, slow=True),
    "relation model": Kind(lambda folder, version: _relations(version).save(folder / "relations"), _read_relations),
    "training checkpoint": Kind(_write_checkpoint, _read_checkpoint),
    "bench cell": Kind(_write_cell, _read_cell, parts_alone=True),
    "asset cache": Kind(_write_asset, _read_asset),
    "annotation cache": Kind(_write_cache, _read_cache, parts_alone=True),
    "run folder": Kind(_write_run, _read_run, stays=False, resumes=True, parts_alone=True, slow=True),
    "report": Kind(_write_report, _read_report, parts_alone=True),
}
