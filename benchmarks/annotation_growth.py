"""How the cost of annotating grows with the number of texts: speed, memory, bytes; from sources and from the cache.

Texts are glosses of WordNet (repeated with a number of their own when there are more texts than glosses), the source is
a gazetteer of WordNet's nouns. Each measurement is a process of its own, so that its peak memory is its own.

    python benchmarks/annotation_growth.py                        # some minutes
    python benchmarks/annotation_growth.py --sizes 5000 20000     # a quick look
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.measuring import RESULTS, about, in_new_process, memory_mb, timed, write_result

from infuser import Entities, assets
from infuser.knowledge.names.store import NameStore
from infuser.knowledge.readers.wordnet import read_synsets
from infuser.sources.annotating import annotate


@dataclass
class Glosses:
    """Glosses as texts, read from a file line by line, however many are wanted."""

    path: Path
    n_texts: int

    def __iter__(self) -> Iterator[str]:
        n_left = self.n_texts
        for turn in range(self.n_texts):
            with self.path.open(encoding="utf-8") as file:
                for gloss in file:
                    if not n_left:
                        return
                    n_left -= 1
                    yield f"{gloss.rstrip()} ({turn})" if turn else gloss.rstrip()


def prepare(folder: Path) -> None:
    """Write the glosses and the gazetteer."""
    synsets = read_synsets(assets.fetch("wordnet")).values()
    (folder / "glosses.txt").write_text("".join(f"{synset.gloss}\n" for synset in synsets), encoding="utf-8")
    NameStore.build(sorted({lemma for synset in synsets for lemma in synset.lemmas})).save(folder / "names")


def measure(folder: Path, n_texts: int, workers: int) -> dict[str, Any]:
    """Annotate so many texts, again from the cache, and read them back."""
    texts, sources = Glosses(folder / "glosses.txt", n_texts), [Entities(folder / "names")]
    sources[0].annotate(["open the gazetteer"])
    cache = folder / f"cache {n_texts} {workers}"
    rates = {}
    for name in ("new", "known"):
        seconds, annotated = timed(
            lambda: annotate(texts, sources, folder / "out", workers=workers, cache=cache, restart=True)
        )
        rates[f"{name}_texts_per_s"] = n_texts / seconds
    peak = memory_mb()
    seconds, n_spans = timed(lambda: sum(len(example["annotations"][0].spans) for example in annotated))
    rates["read_texts_per_s"] = n_texts / seconds
    n_bytes = sum(path.stat().st_size for path in annotated.folder.iterdir())
    return {
        "texts": n_texts,
        "workers": workers,
        **rates,
        "peak_mb": peak,
        "bytes_per_text": n_bytes / n_texts,
        "characters_per_text": sum(map(len, texts)) / n_texts,
        "spans_per_text": n_spans / n_texts,
    }


def main() -> None:
    """Measure every size in a process of its own, and print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 40_000, 160_000])
    parser.add_argument("--out", type=Path, default=RESULTS / "annotation_growth.json")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        folder, n_texts, workers = options.child
        print(json.dumps(measure(Path(folder), int(n_texts), int(workers))))
        return
    rows = []
    load = [os.getloadavg()[0]]
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder))
        for n_texts, workers in [*((size, 0) for size in options.sizes), (options.sizes[-1], 2)]:
            row = in_new_process(__file__, "--child", folder, n_texts, workers)
            rows.append(row)
            speeds = ", ".join(f"{row[f'{name}_texts_per_s']:,.0f} {name}" for name in ("new", "known", "read"))
            print(
                f"{row['texts']:>8,} texts, workers={row['workers']}: texts/s {speeds}; peak {row['peak_mb']:.0f} MB; "
                f"{row['bytes_per_text']:.0f} bytes per text of {row['characters_per_text']:.0f} characters and "
                f"{row['spans_per_text']:.1f} spans",
                flush=True,
            )
    load.append(os.getloadavg()[0])
    write_result(options.out, {"about": about(load_before_and_after=load), "rows": rows})


if __name__ == "__main__":
    main()
