"""What `infuser train` prints: how much the sources know, how training went, what to try next."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from infuser.cli.console import print_next_steps, print_table, say
from infuser.words import counted

if TYPE_CHECKING:
    from infuser.experiments.train import TrainJob
    from infuser.training import TrainResult
    from infuser.types import Annotations, Source

_PARTS = {"train": "training", "dev": "dev", "test": "test"}


class Coverage:
    """Prints how many mentions and links each source found in each part, and remembers which dev text has most."""

    def __init__(self) -> None:
        self.shown = 0

    def print(self, part: str, sources: list[Source], found: Sequence[tuple[Annotations, ...]]) -> None:
        """Print one line per source."""
        from infuser.sources.naming import source_names

        if part == "dev":
            self.shown = max(range(len(found)), key=lambda place: sum(len(one.spans) for one in found[place]))
        for place, name in enumerate(source_names(sources)):
            of_source = [of_text[place] for of_text in found]
            spans, links = [len(one.spans) for one in of_source], [len(one.links) for one in of_source]
            texts = counted(len(found), f"{_PARTS[part]} text")
            say(
                f"{name}: {counted(sum(spans), 'mention')} in {sum(map(bool, spans)):,} and "
                f"{counted(sum(links), 'link')} in {sum(map(bool, links)):,} of {texts}"
            )
            if not any(spans):
                say("  It knows nothing about these texts. Are its names spelled as in them?", style="yellow")


def print_training(result: TrainResult, n_new_weights: int) -> None:
    """Print the evaluations as a table and the best one in a sentence."""
    rows = [(f"{one.epoch:g}", f"{one.loss:.4f}", f"{one.metrics[result.metric]:.4f}") for one in result.history]
    best = [place for place, one in enumerate(result.history) if one.step == result.best_step]
    print_table(("epoch", "training loss", f"dev {result.metric}"), rows, bold=best[0] if best else None)
    early = ", stopped early" if result.stopped_early else ""
    new = f", {n_new_weights:,} new weights" if n_new_weights else ""
    say(
        f"Best dev {result.metric} {result.best:.4f} at step {result.best_step} of {result.steps}{early}; "
        f"{result.seconds:.0f} s, {result.examples_per_second:.0f} examples/s{new}"
    )


def print_scores(record: dict[str, Any]) -> None:
    """Print the scores on the test examples, what belongs beside them, and what rules reach without an encoder."""
    scored = counted(len(record["predictions"]), f"{record['data']['score']['split']} example")
    say(f"On {scored}: {_listed(record['scores']) or 'no labels to compare with'}")
    notes = record.get("notes", {})
    if counts := [f"{value:,} {name}" for name, value in notes.items() if isinstance(value, int)]:
        say(f"  {', '.join(counts)}")
    for name, value in notes.items():
        if isinstance(value, dict):
            say(f"  {name}: {_listed(value)}")
    for name, rule in record.get("rules", {}).items():
        say(f"  {name}, without an encoder: {_listed(rule['scores'])}")
        metric = record["metrics"][0]
        if rule["scores"][metric] > record["scores"][metric]:
            say(f"  {name} has a higher {metric} than this model: label more texts, or use it.", style="yellow")
    for part, n in record.get("coverage", {}).get("n", {}).items():
        say(f"  on {counted(n, f'{part} row')}: {_listed(record['coverage']['scores'][part])}")


def _listed(scores: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.4f}" for name, value in scores.items())


def print_next(job: TrainJob, out: str, example: dict[str, Any]) -> None:
    """Print commands to copy; their text is the dev example about which most is known."""
    pair = "" if example.get("pair") is None else f" --pair {shlex.quote(example['pair'])}"
    text = f"--text {shlex.quote(example['text'])}{pair}"
    folder, model = shlex.quote(out), shlex.quote(f"{out}/model")
    predict = [f"infuser predict {model} NEW.csv --out predictions.jsonl", f"infuser predict {model} {text}"]
    others = "the same command with --seed 1, 2 ... and another --out: one seed is no evidence"
    explained = shlex.quote(f"{out}/explain")
    explain = f"infuser explain {model} {text} --out {explained}"
    if job.task == "ner" and job.kind != "plain":
        steps = [
            explain,
            *predict,
            "the same command with --plain, with --placebo and another --out: does the knowledge help?",
            others,
        ]
    elif job.kind == "plain":
        steps = [
            *predict,
            "the same command with --entities, --graph ... instead of --plain and another --out: with knowledge",
        ]
    elif job.kind == "placebo":
        steps = [f"infuser diagnose RUN {folder}: this placebo beside RUN, the same command without --placebo"]
    else:
        steps = [
            explain,
            *predict,
            others,
            f"infuser diagnose {folder}: does the knowledge help? It trains the baseline and the placebo, too",
        ]
    print_next_steps(steps)
