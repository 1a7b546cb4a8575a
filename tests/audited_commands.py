"""Every command that writes a folder, small enough to be run hundreds of times: killed, and beside another one."""

from __future__ import annotations

import itertools
import json
import os
import re
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from cli.commands import COLUMNS, MEDICINES, TOOLS, examples_of, save_checkpoint, write_csv, write_lines
from cli.small_linkers import linked_rows, write_json_lines, write_knowledge
from experiments.small_bench import write_bench
from forked import start_forked

_TIMES = ("seconds", "step_seconds", "examples_per_second", "peak_mib", "sha256", "total", "preparing", "answering")
"""What differs from run to run, and the digests over it."""


@dataclass(frozen=True)
class Command:
    """A command, as two people run it: with other data or another seed each (or, `together`, with the same)."""

    words: tuple[tuple[object, ...], tuple[object, ...]]
    together: bool = False

    def start(self, who: int, out: Path, log: Path) -> BaseProcess:
        """Start it in a process of its own, which writes what it says into `log`."""
        words = [*map(str, self.words[who]), "--out", str(out)]
        cache = {"INFUSER_CACHE": str(out.parent / "cache"), "COLUMNS": "10000"}
        return start_forked(run_command_line, words, log=log, environment=cache)


def run_command_line(words: list[str]) -> None:
    """Run `infuser` and end the process as it does."""
    from infuser.cli import app

    app(words)


def write_inputs(folder: Path) -> dict[str, Command]:
    """Write the inputs of all commands, and return the commands."""
    os.makedirs(folder, exist_ok=True)
    checkpoint = save_checkpoint(folder / "checkpoint")
    write_csv(folder / "train.csv", examples_of(MEDICINES[:2], TOOLS[:2]))
    names, triples, counts, vectors, corpora, texts, relations = [], [], [], [], [], [], []
    for who in range(2):
        number = range(who, 20_000, 3)
        names.append(write_lines(folder / f"names-{who}.tsv", *(f"name {n} of {n % 97}\tthing\tQ{n}" for n in number)))
        triples.append(write_lines(folder / f"triples-{who}.tsv", *(f"e{n}\tr{n % 9}\te{n * 7 % 997}" for n in number)))
        rows = (f"mention {n % 999}\tQ{n}\t{n % 7 + 1}" for n in number)
        counts.append(write_lines(folder / f"counts-{who}.tsv", *rows))
        rows = (f"Q{n} " + " ".join(f"{(n * k) % 17 / 17:.4f}" for k in range(1, 9)) for n in number)
        vectors.append(write_lines(folder / f"vectors-{who}.txt", *rows))
        lines = [f"name {n} of {n % 97} meets name {n * 7 % 997} of {n % 13} in town {n % 50}" for n in number]
        corpora.append(write_lines(folder / f"corpus-{who}.txt", *lines))
        texts.append(write_lines(folder / f"texts-{who}.txt", *lines))
        relations.append(_write_relations(folder / f"relations-{who}.jsonl", who))
    candidates, known = write_knowledge(folder)
    links = write_json_lines(folder / "links.jsonl", linked_rows())
    (folder / "bench").mkdir()
    bench = write_bench(folder / "bench")
    linker = ("linker", "train", checkpoint, "--candidates", candidates, "--vectors", known, "--links", links)
    few = ("--epochs", 3, "--batch-size", 8)
    listed = write_lines(folder / "listed.tsv", *MEDICINES, *TOOLS, *(f"name {n}" for n in range(997)))
    training = ("train", checkpoint, folder / "train.csv", *COLUMNS, "--entities", listed, *few)

    def each(*words: object, files: list[Path]) -> tuple[tuple[object, ...], tuple[object, ...]]:
        return (*words, files[0]), (*words, files[1])

    return {
        "graph build": Command(each("graph", "build", files=triples)),
        "gazetteer build": Command(each("gazetteer", "build", files=names)),
        "candidates build": Command(each("candidates", "build", "--counts", files=counts)),
        "vectors build": Command(each("vectors", "build", "--file", files=vectors)),
        "correlation build": Command(each("correlation", "build", files=corpora)),
        "annotate": Command(each("annotate", "--entities", listed, files=texts)),
        "relations fit": Command(each("relations", "fit", "--encoder", checkpoint, files=relations)),
        "train": Command(((*training, "--seed", 0), (*training, "--seed", 1))),
        "linker train": Command(((*linker, *few, "--seed", 0), (*linker, *few, "--seed", 1))),
        "bench run": Command((("bench", "run", bench),) * 2, together=True),
    }


def content_of(folder: Path) -> dict[str, Any]:
    """Return what a command wrote, but for times; "unfinished" folders and left-overs count, locks do not."""
    found = {}
    for path in sorted(folder.parent.glob(f"*{folder.name}*")):
        for file in [path, *path.rglob("*")]:
            of_checkpoint = file.name == "digests.json" and file.parent.name.startswith("checkpoint-")  # times too
            if file.is_file() and file.suffix != ".lock" and not of_checkpoint:
                name = str(file.relative_to(folder.parent))
                found[name] = _without_times(file.read_bytes(), file.suffix, str(folder))
    return found


def _without_times(content: bytes, suffix: str, folder: str) -> Any:
    if suffix == ".html":  # a picture of the numbers
        return None
    if suffix != ".json":
        return content
    # every run has a folder of its own
    return _plain(json.loads(content.decode().replace(json.dumps(folder)[1:-1], "OUT")))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items() if name not in _TIMES}
    return [_plain(one) for one in value] if isinstance(value, list) else value


def problem_of(log: Path) -> str:
    """Return the one line with which a command ended, or what else it said."""
    said = log.read_text(encoding="utf-8", errors="replace")
    errors = re.findall(r"^Error: .*$", said, re.MULTILINE)
    return errors[0] if len(errors) == 1 and "Traceback" not in said else f"TRACEBACK {said[-2000:]}"


def _write_relations(path: Path, who: int) -> Path:
    from relations.small_relations import THINGS, sentence

    from infuser.relations.readers import write_relations

    pairs = list(itertools.permutations(THINGS, 2))[who::4]
    return write_relations(path, [sentence(verb, *pair) for pair in pairs for verb in ("lies on", "sell")])
