"""`infuser candidates`: what mentions may mean, built from what you have, and looked up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table

from infuser.cli.knowledge import Strict, counting, nothing_in, size_of, tell_skipped
from infuser.errors import InputError
from infuser.words import counted

if TYPE_CHECKING:
    from infuser.knowledge.facts import Facts
    from infuser.tables.skipped import Skipped
    from infuser.types import Candidate

app = typer.Typer(
    no_args_is_help=True,
    help="What a mention may mean, and how probable that is.\n\n"
    "Candidates are built once, from names, counts or tagged texts, into a folder that opens in milliseconds. The "
    "source Candidates(DIR) then offers up to 30 entities for each mention in a text, with prior probabilities.",
)

_INPUTS = "What the candidates are built from; give several, they are summed"


def _files(flag: str, help: str, metavar: str = "FILE") -> Any:
    return typer.Option(flag, metavar=metavar, help=f"{help} Repeatable.", rich_help_panel=_INPUTS, show_default=False)


@app.command()
def build(
    out: Annotated[Path, typer.Option(help="Folder to write.", show_default=False)],
    counts: Annotated[
        list[Path] | None, _files("--counts", "Table of mention, entity, count: .tsv, .csv, .jsonl, .parquet.")
    ] = None,
    names: Annotated[
        list[Path] | None, _files("--names", "Table of entities: id, label, aliases, count. Each name is a mention.")
    ] = None,
    graph: Annotated[
        list[Path] | None, _files("--graph", "Labels and aliases of a graph (`infuser graph build`).", "DIR")
    ] = None,
    tagged: Annotated[
        list[Path] | None,
        _files("--tagged", 'Tagged texts: {"text": ..., "spans": \\[{"start": 0, "end": 4, "id": "Q70"}]} per line.'),
    ] = None,
    knowbert: Annotated[
        list[Path] | None,
        _files("--knowbert", "KnowBERT's candidates: mention<TAB>total<TAB>id,prior,name<TAB>id,prior,name<TAB>..."),
    ] = None,
    knowbert_entity: Annotated[
        Literal["name", "id"],
        typer.Option(help="Which of the two is the entity in --knowbert files.", rich_help_panel=_INPUTS),
    ] = "name",
    knowbert_wordnet: Annotated[
        list[Path] | None, _files("--knowbert-wordnet", "KnowBERT's WordNet entities, .jsonl.")
    ] = None,
    ernie: Annotated[
        tuple[Path, Path] | None,
        typer.Option(
            metavar="ENTITY2ID ENTITY_MAP",
            help="ERNIE's two files: entity2id.txt and entity_map.txt.",
            rich_help_panel=_INPUTS,
            show_default=False,
        ),
    ] = None,
    asset: Annotated[
        list[str] | None,
        _files("--asset", "Ready-made knowledge, fetched: wikidata-small, wordnet, conceptnet, biomedical.", "NAME"),
    ] = None,
    alias_weight: Annotated[float, typer.Option(help="What an alias counts when a label counts 1.")] = 0.5,
    strict: Strict = False,
) -> None:
    """Build candidates from names, counts, tagged texts or the files of KnowBERT and ERNIE.

    A table may have a first line with the names of its columns; otherwise
    they stand in the order given here. Text files may be packed (.gz, .zst).

    Examples:
      infuser candidates build --counts anchors.tsv.gz --out cands
      infuser candidates build --names my.csv --tagged my.jsonl --out cands
      infuser candidates build --asset wikidata-small --out cands
      infuser candidates lookup cands "Bern"
    """
    from infuser.knowledge.artifact import check_place
    from infuser.knowledge.candidates.files import graph_mentions, name_mentions, read_mention_counts, read_tagged
    from infuser.knowledge.candidates.knowbert_ernie import read_ernie, read_knowbert, read_knowbert_wordnet
    from infuser.knowledge.candidates.store import KIND, build_candidates
    from infuser.knowledge.readers import read_facts
    from infuser.tables.skipped import Skipped

    check_place(out, KIND)
    skipped = Skipped(strict)
    inputs: list[tuple[str, Facts]] = [(str(path), read_mention_counts(path, skipped)) for path in counts or ()]
    inputs += [
        (str(path), name_mentions(read_facts(path, skipped, kind="entities"), alias_weight=alias_weight))
        for path in names or ()
    ]
    inputs += [(str(path), graph_mentions(path, alias_weight=alias_weight)) for path in graph or ()]
    inputs += [(str(path), read_tagged(path, skipped)) for path in tagged or ()]
    inputs += [(str(path), read_knowbert(path, skipped, entity=knowbert_entity)) for path in knowbert or ()]
    inputs += [(str(path), read_knowbert_wordnet(path, skipped)) for path in knowbert_wordnet or ()]
    if ernie is not None:
        inputs.append((str(ernie[1]), read_ernie(*ernie, skipped)))
    inputs += [(name, _asset_mentions(name, skipped, alias_weight)) for name in asset or ()]
    if not inputs:
        raise InputError("Name at least one input: --counts FILE, --names FILE, --tagged FILE, --asset NAME ...")
    with counting("reading mentions") as count:
        store = build_candidates(_counted(inputs, count))
    tell_skipped(skipped)
    if not len(store):
        raise nothing_in([name for name, _ in inputs], "mention", "infuser candidates build")
    store.save(out)
    typer.echo(
        f"{out}: {counted(len(store), 'mention')} of {counted(len(store.ids), 'entity', 'entities')}, "
        f"{store.n_rows / len(store):.2f} entities per mention, {size_of(out)}"
    )


@app.command()
def lookup(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="What `build` wrote.", show_default=False)],
    mention: Annotated[str | None, typer.Argument(help="A name to look up.", show_default=False)] = None,
    text: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Find the mentions of a text instead.", show_default=False)
    ] = None,
    n_candidates: Annotated[int, typer.Option("-n", "--n-candidates", min=1, help="Candidates per mention.")] = 30,
    max_words: Annotated[int, typer.Option(min=1, help="Words of a mention in --text, at most.")] = 5,
    longest: Annotated[bool, typer.Option("--longest", help="Leave out mentions that overlap longer ones.")] = False,
    fold_case: Annotated[bool, typer.Option(help="Find names in any case.")] = True,
    fold_accents: Annotated[bool, typer.Option(help="Find names without their accents too.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what a name may mean, or the mentions of a text, with prior probabilities.

    Examples:
      infuser candidates lookup cands Bern
      infuser candidates lookup cands --text "Bern lies on the Aare." -n 3
    """
    from infuser.knowledge.candidates.mention_rule import MentionRule
    from infuser.knowledge.candidates.store import CandidateStore, Found, MentionFinder

    if (mention is None) == (text is None):
        raise InputError('Give either a name to look up or --text "..." with a text to search.')
    rule = MentionRule(
        max_words=max_words,
        n_candidates=n_candidates,
        fold_case=fold_case,
        fold_accents=fold_accents,
        overlaps="longest" if longest else "keep",
    )
    finder = MentionFinder(CandidateStore.open(folder), rule)
    if text is not None:
        [found] = finder.find([text])
    else:
        text = mention or ""
        candidates = finder.lookup(text)
        found = [Found(0, len(text), candidates)] if candidates else []
    if as_json:
        typer.echo(json.dumps([_plain(text, *one) for one in found], ensure_ascii=False))
    elif found:
        _show(text, [(one.start, one.end, one.candidates) for one in found])
    else:
        typer.echo(f"{str(folder)!r} knows no mention in {text!r}.")


