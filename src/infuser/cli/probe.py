"""`infuser probe`: what an encoder knows about relations, and where; one page, and the numbers as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from infuser.cli.console import loading, print_finding, print_next_steps, print_table, say
from infuser.cli.options import argument, option, option_groups
from infuser.cli.relations_options import Encoder, ReadingOptions, RelationFormatOptions
from infuser.errors import InputError
from infuser.files import check_writable

if TYPE_CHECKING:
    from infuser.analysis.probe.result import ProbeReport


@dataclass(frozen=True, slots=True)
class ProbeOptions(ReadingOptions):
    """Which triples are probed, and what is read of them."""

    sample: Annotated[int | None, option("So many triples of each relation at most.", min=2, default="all")] = None
    ids: Annotated[bool, option("Entities in --scores go by their ids, not by their words.", "--ids")] = False
    seed: Annotated[int, option("Decides all that is drawn.")] = 0
    no_curve: Annotated[bool, option("Do not probe each layer alone; faster.", "--no-curve", panel="What is read")] = (
        False
    )


@option_groups
def probe(
    data: Annotated[Path, argument("Texts whose relations are known; see --format.")],
    out: Annotated[Path, option("Folder for probe.html and probe.json.")],
    encoder: Encoder = "minilm",
    compare: Annotated[str | None, option("Another encoder, compared with the first.")] = None,
    test: Annotated[Path | None, option("Texts to test with.", default="a third of the texts")] = None,
    scores: Annotated[
        Path | None,
        option(
            "Also score every relation and entity, for infuser select --known FILE; stricter with --pairs.",
            metavar="FILE.json",
        ),
    ] = None,
    *,
    written: RelationFormatOptions,
    reading: ProbeOptions,
) -> None:
    """Measure what an encoder knows about relations, and in which layers and heads.

    A linear classifier learns from the attention between two things in a
    text whether they are related, and how. What it reaches on other texts
    stands beside two controls: the same encoder with random weights, and
    shuffled labels. Only what lies above both is knowledge of the encoder.
    The data are as `infuser relations fit` reads them.

    Examples:
      infuser probe train.jsonl --test test.jsonl --out probe
      infuser probe train.csv --encoder minilm --compare runs/mine/model
        --relations P36,P17,P31 --out probe
      infuser probe train.jsonl --out probe --scores known.json
    """
    if out.is_file():
        raise InputError(f"--out {str(out)!r} is a file. Name a folder.")
    if scores is not None and scores.is_dir():
        raise InputError(f"--scores {str(scores)!r} is a folder. Name a file.")
    check_writable(out, "--out")
    check_writable(out if scores is None else scores.parent, "--scores")
    how = reading.settings()
    with loading("encoders and texts") as progress:
        from infuser.analysis.probe.relation_knowledge import write_knowledge
        from infuser.analysis.probe.relation_rows import read_texts
        from infuser.analysis.probe.relations import ProbeSettings, probe_encoders, probe_report
        from infuser.hosts.checkpoints import is_infused
        from infuser.relations.encoders import open_encoder
        from infuser.reports.probe_page import write_probe
        from infuser.sources.lists import read_aliases

        if scores is not None and is_infused(encoder):
            raise InputError(
                f"--scores measures what the plain encoder knows, and {encoder!r} is infused. Give the plain one as "
                "--encoder; the infused one may be --compare."
            )
        names = None if written.labels is None else {id: of[0] for id, of in read_aliases([written.labels]).items()}
        train, tested, notes = read_texts(data, test, written.format, labels=names, seed=reading.seed)
        given = [encoder, *([compare] if compare else [])]
        opened = [open_encoder(name, progress) for name in given]  # both: a wrong name is known before the work
    settings = ProbeSettings(
        per_relation=reading.sample,
        curve=not reading.no_curve,
        scores=scores is not None,
        by_id=reading.ids,
        seed=reading.seed,
        **how,
    )
    probed = probe_encoders(opened, train, tested, settings=settings, progress=True)
    facts = {
        "Encoders": ", ".join(given),
        "Training texts": f"{len(train):,}, {data.name}",
        "Test texts": f"{len(tested):,}, {test.name if test else f'held out of {data.name}'}",
    }
    report = probe_report(probed, facts=facts, notes=notes)
    page = write_probe(report, out)
    _print_report(report)
    say(f"\nPage: {page}")
    if scores is not None:
        first, texts = probed[0], [*train, *tested]
        write_knowledge(scores, first.knowledge, first.reading, checkpoint=encoder, texts=texts, seed=reading.seed)
        say(f"Scores: {scores}")
    _print_next_steps(report, encoder, scores, pairs=reading.pairs)


def _print_report(report: ProbeReport) -> None:
    print_finding(report.sentence, report.notes)
    rows = []
    for name, reading in zip(report.names, report.readings, strict=True):
        lines = {name: reading.scores, **{f"  {name}": of for name, of in reading.controls.items()}}
        for title, of in {**lines, "  chance": reading.chance}.items():
            rows.append((title, f"{of.binary:.3f}", f"{of.accuracy:.3f}", f"{of.f1:.3f}"))
    headers = ("encoder", "related or not", "which relation", "F1")
    print_table(headers, rows, caption="share of right answers; F1 is the mean over relations")


def _print_next_steps(report: ProbeReport, encoder: str, scores: Path | None, *, pairs: bool) -> None:
    steps = []
    if report.readings[0].verdict != "knows":
        if scores is not None:
            say(f"These scores do not show that {encoder} knows anything: a control does as well.", style="yellow")
        if not pairs:
            steps.append("the same command with --pairs: without the words that say the relation controls fall")
    elif scores is not None:
        steps.append(
            f"infuser select TEXTS --graph GRAPH --known {scores} --explain: leave out what {encoder} knows already"
        )
    else:
        steps.append("the same command with --scores FILE: a list of what it knows, for infuser select --known FILE")
    if len(report.readings) == 1:
        steps.append("the same command with --compare RUN/model: what training or knowledge changed")
    print_next_steps(steps)
