r"""Texts whose relations are known, read from files, as `RelationText`.

    jsonl     {"text": "...", "triples": [{"head": [23, 34], "tail": [0, 4], "relation": "P36"}]}: see `readers.own`
    trex      the CSV of "Attention Understands Semantic Relations": text,target,...: see `readers.trex`
    docred    DocRED's and Re-DocRED's list of documents with sents, vertexSet and labels: see `readers.docred`
    fewrel    {"P177": [{"tokens": [...], "h": [...], "t": [...]}]}: see `readers.fewrel`
    semeval   1 \t "The <e1>storm</e1> broke the <e2>window</e2>." and Cause-Effect(e1,e2): see `readers.semeval`

The files may be packed (.gz, .zst). Every place is in characters of the text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from infuser.errors import InputError
from infuser.relations.examples import RelationText, count_relations
from infuser.relations.readers.docred import read_docred
from infuser.relations.readers.fewrel import read_fewrel
from infuser.relations.readers.own import read_own, write_relations
from infuser.relations.readers.semeval import SENTENCE, read_semeval
from infuser.relations.readers.trex import read_trex
from infuser.sources.lists import read_aliases
from infuser.tables.blocks import open_stream
from infuser.tables.skipped import Skipped
from infuser.words import counted

__all__ = ["Format", "read_relation_files", "read_relations", "write_relations"]

Format = Literal["auto", "jsonl", "trex", "docred", "fewrel", "semeval"]

_READERS: dict[str, Callable[[str | Path, Skipped], Iterator[RelationText]]] = {
    "jsonl": read_own,
    "trex": read_trex,
    "docred": read_docred,
    "fewrel": read_fewrel,
    "semeval": read_semeval,
}
_LOOKED_AT = 1 << 16
"""So many bytes are enough to see how a file is written: its first record, or the beginning of it."""


def read_relation_files(
    paths: Iterable[Path],
    format: Format = "auto",
    *,
    skipped: Skipped,
    labels: Path | None = None,
    split_sentences: bool = False,
    left_out: Counter[str] | None = None,
) -> list[RelationText]:
    """Read the texts of several files, at least one of which states a relation; `labels` is a file of names."""
    paths = list(paths)
    names = None if labels is None else {id: of_id[0] for id, of_id in read_aliases([labels]).items()}
    how: dict[str, Any] = {"labels": names, "split_sentences": split_sentences, "left_out": left_out}
    texts = [text for path in paths for text in read_relations(path, format, skipped=skipped, **how)]
    if not count_relations(texts):
        raise InputError(
            f"None of the {counted(len(texts), 'text')} in {', '.join(map(str, paths))} states a relation. A line of "
            'such a file: {"text": "Bern is the capital of Switzerland.", "triples": [{"head": [23, 34], "tail": '
            '[0, 4], "relation": "P36"}]}'
        )
    return texts


def read_relations(
    path: str | Path,
    format: Format = "auto",
    *,
    skipped: Skipped | None = None,
    labels: Mapping[str, str] | None = None,
    split_sentences: bool = False,
    left_out: Counter[str] | None = None,
) -> list[RelationText]:
    """Read texts with their known triples; the format is seen from the first record unless it is given.

    What cannot be read is added to `skipped`. `labels` names relations, by id, in place of the file's
    own names. With `split_sentences` the documents of DocRED are cut into sentences, each with the facts whose two
    entities it mentions; `left_out` counts, by relation, the facts that no sentence holds.
    """
    skipped = Skipped() if skipped is None else skipped
    if format == "auto":
        format = _recognised(path)
    if format not in _READERS:
        raise InputError(f"No format of relations is called {format!r}. Known: auto, {', '.join(_READERS)}.")
    if split_sentences and format != "docred":
        raise InputError(f"Only documents of DocRED are cut into sentences; {path} is of the format {format!r}.")
    n_shown = len(skipped.first)
    if format == "docred":
        texts = list(read_docred(path, skipped, sentences=split_sentences, left_out=left_out))
    else:
        texts = list(_READERS[format](path, skipped))
    if not texts:
        why = f" The first that could not be read: {skipped.first[n_shown]}." if len(skipped.first) > n_shown else ""
        raise InputError(f"{path} holds no texts with relations of the format {format!r}.{why}")
    return [_named(text, labels) for text in texts] if labels else texts


def _named(text: RelationText, labels: Mapping[str, str]) -> RelationText:
    triples = (replace(triple, label=labels.get(triple.relation, triple.label)) for triple in text.triples)
    return replace(text, triples=tuple(triples))


def _recognised(path: str | Path) -> Format:
    with open_stream(path) as stream:
        seen = stream.read(_LOOKED_AT).decode("utf-8", "replace").removeprefix("\ufeff").lstrip()
    line = seen.split("\n", 1)[0].strip()
    if seen.startswith("[") and '"vertexSet"' in seen:
        return "docred"
    if re.match(r'\{\s*"[^"]*"\s*:\s*\[', seen) and '"tokens"' in seen:
        return "fewrel"
    if seen.startswith("{") and '"text"' in line:
        return "jsonl"
    if SENTENCE.match(line) and "<e1>" in line:
        return "semeval"
    if {"text", "target"} <= {cell.strip('" ') for cell in line.split(",")}:
        return "trex"
    raise InputError(
        f"Cannot tell how relations are written in {path}, which begins {line[:60]!r}. JSON lines have 'text' with "
        "'triples' (our own format), T-REx is CSV with the columns 'text' and 'target', DocRED a JSON list with "
        "'vertexSet', FewRel a JSON object of lists with 'tokens', SemEval a number, a tab and a sentence with <e1>. "
        "Or say which: format='jsonl'."
    )
