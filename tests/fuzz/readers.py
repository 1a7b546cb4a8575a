"""The readers of files from elsewhere, each with a small valid file to damage."""

from __future__ import annotations

import gzip
import io
import json
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import safetensors.numpy
from experiments.small_bench import SETTINGS
from starlette.exceptions import HTTPException

from infuser.errors import InputError
from infuser.experiments.grid import read_settings
from infuser.experiments.settings import read_bench
from infuser.files import json_of
from infuser.knowledge.candidates.files import read_mention_counts, read_tagged
from infuser.knowledge.candidates.knowbert_ernie import read_ernie, read_knowbert, read_knowbert_wordnet
from infuser.knowledge.entity_scores import open_scores
from infuser.knowledge.graph.build import build_graph
from infuser.knowledge.graph.store import GraphStore, describe, save_graph
from infuser.knowledge.readers import read_facts
from infuser.knowledge.readers.wordnet import read_synsets
from infuser.knowledge.vectors.files import read_vectors
from infuser.linking.readers import read_links
from infuser.relations.readers import read_relations
from infuser.seals import SEAL, check_seal, has_sealed_sizes, seal
from infuser.serving.limits import ServingLimits
from infuser.serving.model import EXPLAIN
from infuser.serving.requests import read_questions, read_wanted
from infuser.sources.lists import read_list
from infuser.stats.comparison import ArmStatistics
from infuser.tables.brat import read_brat
from infuser.tables.conll import read_sentences
from infuser.tables.examples import Columns, read_examples
from infuser.tables.pubtator import read_pubtator
from infuser.tables.skipped import Skipped
from infuser.tasks.ner_readers import read_entities
from infuser.viewer.request import request_of
from infuser.web.bodies import read_body
from infuser.work_folder import WorkFolder

DATA = Path(__file__).parent.parent / "data"
TRIPLES = "Q70\tcapital of\tQ39\nQ72\tin\tQ39\nQ70\tin\tQ39\n"
_TEXT = "Bern lies on the Aare."
_TABLE = 'text,pair,label\n"Bern, a city",x,yes\nAare,"a ""river""\nof Bern",no\n'
_RDF = "http://www.w3.org/2000/01/rdf-schema#label"


@dataclass(frozen=True)
class Reader:
    """Something that reads a file."""

    file: str
    """What the file is called."""
    sample: bytes
    """A file that can be read."""
    read: Callable[[Path], Any]
    beside: Callable[[Path], object] | None = None
    """Writes what else must be there."""
    names_file: bool = True
    """Whether errors name the file, or what holds it; the body of a request has no name."""


def _all(read: Callable[..., Iterable[Any]], *more: Any, **settings: Any) -> Callable[[Path], Any]:
    return lambda path: list(read(path, *more, **settings))


def _facts(path: Path) -> Any:
    return list(read_facts(path, Skipped()))


def _examples(path: Path) -> Any:
    return list(read_examples(path, Columns()))


def _parquet(*rows: dict[str, Any]) -> bytes:
    sink = io.BytesIO()
    pa.parquet.write_table(pa.Table.from_pylist(rows), sink)
    return sink.getvalue()


def _tensors() -> bytes:
    ids = json.dumps(["Q70", "Q72"])
    return safetensors.numpy.save({"vectors": np.eye(2, 3, dtype=np.float32)}, {"ids": ids})


def _of_folder(read: Callable[[Path], Any]) -> Callable[[Path], Any]:
    return lambda path: read(path.parent)


@cache
def _graph() -> tuple[dict[str, bytes], bytes]:
    """Return the files of a small graph, and its about.json."""
    with tempfile.TemporaryDirectory() as place:
        table = Path(place) / "t.tsv"
        table.write_text(TRIPLES)
        folder = save_graph(build_graph(read_facts(table, Skipped())), Path(place) / "graph")
        files = {path.name: path.read_bytes() for path in folder.iterdir()}
    return files, files["about.json"]


def _write_graph(folder: Path) -> None:
    for name, content in _graph()[0].items():
        (folder / name).write_bytes(content)


def _open_graph(folder: Path) -> Any:
    store = GraphStore.open(folder)
    return describe(store), store.entity(0)


def _seal() -> bytes:
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "weights").write_bytes(b"1234")
        seal(Path(place))
        return (Path(place) / SEAL).read_bytes()


def _check_seal(folder: Path) -> None:
    has_sealed_sizes(folder)
    check_seal(folder, "Save it again.")


def _bench() -> bytes:
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "bench.toml"
        path.write_text(SETTINGS)
        return json_of(read_bench(path).to_json()).encode()


