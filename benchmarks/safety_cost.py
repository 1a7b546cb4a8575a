"""What safety costs: digests when a saved model is opened, and waiting for the disk (fsync) when something is written.

A saved MiniLM model is opened with its digests checked and with the check left out: in a new process, as a command does
(imports included), and again in one process, where only the opening is left. Building a graph and a gazetteer, saving
that model and writing a small file are timed with INFUSER_FSYNC=1 and 0. The two take turns; the fastest round counts.

    python benchmarks/safety_cost.py        # two minutes; wants an idle machine
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from support.measuring import RESULTS, about, fastest, in_new_process, timed, write_result

RESULT = RESULTS / "safety_cost.json"
TARGETS = {"opening": 1.15, "writing": 1.05}
ROWS = 200_000


def load(model: str, checked: bool) -> None:
    """Open a saved model, or all of it but the check of its digests."""
    import infuser
    from infuser import saving

    check = saving.checking_seal
    if not checked:
        saving.checking_seal = lambda *_: nullcontext()  # type: ignore[assignment]
    try:
        infuser.load(model)
    finally:
        saving.checking_seal = check


def openings(model: Path, rounds: int) -> dict[str, dict[str, float]]:
    """Return the seconds of opening a model with and without digests."""
    new = {"with": [], "without": []}
    for _ in range(rounds):
        for name, seconds in new.items():
            seconds.append(in_new_process(__file__, "--open", model, name))
    again = fastest({name: lambda name=name: load(str(model), name == "with") for name in new}, 3 * rounds, warm_up=1)
    return {"in a new process": {name: min(seconds) for name, seconds in new.items()}, "again": again}


def writings(folder: Path, model: Any, rounds: int) -> dict[str, dict[str, float]]:
    """Return the seconds of writing with and without waiting for the disk."""
    from infuser.files import write_whole
    from infuser.knowledge.builders import build_graph_from_files, build_names_from_files

    triples, names = folder / "triples.tsv", folder / "names.tsv"
    triples.write_text("".join(f"e{n}\tr{n % 9}\te{n * 7 % 50_000}\n" for n in range(ROWS)))
    names.write_text("".join(f"name {n} of {n * 7 % 1000}\tthing\n" for n in range(ROWS)))
    calls: dict[str, Callable[[], Any]] = {
        f"graph, {ROWS:,} triples": lambda: build_graph_from_files(folder / "graph", [triples]),
        f"gazetteer, {ROWS:,} names": lambda: build_names_from_files(folder / "gazetteer", [names]),
        "saved model, MiniLM": lambda: model.save(folder / "saved"),
        "file of 10 kB": lambda: write_whole(folder / "small", b"0" * 10_000),
    }
    return {
        name: fastest({"with": _syncing("1", call), "without": _syncing("0", call)}, rounds, warm_up=1)
        for name, call in calls.items()
    }


def _syncing(value: str, call: Callable[[], Any]) -> Callable[[], Any]:
    def called() -> None:
        os.environ["INFUSER_FSYNC"] = value
        call()

    return called


def main(rounds: int = 5) -> None:
    """Measure, print the ratios and write them."""
    import infuser

    with tempfile.TemporaryDirectory(dir=Path(__file__).resolve().parents[1]) as place:  # /tmp may lie in memory
        folder = Path(place)
        model = infuser.infuse(
            str(infuser.assets.fetch("minilm")),
            infuser.Types(),
            sources=[infuser.Entities.tiny()],
            task="token-classification",
            num_labels=3,
        )
        model.save(folder / "model")
        found = {"opening": openings(folder / "model", rounds), "writing": writings(folder, model, rounds)}
    for what, rows in found.items():
        for name, seconds in rows.items():
            seconds["ratio"] = seconds["with"] / seconds["without"]
            print(
                f"{what} {name:30} {1e3 * seconds['without']:9.2f} -> {1e3 * seconds['with']:9.2f} ms   "
                f"{seconds['ratio']:.3f}x (target {TARGETS[what]}x)"
            )
    write_result(RESULT, {**found, "targets": TARGETS, "about": about("torch", "transformers")})


if __name__ == "__main__":
    if sys.argv[1:2] == ["--open"]:
        print(timed(lambda: load(sys.argv[2], sys.argv[3] == "with"))[0])
    else:
        main()
