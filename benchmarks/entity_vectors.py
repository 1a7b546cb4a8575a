"""A million entity vectors: a text file read into Python objects, as is usual, against a folder that is only opened.

    python benchmarks/entity_vectors.py                     1,000,000 entities x 100 numbers, as in the docs
    python benchmarks/entity_vectors.py --entities 50000    smaller

Three ways to the vectors of the same batch, each in a process of its own, from nothing to the rows in hand:

    arrays   a dict of NumPy arrays and then a matrix, as AllenNLP reads embeddings for KnowBERT
    lists    lists of Python floats and then a matrix, as ERNIE reads its entity2vec.vec
    ours     EntityVectors.open, rows and take; "first text" is the same for one text only

The batch has 32 texts with 1,500 candidates each, drawn with the skew of real texts: few entities are met often. All
three must give the same rows. The file was read just before, so no way waits for the disk. Building the folder from
the text file, once, is timed too. Peak memory is that of the whole process, libraries included; private memory, at the
end, leaves out what is mapped from files and shared by all processes that open them.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from support.measuring import about, in_new_process, memory_mb, timed, write_result

RESULT = Path(__file__).parent / "results" / "entity_vectors.json"
N_TEXTS, N_CANDIDATES, ROUNDS = 32, 1500, 20


def write_text(path: Path, n_entities: int, dim: int) -> None:
    """Write random vectors as GloVe does: id and numbers, one entity per line."""
    chance, row = np.random.default_rng(0), " ".join(["%.5f"] * dim)
    with path.open("w", encoding="utf-8") as file:
        for first in range(0, n_entities, 10_000):
            block = chance.normal(size=(min(10_000, n_entities - first), dim)).tolist()
            file.writelines(f"{id_of(first + place)} {row % tuple(numbers)}\n" for place, numbers in enumerate(block))


def id_of(number: int) -> str:
    """Return the id of an entity, in the manner of Wikidata and in no order."""
    return f"Q{number * 7919 % 100_000_007}"


def batch_of(n_entities: int, seed: int = 1) -> list[list[str]]:
    """Return the candidates of some texts by id."""
    skewed = n_entities * np.random.default_rng(seed).random((N_TEXTS, N_CANDIDATES)) ** 4
    return [[id_of(number) for number in of_text] for of_text in skewed.astype(int).tolist()]


def read_arrays(path: Path, batch: list[list[str]]) -> np.ndarray:
    """Read the file into a dict of arrays and these into a matrix."""
    vectors: dict[str, np.ndarray] = {}
    with path.open(encoding="utf-8") as file:
        for line in file:
            id, *numbers = line.rstrip().split(" ")
            vectors[id] = np.asarray(numbers, dtype="float32")
    index = {id: row for row, id in enumerate(vectors)}
    matrix = np.zeros((len(index), len(next(iter(vectors.values())))), np.float32)
    for id, row in index.items():
        matrix[row] = vectors[id]
    return matrix[[index[id] for of_text in batch for id in of_text]]


def read_lists(path: Path, batch: list[list[str]]) -> np.ndarray:
    """Read the file into lists of floats and these into a matrix."""
    index: dict[str, int] = {}
    rows: list[list[float]] = []
    with path.open(encoding="utf-8") as file:
        for line in file:
            id, *numbers = line.rstrip().split(" ")
            index[id] = len(rows)
            rows.append([float(number) for number in numbers])
    matrix = np.array(rows, np.float32)
    return matrix[[index[id] for of_text in batch for id in of_text]]


def read_ours(folder: Path, batch: list[list[str]]) -> np.ndarray:
    """Open the folder and take the rows that are needed."""
    from infuser.knowledge.vectors.store import EntityVectors

    vectors = EntityVectors.open(folder)
    return np.concatenate([vectors.take(vectors.rows(of_text)) for of_text in batch])


def child(way: str, path: Path, n_entities: int) -> dict[str, Any]:
    """Return seconds, peak memory and a sum of the rows of one way, measured in this process."""
    import infuser.knowledge.vectors.store  # noqa: F401  # libraries are loaded before the clock starts

    batch, before = batch_of(n_entities), memory_mb("VmRSS")
    if way == "build":
        from infuser.knowledge.vectors.files import build_from_file

        call: Any = lambda: build_from_file(path, path.with_name("folder"), scale=False)  # noqa: E731
    else:
        read = {"arrays": read_arrays, "lists": read_lists}.get(way, read_ours)
        call = lambda: read(path, batch[:1] if way == "first text" else batch)  # noqa: E731
    of_cpu = time.process_time()
    seconds, rows = timed(call)
    result = {"seconds": seconds, "cpu_seconds": time.process_time() - of_cpu, "peak_mb": memory_mb()}
    result |= {"private_mb": memory_mb("RssAnon"), "libraries_mb": before}
    if way == "build":
        return result
    result["sum"] = float(np.abs(rows).sum())
    return {**result, **run_time(path, n_entities)} if way == "ours" else result


def run_time(folder: Path, n_entities: int) -> dict[str, float]:
    """Return what the folder costs while texts are read: opening, finding rows and taking them, for one text."""
    from infuser.knowledge.vectors.store import EntityVectors

    opening = min(timed(lambda: EntityVectors.open(folder))[0] for _ in range(ROUNDS))
    vectors = EntityVectors.open(folder)
    texts = [of_text for seed in range(2, 2 + ROUNDS) for of_text in batch_of(n_entities, seed)]
    finding, found = timed(lambda: [vectors.rows(of_text) for of_text in texts])
    once = [np.unique(rows) for rows in found]
    taking, _ = timed(lambda: sum(len(vectors.take(rows)) for rows in once))
    again, _ = timed(lambda: sum(len(vectors.take(rows)) for rows in once))
    each = {"rows_ms": finding, "take_ms": taking, "take_again_ms": again}
    return {"open_ms": 1e3 * opening, **{name: 1e3 * seconds / len(texts) for name, seconds in each.items()}}


def ask(way: str, path: Path, n_entities: int) -> dict[str, Any]:
    """Run one way in a process of its own."""
    result: dict[str, Any] = in_new_process(__file__, "--entities", n_entities, "--child", way, path)
    print(f"{way:10}" + "".join(f"  {name} {value:,.3f}" for name, value in result.items()), flush=True)
    return result


def main() -> None:
    """Write the file, build the folder, compare the three ways."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entities", type=int, default=1_000_000)
    parser.add_argument("--dim", type=int, default=100)
    parser.add_argument("--child", nargs=2, metavar=("WAY", "PATH"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        print(json.dumps(child(asked.child[0], Path(asked.child[1]), asked.entities)))
        return
    with tempfile.TemporaryDirectory() as place:
        text = Path(place) / "vectors.txt"
        write_text(text, asked.entities, asked.dim)
        text_mb = text.stat().st_size / 1e6
        print(f"{asked.entities:,} entities x {asked.dim} numbers, {text_mb:,.0f} MB of text", flush=True)
        ways = {"build": ask("build", text, asked.entities)}
        folder = text.with_name("folder")
        folder_mb = sum(file.stat().st_size for file in folder.iterdir()) / 1e6
        for way, path in (("arrays", text), ("lists", text), ("ours", folder), ("first text", folder)):
            ways[way] = ask(way, path, asked.entities)
    ways["first text"].pop("sum")
    sums = {round(ways[way].pop("sum"), 1) for way in ("arrays", "lists", "ours")}
    assert len(sums) == 1, f"the three ways give different rows: {sums}"
    ours, ratios = ways["ours"], {}
    for way in ("arrays", "lists"):
        theirs = ways[way]
        own = [one["peak_mb"] - one["libraries_mb"] for one in (theirs, ours)]
        ratios[way] = {name: theirs[name] / ours[name] for name in ("seconds", "cpu_seconds")}
        ratios[way]["own_memory"] = own[0] / own[1]
        told = f"{ratios[way]['seconds']:,.0f} x the time, {ratios[way]['own_memory']:,.1f} x the peak memory"
        print(f"{way}: {told} of ours")
    result = {
        **about(),
        "entities": asked.entities,
        "dim": asked.dim,
        "text_mb": round(text_mb, 1),
        "folder_mb": round(folder_mb, 1),
        "ways": {way: {name: round(value, 3) for name, value in measured.items()} for way, measured in ways.items()},
        "ours_against": {way: {name: round(value, 1) for name, value in one.items()} for way, one in ratios.items()},
    }
    if asked.entities == parser.get_default("entities"):
        write_result(RESULT, result)


if __name__ == "__main__":
    main()