def _beside(name: str, content: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text(content)


def _brat(folder: Path) -> Any:
    return list(read_brat(folder))


def _serving_questions(path: Path) -> Any:
    """Return what is asked; what is too large is refused with a status of its own, which is one of our errors here."""
    try:
        return read_questions(read_body(path.read_bytes()), EXPLAIN, ServingLimits())
    except HTTPException as error:
        raise InputError(error.detail) from error


def _docbin(path: Path) -> Any:
    """Read a DocBin whose content was damaged before it was packed: zlib notices all other damage."""
    path.write_bytes(zlib.compress(path.read_bytes()))
    return list(read_entities(path))


_AIDA = "-DOCSTART- (1 EU)\nBern\tB\tBern\tBern\thttp://x.org/wiki/Bern\t1\t/m/1\nlies\n\nAare\tB\tAare\t--NME--\n"
_LINKED = '{"text": "Bern lies", "spans": [{"start": 0, "end": 4, "id": "Q70"}]}\n'
_PUBTATOR = (
    "1|t|Aspirin helps.\n1|a|It does.\n1\t0\t7\tAspirin\tChemical\tD001241\n1\tCID\tD001241\tD003643\n\n2|t|No.\n2|a|\n"
)
_BRAT = "Breast and ovarian cancer.\nAspirin helps."
_ANN = "T1\tDisease 0 6;19 25\tBreast cancer\nT3\tDrug 27 34\tAspirin\nR1\tHelps Arg1:T3 Arg2:T1\n"
_NT = f'<http://x/Q70> <http://x/in> <http://x/Q39> .\n<http://x/Q70> <{_RDF}> "Bern"@en .\n_:b <http://x/p> "1" .\n'
_TTL = f'@prefix x: <http://x/> .\nx:Q70 x:in x:Q39 , x:Q72 ; <{_RDF}> "Bern"@en .\n'
_CONCEPTNET = '/a/x\t/r/IsA\t/c/en/bern/n\t/c/en/city\t{"weight": 1.0}\n/a/y\t/r/In\t/c/en/bern\t/c/de/ort\t{}\n'
_OBJECT = '{"head": "Q70", "relation": "in", "tail": "Q39", "weight": 0.5}\n'
_ENTITY = '{"id": "Q70", "label": "Bern", "aliases": ["Berne"], "types": ["city"], "count": 3}\n'
_SCORE = {"key": "Q70", "score": 0.5, "n_mentions": 3, "how": "masked-probability"}
_SCORES = {"kind": "infuser scores", "version": 1, "about": {}, "scores": [_SCORE]}
_ARM = {"name": "kam", "per_seed": [0.5, 0.6], "mean": 0.5, "interval": [0.5, 0.6], "extra_weights": 3, "seconds": 1}
_COMPARISON = {
    "metric": "accuracy",
    "arms": [_ARM],
    "differences": [],
    "n_examples": 9,
    "n_groups": None,
    "rounds": 100,
}
_QUESTIONS = {"texts": [_TEXT, "Aare"], "pairs": ["Bern, a city", None], "off": ["graph"]}
_QUESTION = {"text": _TEXT, "pair": "Aare", "off": []}
_WANTED = {"graph": "/data/kg", "base": {"candidates": "/data/candidates", "vectors": "/data/vectors"}}
_REQUEST = {"text": _TEXT, "pair": None, "off": ["graph"], "layer": -1, "head": 0}

READERS: dict[str, Reader] = {
    "csv": Reader("table.csv", _TABLE.encode(), _examples),
    "tsv": Reader("table.tsv", b'text\tpair\tlabel\nBern, a city\tx\tyes\nAare\t"river"\tno\n', _examples),
    "jsonl": Reader(
        "table.jsonl", b'{"text": "Bern", "label": 1}\n{"text": "x", "pair": "y", "label": 0}\n', _examples
    ),
    "json": Reader("table.json", b'[{"text": "Bern", "label": 1}, {"text": "x", "label": 2}]', _examples),
    "parquet": Reader("table.parquet", _parquet({"text": _TEXT, "label": 1}, {"text": "x", "label": 0}), _examples),
    "gz": Reader("table.csv.gz", gzip.compress(_TABLE.encode(), mtime=0), _examples),
    "triples": Reader("triples.tsv", TRIPLES.encode(), _facts),
    "triples-csv": Reader("triples.csv", b'head,relation,tail,weight\nQ70,in,Q39,0.5\nQ1,"a,b",Q2,1\n', _facts),
    "triples-jsonl": Reader("triples.jsonl", 2 * _OBJECT.encode(), _facts),
    "entities-jsonl": Reader("entities.jsonl", 2 * _ENTITY.encode(), _facts),
    "entities-json": Reader("names.json", b'{"Q70": ["Bern", "Berne"], "Q72": "Aare"}', _facts),
    "triples-parquet": Reader("triples.parquet", _parquet({"head": "Q70", "relation": "in", "tail": "Q39"}), _facts),
    "rdf-nt": Reader("graph.nt", _NT.encode(), _facts),
    "rdf-turtle": Reader("graph.ttl", _TTL.encode(), _facts),
    "conceptnet": Reader("conceptnet-assertions-5.7.0.csv", _CONCEPTNET.encode(), _facts),
    "wordnet": Reader(
        "data.noun",
        (DATA / "wordnet" / "data.noun").read_bytes()[:6000].rpartition(b"\n")[0] + b"\n",
        _of_folder(partial(read_synsets, pos="n")),
    ),
    "candidates": Reader(
        "counts.tsv", b"mention\tentity\tcount\nBern\tQ70\t4\nAare\tQ72\t1\n", _all(read_mention_counts)
    ),
    "candidates-jsonl": Reader(
        "counts.jsonl", b'{"mention": "Bern", "entity": "Q70", "count": 4}\n', _all(read_mention_counts)
    ),
    "tagged": Reader("tagged.jsonl", _LINKED.encode(), _all(read_tagged)),
    "knowbert-priors": Reader("priors.txt", b"Bern\t4\t7,0.5,Q3\t8,0.5,Q4\n", _all(read_knowbert)),
    "knowbert-wordnet": Reader(
        "wn.jsonl", b'{"type": "lemma", "id": "Bern%1", "synset": "Q4", "count": 1}\n', _all(read_knowbert_wordnet)
    ),
    "ernie": Reader(
        "entity2id.txt",
        b"1\nQ5\t0\n",
        lambda path: list(read_ernie(path, path.with_name("map.txt"))),
        _beside("map.txt", "Bern\tQ5\n"),
    ),
    "vectors-glove": Reader("glove.txt", b"Bern 0.5 -1.0 2e-3\nAare 1 2 3\n", _all(read_vectors)),
    "vectors-word2vec": Reader("w2v.txt", b"2 3\nBern 0.5 -1.0 2e-3\nAare 1 2 3\n", _all(read_vectors)),
    "vectors-safetensors": Reader("vectors.safetensors", _tensors(), _all(read_vectors)),
    "graph-manifest": Reader("about.json", _graph()[1], _of_folder(_open_graph), _write_graph),
    "seal": Reader(SEAL, _seal(), _of_folder(_check_seal), _beside("weights", "1234")),
    "bench-toml": Reader("bench.toml", SETTINGS.encode(), read_bench),
    "bench-json": Reader("bench.json", _bench(), _of_folder(read_settings)),
    "pubtator": Reader("docs.pubtator", _PUBTATOR.encode(), _all(read_pubtator)),
    "brat": Reader("a.ann", _ANN.encode(), _of_folder(_brat), _beside("a.txt", _BRAT)),
    "conll": Reader("train.conll", (DATA / "ner" / "train.conll").read_bytes()[:2000], _all(read_sentences)),
    "ner-jsonl": Reader(
        "ner.jsonl", b'{"text": "Bern lies", "spans": [{"start": 0, "end": 4, "label": "city"}]}\n', _all(read_entities)
    ),
    "ner-spacy": Reader("docs.spacy", zlib.decompress((DATA / "ner" / "docs.spacy").read_bytes()), _docbin),
    "links": Reader("links.jsonl", _LINKED.encode(), read_links),
    "links-aida": Reader("links.tsv", _AIDA.encode(), partial(read_links, format="aida")),
    "links-pubtator": Reader("links.txt", _PUBTATOR.encode(), partial(read_links, format="pubtator")),
    **{
        f"relations-{format}": Reader(
            f"file{path.suffix}", path.read_bytes()[:20_000], partial(read_relations, format=format)
        )
        for format, path in (
            ("jsonl", DATA / "relations" / "own.jsonl"),
            ("trex", DATA / "relations" / "trex.csv"),
            ("docred", DATA / "relations" / "docred" / "dev.json"),
            ("fewrel", DATA / "relations" / "fewrel" / "train.json"),
            ("semeval", DATA / "relations" / "semeval.txt"),
        )
    },
    "list-entities": Reader("names.csv", b"Bern,city\nAare,river\n", lambda path: read_list("entities", path, {})),
    "scores": Reader("scores.json", json.dumps(_SCORES).encode(), open_scores),
    "comparison": Reader(
        "c.json",
        json.dumps(_COMPARISON).encode(),
        lambda path: ArmStatistics.from_json(path.read_text("utf-8", "replace")),
        names_file=False,
    ),
    "work-folder": Reader(
        "run.json",
        b'{"made_with": {"seed": 0}}',
        lambda path: WorkFolder(path.parent, record="run.json", parts=()).read(),
    ),
    "serving-questions": Reader("body", json.dumps(_QUESTIONS).encode(), _serving_questions, names_file=False),
    "serving-question": Reader("body", json.dumps(_QUESTION).encode(), _serving_questions, names_file=False),
    "serving-wanted": Reader(
        "body", json.dumps(_WANTED).encode(), lambda path: read_wanted(read_body(path.read_bytes())), names_file=False
    ),
    "request": Reader(
        "body", json.dumps(_REQUEST).encode(), lambda path: request_of(read_body(path.read_bytes())), names_file=False
    ),
}
"""By the name of the folder in tests/data/fuzz that holds what once broke them."""


def prepare(reader: Reader, folder: Path) -> Path:
    """Return where the reader's file belongs in an empty folder that holds what it needs."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if reader.beside is not None:
        reader.beside(folder)
    return folder / reader.file