def _plain(text: str, start: int, end: int, candidates: tuple[Candidate, ...]) -> dict[str, Any]:
    listed = [{"id": candidate.id, "prior": candidate.prior} for candidate in candidates]
    return {"start": start, "end": end, "mention": text[start:end], "candidates": listed}


def _show(text: str, found: list[tuple[int, int, tuple[Candidate, ...]]]) -> None:
    table = Table("characters", "mention", "entity", "prior")
    for start, end, candidates in found:
        for place, candidate in enumerate(candidates):
            head = ("", "") if place else (f"{start}-{end}", text[start:end])
            table.add_row(*head, candidate.id, f"{candidate.prior:.4f}", end_section=place + 1 == len(candidates))
    Console().print(table, markup=False)


def _counted(inputs: list[tuple[str, Facts]], count: Any) -> Facts:
    """Yield all batches, and tell how many rows each input gave."""
    for name, batches in inputs:
        n_rows = 0
        for batch in batches:
            n_rows += len(batch)
            count(len(batch))
            yield batch
        typer.echo(f"{name}: {counted(n_rows, 'row')}")


def _asset_mentions(name: str, skipped: Skipped, alias_weight: float) -> Facts:
    """Yield the mentions of ready-made knowledge: its link counts where it has some, else its names."""
    from infuser import assets
    from infuser.knowledge.candidates.files import name_mentions
    from infuser.knowledge.readers import read_ready
    from infuser.knowledge.readers.wikidata_small import read_wikidata_small_mentions

    if name == "wikidata-small":
        return read_wikidata_small_mentions(assets.fetch(name))
    return name_mentions(read_ready(name, skipped), alias_weight=alias_weight)
