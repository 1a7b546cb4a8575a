r"""BRAT's standoff format: NAME.txt holds a text, NAME.ann beside it what is marked there.

    T1 \t Protein 0 5 \t Kinase             a mention: its type, its place in characters, its words
    T2 \t Protein 0 5;10 12 \t Kinase II    a mention with a gap has several places
    R1 \t Binds Arg1:T1 Arg2:T2             a relation of two mentions

Events (E), attributes (A, M), normalisations (N), notes (#), equivalences (*) and relations between events are counted,
not read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from infuser.errors import InputError
from infuser.tables.documents import MarkedDocument, MarkedSpan, StatedRelation, check_pieces
from infuser.tables.rows import filled_lines
from infuser.tables.skipped import BadRow, Place
from infuser.words import whole_number

_MENTION = re.compile(r"(T\S+)\t(\S+) (\d+ \d+(?:;\d+ \d+)*)\t(.*)")
_RELATION = re.compile(r"R\S+\t(\S+) \S+:(\S+) \S+:(\S+)\s*")
_NOT_READ = {"E": "events", "A": "attributes", "M": "attributes", "N": "normalisations", "#": "notes", "*": "equals"}
_ADVICE = "A mention is T1, tab, TYPE START END, tab, words; a relation R1, tab, TYPE Arg1:T1 Arg2:T2."


def read_brat(path: str | Path, left_out: Counter[str] | None = None) -> Iterator[MarkedDocument]:
    """Yield the documents of a folder, those in folders inside it too, or of one .ann file; `left_out` counts the rest.

    A line that cannot be read is an error. In a folder, each .ann file needs its .txt file; others are not read.
    """
    path, left_out = Path(path), Counter[str]() if left_out is None else left_out
    files = sorted(path.rglob("*.ann")) if path.is_dir() else [path]
    if not files:
        raise InputError(f"The folder {str(path)!r} holds no .ann file. Give one with pairs of NAME.txt and NAME.ann.")
    return (_read_pair(file, left_out) for file in files)


def _read_pair(file: Path, left_out: Counter[str]) -> MarkedDocument:
    text = _read_text(file.with_suffix(".txt"), file)
    spans: dict[str, MarkedSpan] = {}
    stated: list[tuple[Place, str, re.Match[str]]] = []
    for number, line in filled_lines(file):
        place = Place(file, number)
        if mention := _MENTION.fullmatch(line):
            if mention[1] in spans:
                raise BadRow(place, f"has the id {mention[1]!r} a second time", line, advice="Give each its own.")
            written = (tuple(map(whole_number, one.split())) for one in mention[3].split(";"))
            pieces = tuple((at[0], at[1]) for at in written)
            check_pieces(place, text, pieces, mention[4])
            spans[mention[1]] = MarkedSpan(place, pieces, mention[2], (mention[1],))
        elif relation := _RELATION.fullmatch(line):
            stated.append((place, line, relation))
        elif line[0] in _NOT_READ:
            left_out[_NOT_READ[line[0]]] += 1
        else:
            raise BadRow(place, f"has no annotation of BRAT but {line[:60]!r}", line, advice=_ADVICE)
    relations = []
    for place, line, relation in stated:  # a relation may stand above its mentions
        ends = relation[2], relation[3]
        if any(end.startswith("E") for end in ends):
            left_out["relations of events"] += 1
            continue
        for end in ends:
            if end not in spans:
                raise BadRow(place, f"has a relation of {end!r}, which no line marks", line, advice=_ADVICE)
        relations.append(StatedRelation(place, *ends, relation[1]))
    return MarkedDocument(Place(file, 1), file.stem, text, tuple(spans.values()), tuple(relations))


def _read_text(path: Path, beside: Path) -> str:
    """Return a text with its line ends as they are, since offsets count them."""
    try:
        return path.read_bytes().decode("utf-8-sig")  # a byte order mark is no character of the text
    except FileNotFoundError as error:
        missing = path if beside.is_file() else beside
        raise InputError(f"There is no file {str(missing)!r}. BRAT keeps NAME.txt and NAME.ann together.") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not in UTF-8 ({error.reason} at byte {error.start}). Save it as UTF-8.") from error
