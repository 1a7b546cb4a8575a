"""Files in, a knowledge folder out: graphs, lists of names and candidates, from all formats that are read.

`skipped` counts the rows that cannot be read; `progress` is called with what is read now and how many rows of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Literal

from infuser import assets
from infuser.errors import InputError
from infuser.knowledge.artifact import check_place
from infuser.knowledge.candidates.files import graph_mentions, name_mentions, read_mention_counts, read_tagged
from infuser.knowledge.candidates.knowbert_ernie import read_ernie, read_knowbert, read_knowbert_wordnet
from infuser.knowledge.candidates.store import KIND as CANDIDATES
from infuser.knowledge.candidates.store import CandidateStore, build_candidates
from infuser.knowledge.facts import ENTITIES, Facts
from infuser.knowledge.graph.build import build_graph
from infuser.knowledge.graph.store import KIND as GRAPH
from infuser.knowledge.graph.store import GraphStore, save_graph
from infuser.knowledge.names.store import KIND as GAZETTEER
from infuser.knowledge.names.store import Name, NameStore
from infuser.knowledge.readers import read_facts, read_ready
from infuser.knowledge.readers.wikidata_small import read_wikidata_small_mentions
from infuser.progress import Report, no_progress
from infuser.tables.rows import read_rows
from infuser.tables.skipped import Skipped

Paths = Sequence[str | Path]

_LIST_FORM = "a line is name (, label (, id))"


def build_graph_from_files(
    out: str | Path,
    files: Paths = (),
    *,
    entities: Paths = (),
    ready: Sequence[str] = (),
    format: str | None = None,
    order: str | None = None,
    label_before: str = "",
    fold_case: bool = True,
    fold_accents: bool = False,
    n_landmarks: int = 32,
    skipped: Skipped | None = None,
    progress: Report | None = None,
) -> GraphStore:
    """Build a graph from ready-made knowledge, tables of entities and files of triples, write it and return it."""
    if not (files or entities or ready):
        raise InputError("Name at least one file of triples or entities, or --asset NAME.")
    check_place(out, GRAPH)
    skipped, report = skipped or Skipped(), progress or no_progress

    def fetching(what: str, done: int, total: int) -> None:
        report(what, done, total or None)

    facts = chain(
        (batch for name in ready for batch in read_ready(name, skipped, progress=fetching)),
        _facts(entities, skipped, kind="entities", label_before=label_before),
        _facts(files, skipped, format=format, **({} if order is None else {"order": order})),
    )
    store = build_graph(
        facts, fold_case=fold_case, fold_accents=fold_accents, n_landmarks=n_landmarks, progress=progress
    )
    if not store.n_entities:
        raise _nothing_in([*files, *entities, *ready], "entity", "infuser graph build")
    if files and not store.n_edges:
        named = ", ".join(map(str, files[:3]))
        raise InputError(
            f"There is no triple in {named}: the graph would have no edges. A triple has three columns, head, relation "
            "and tail; a table of two is read as entities with their names. Give entities as --entities FILE, or make "
            "a list of names of them: infuser gazetteer build."
        )
    report("writing", 0, None)
    save_graph(store, out)
    return store


def build_names_from_files(
    out: str | Path,
    files: Paths = (),
    *,
    entities: Paths = (),
    ready: Sequence[str] = (),
    fold_case: bool = True,
    fold_accents: bool = False,
    skipped: Skipped | None = None,
    progress: Report | None = None,
) -> NameStore:
    """Build a gazetteer from lists of names, tables of entities and ready-made knowledge, write it and return it."""
    if not (files or entities or ready):
        raise InputError("Name at least one FILE, --entities FILE or --asset NAME to take names from.")
    check_place(out, GAZETTEER)
    skipped = skipped or Skipped()
    facts = chain(
        (batch for path in entities for batch in read_facts(path, skipped)),
        (batch for name in ready for batch in read_ready(name, skipped)),
    )
    found: list[Name] = []
    for name in chain((name for path in files for name in _listed_names(Path(path), skipped)), _entity_names(facts)):
        found.append(name)
        if progress is not None:
            progress("reading names", len(found), None)
    if not found:
        raise _nothing_in([*files, *entities, *ready], "name", "infuser gazetteer build")
    written, labels, ids = zip(*found, strict=True)
    store = NameStore.build(written, labels, ids, fold_case=fold_case, fold_accents=fold_accents)
    store.save(out)
    return store


def build_candidates_from_files(
    out: str | Path,
    *,
    counts: Paths = (),
    names: Paths = (),
    graphs: Paths = (),
    tagged: Paths = (),
    knowbert: Paths = (),
    knowbert_entity: Literal["name", "id"] = "name",
    knowbert_wordnet: Paths = (),
    ernie: tuple[str | Path, str | Path] | None = None,
    ready: Sequence[str] = (),
    alias_weight: float = 0.5,
    skipped: Skipped | None = None,
    progress: Report | None = None,
) -> CandidateStore:
    """Build candidates from all these inputs, whose counts are summed, write them and return them.

    `progress` is called with the name of an input and the number of its rows so far.
    """
    check_place(out, CANDIDATES)
    skipped = skipped or Skipped()
    inputs: list[tuple[object, Facts]] = [(path, read_mention_counts(path, skipped)) for path in counts]
    tables = [(path, read_facts(path, skipped, kind="entities")) for path in names]
    inputs += [(path, name_mentions(table, alias_weight=alias_weight)) for path, table in tables]
    inputs += [(path, graph_mentions(path, alias_weight=alias_weight)) for path in graphs]
    inputs += [(path, read_tagged(path, skipped)) for path in tagged]
    inputs += [(path, read_knowbert(path, skipped, entity=knowbert_entity)) for path in knowbert]
    inputs += [(path, read_knowbert_wordnet(path, skipped)) for path in knowbert_wordnet]
    inputs += [] if ernie is None else [(ernie[1], read_ernie(*ernie, skipped))]
    inputs += [(name, _ready_mentions(name, skipped, alias_weight)) for name in ready]
    if not inputs:
        raise InputError("Name at least one input: --counts FILE, --names FILE, --tagged FILE, --asset NAME ...")
    store = build_candidates(_reported(inputs, progress or no_progress))
    if not len(store):
        raise _nothing_in([name for name, _ in inputs], "mention", "infuser candidates build")
    store.save(out)
    return store


def _facts(paths: Paths, skipped: Skipped, **settings: str | None) -> Facts:
    for path in paths:
        yield from read_facts(path, skipped, **settings)


def _entity_names(facts: Facts) -> Iterator[Name]:
    """Yield label and aliases of every entity."""
    for batch in facts:
        if batch.schema.names != ENTITIES.names:  # triples and further ids name nothing
            continue
        for row in batch.to_pylist():
            kind = (row["types"] or ["entity"])[0]
            for name in dict.fromkeys([row["label"], *(row["aliases"] or ())]):
                if name and name.strip():
                    yield Name(name.strip(), kind, row["id"])


def _listed_names(path: Path, skipped: Skipped) -> Iterator[Name]:
    """Yield the names of a list file."""
    for place, cells in read_rows(path, skipped):
        row = [cell.strip() if isinstance(cell, str) else cell for cell in cells]
        why = "" if 1 <= len(row) <= 3 and all(isinstance(cell, str) for cell in row) and row[0] else _LIST_FORM
        if why or any("\0" in cell for cell in row):
            skipped.add(path, place.number, why or "holds a null character", cells, unit=place.unit)
            continue
        if row[0].lower() == "name" and row[1:] in ([], ["label"], ["label", "id"]):
            continue  # the heading
        name, label, id = (*row, "", "")[:3]
        yield Name(name, label or "entity", id or name)


def _ready_mentions(name: str, skipped: Skipped, alias_weight: float) -> Facts:
    """Yield the mentions of ready-made knowledge: its link counts where it has some, else its names."""
    if name == "wikidata-small":
        return read_wikidata_small_mentions(assets.fetch(name))
    return name_mentions(read_ready(name, skipped), alias_weight=alias_weight)


def _reported(inputs: Iterable[tuple[object, Facts]], report: Report) -> Facts:
    for name, batches in inputs:
        n_rows = 0
        report(str(name), n_rows, None)
        for batch in batches:
            n_rows += len(batch)
            report(str(name), n_rows, None)
            yield batch


def _nothing_in(names: Iterable[object], what: str, command: str) -> InputError:
    return InputError(
        f"There is not one {what} in {', '.join(map(str, names))}; nothing was written. Check that these are the right "
        f"files; `{command} --help` says what they hold."
    )
