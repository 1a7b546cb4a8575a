"""Tables of ties made: in memory from scores, and as a folder from a counted corpus of any size.

The folder holds the counts (pairs.*: row `first` has the words `second`, ascending) and the ties in both directions.
The pairs are walked through in order, a range at a time. Turned round they come out of order, so they are first dealt
out into files by ranges of words, each of which fits into memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from infuser.files import locked_draft, naming_full_disks
from infuser.knowledge.arrays import begins_of
from infuser.knowledge.artifact import check_place, write_folder
from infuser.knowledge.correlation.scores import Scorer, Scoring
from infuser.knowledge.correlation.table import TieTable, word_parts
from infuser.knowledge.counting.shapes import CorpusCounts

Numbers = NDArray[Any]
KIND = "correlation"
SHAPE = 2
"""Changes with the layout of the files."""
_BYTES_PER_PAIR = 256  # what the work on one pair takes at most
_MOST_PAIRS = 1 << 19  # with more at once it is slower: fresh memory takes time
_MOST_WORDS = 1 << 13  # of one range
_TURNED = np.dtype([("row", np.int32), ("column", np.int32), ("weight", np.float32)])


def make_table(words: Sequence[str], first: Numbers, second: Numbers, weights: Numbers) -> TieTable:
    """Return the table of ties between words, by their places in `words`; each pair is given once, in any order."""
    turned = first != second
    rows, columns = np.concatenate([first, second[turned]]), np.concatenate([second, first[turned]])
    order = np.lexsort((columns, rows))
    weights = np.concatenate([weights, weights[turned]])[order]
    begins = begins_of(np.bincount(rows, minlength=len(words)))
    ties = {"ties.begins": begins, "ties.columns": columns[order].astype(np.int32), "ties.weights": weights}
    return TieTable({**word_parts(words), **ties})


def save_correlation(counts: CorpusCounts, scoring: Scoring, out: str | Path, *, memory: int = 1 << 30) -> Path:
    """Write the table of a counted corpus as a folder, within so many bytes of memory whatever its size."""
    out = Path(out).absolute()
    check_place(out, KIND)
    with locked_draft(out) as scratch, naming_full_disks(out):
        n_at_once = min(max(memory // _BYTES_PER_PAIR, 1024), _MOST_PAIRS)
        maker = _Maker(counts, scoring, scratch, n_at_once)
        parts = maker.make()
        return write_folder(out, KIND, {**word_parts(counts.words.to_pylist()), **parts}, **maker.about())


class _Piece(NamedTuple):
    """Some pairs in the order of their keys."""

    first: Numbers
    second: Numbers
    together: Numbers


class _Maker:
    """Makes the arrays of a folder, in files of a scratch folder."""

    def __init__(self, counts: CorpusCounts, scoring: Scoring, scratch: Path, n_at_once: int) -> None:
        self._counts, self._scoring, self._scratch, self._n_at_once = counts, scoring, scratch, n_at_once
        self._n_words, self._n_sides = len(counts.words), counts.settings.n_sides
        self._score = Scorer(scoring, counts.settings, counts.left, counts.right, counts.n_units)
        self._largest = 0.0
        self._n_ties = 0

    def about(self) -> dict[str, Any]:
        """Return the content of about.json."""
        return {
            **self._counts.about,
            "counting": self._counts.settings.to_json(),
            "scoring": self._scoring.to_json(),
            "largest": self._largest,
            "n_units": int(self._counts.n_units),
            "n_words": self._n_words,
            "n_pairs": len(self._counts.keys),
            "n_ties": self._n_ties,
            "told": sorted(self._counts.about),
            "shape": SHAPE,
        }

    def make(self) -> dict[str, Any]:
        """Return all arrays but those of the words."""
        n_words = self._n_words
        n_first, n_ahead, n_turned = (np.zeros(n_words, np.int64) for _ in range(3))
        most = 0
        for piece in self._pieces():
            scores = self._score(*piece)
            self._largest = max(self._largest, float(scores.max()))
            tied = self._scoring.weigh(scores, 1.0) > 0
            n_first += np.bincount(piece.first, minlength=n_words)
            n_ahead += np.bincount(piece.first[tied], minlength=n_words)
            n_turned += np.bincount(piece.second[tied & self._turns(piece)], minlength=n_words)
            most = max(most, int(piece.together.max()))
        ranges = _ranges(n_ahead + n_turned, self._n_at_once)
        count_type = np.uint32 if most < 1 << 32 else np.int64
        self._n_ties = int(n_ahead.sum())
        self._deal_out(ranges, count_type)
        parts = {"left": self._counts.left} | ({"right": self._counts.right} if self._n_sides == 2 else {})
        return {
            **parts,
            "pairs.begins": begins_of(n_first),
            "pairs.seconds": self._read("pairs.seconds", np.int32),
            "pairs.counts": self._read("pairs.counts", count_type),
            **self._put_together(ranges, n_ahead, n_turned),
        }

    def _pieces(self) -> Iterator[_Piece]:
        for start in range(0, len(self._counts.keys), self._n_at_once):
            keys = np.asarray(self._counts.keys[start : start + self._n_at_once])
            together = np.asarray(self._counts.pair_counts[start : start + self._n_at_once])
            yield _Piece(keys // self._n_words, keys % self._n_words, together)

    def _turns(self, piece: _Piece) -> Any:
        """Return which pairs have a second entry; in a symmetric table a word with itself has one."""
        return (piece.first != piece.second) | (self._n_sides == 2)

    def _deal_out(self, ranges: Numbers, count_type: Any) -> None:
        """Write the counts; the ties as they come; and those turned round, by ranges of their rows."""
        for piece in self._pieces():
            weights = self._scoring.weigh(self._score(*piece), self._largest).astype(np.float32)
            self._write("pairs.seconds", piece.second.astype(np.int32))
            self._write("pairs.counts", piece.together.astype(count_type))
            tied = weights > 0
            self._write("ahead.columns", piece.second[tied].astype(np.int32))
            self._write("ahead.weights", weights[tied])
            tied &= self._turns(piece)
            turned = np.empty(np.count_nonzero(tied), _TURNED)
            turned["row"], turned["column"], turned["weight"] = piece.second[tied], piece.first[tied], weights[tied]
            turned = turned[np.argsort(turned["row"], kind="stable")]
            cuts = np.searchsorted(turned["row"], ranges)
            for number in np.flatnonzero(np.diff(cuts)).tolist():
                self._write(f"turned.{number}", turned[cuts[number] : cuts[number + 1]])

    def _put_together(self, ranges: Numbers, n_ahead: Numbers, n_turned: Numbers) -> dict[str, Numbers]:
        """Return the rows of both directions, a range of words at a time."""
        columns_ahead, weights_ahead = self._read("ahead.columns", np.int32), self._read("ahead.weights", np.float32)
        begins_ahead = begins_of(n_ahead)
        lengths = [np.zeros(0, np.int64)]
        for number, (low, high) in enumerate(pairwise(ranges.tolist())):
            turned = self._read(f"turned.{number}", _TURNED)
            ahead = slice(*begins_ahead[[low, high]].tolist())
            rows = [turned["row"] - low, np.repeat(np.arange(high - low), n_ahead[low:high])]
            if self._n_sides == 2:  # each direction has rows of its own
                rows = [rows[0] * 2 + 1, rows[1] * 2]
            row = np.concatenate(rows)
            # stable, so that columns ascend within a row: those turned round are smaller, and came in their order
            order = np.argsort(row, kind="stable")
            weights = np.concatenate([turned["weight"], weights_ahead[ahead]])
            order = order[_strongest(row[order], weights[order], self._scoring.max_ties)]
            self._write("ties.columns", np.concatenate([turned["column"], columns_ahead[ahead]])[order])
            self._write("ties.weights", weights[order])
            lengths.append(np.bincount(row[order], minlength=(high - low) * self._n_sides))
        return {
            "ties.begins": begins_of(np.concatenate(lengths)),
            "ties.columns": self._read("ties.columns", np.int32),
            "ties.weights": self._read("ties.weights", np.float32),
        }

    def _write(self, name: str, values: Numbers) -> None:
        with (self._scratch / name).open("ab") as file:
            values.tofile(file)

    def _read(self, name: str, dtype: Any) -> Numbers:
        path = self._scratch / name
        if not path.exists() or not path.stat().st_size:
            return np.zeros(0, dtype)
        return np.memmap(path, dtype, "r")


def _strongest(rows: Numbers, weights: Numbers, most: int) -> Numbers:
    """Return the entries that are among the strongest of their row, in order; of equals the first."""
    lengths = np.bincount(rows) if len(rows) else np.zeros(1, np.int64)
    if not most or lengths.max() <= most:
        return np.arange(len(rows))
    begins = begins_of(lengths)
    # the bits of positive numbers are in the order of the numbers, so one sort does for all rows
    keys = (rows.astype(np.uint64) << 32) | (np.uint64(0xFFFFFFFF) - weights.view(np.uint32))
    last = np.sort(keys)[np.minimum(begins[:-1] + most, begins[1:]).clip(1) - 1][rows]  # the weakest that is held
    surely, perhaps = keys < last, keys == last
    before = np.cumsum(perhaps)
    before -= (before - perhaps)[begins[rows]]  # counted from the beginning of the row
    n_left = most - np.bincount(rows[surely], minlength=len(lengths))
    return np.flatnonzero(surely | (perhaps & (before <= n_left[rows])))


def _ranges(lengths: Numbers, n_at_once: int) -> Numbers:
    """Return borders between ranges of words, none with more entries (unless of one word) or words than allowed."""
    borders = [0]
    begins = begins_of(lengths)
    while borders[-1] < len(lengths):
        low = borders[-1]
        high = int(np.searchsorted(begins, begins[low] + n_at_once, side="right")) - 1
        borders.append(min(max(high, low + 1), low + _MOST_WORDS, len(lengths)))
    return np.array(borders)
