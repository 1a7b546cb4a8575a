"""`infuser candidates`: what mentions may mean, built from what you have, and looked up."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from infuser.cli.console import print_json, print_table, say, size_of, skipping
from infuser.cli.options import AsJson, Paths, Strict, argument, option
from infuser.errors import InputError
from infuser.progress import progress_bar
from infuser.words import counted

app = typer.Typer(
    no_args_is_help=True,
    help="What a mention may mean, and how probable that is.\n\n"
    "Candidates are built once, from names, counts or tagged texts, into a folder that opens in milliseconds. The "
    "source Candidates(DIR) then offers up to 30 entities for each mention in a text, with prior probabilities.",
)

_INPUTS = "What the candidates are built from; give several of each, they are summed"
_TAGGED = 'Tagged texts: {"text": ..., "spans": \\[{"start": 0, "end": 4, "id": "Q70"}]} per line.'
_KNOWBERT = "KnowBERT's candidates: mention<TAB>total<TAB>id,prior,name<TAB>id,prior,name<TAB>..."
_ASSETS = "Ready-made knowledge, fetched: wikidata-small, wordnet, conceptnet, biomedical."


_input = partial(option, panel=_INPUTS, metavar="FILE")


@app.command()
def build(
    out: Annotated[Path, option("Folder to write.")],
    counts: Annotated[Paths, _input("Table of mention, entity, count: .tsv, .csv, .jsonl, .parquet.")] = None,
    names: Annotated[Paths, _input("Table of entities: id, label, aliases, count. Each name is a mention.")] = None,
    graph: Annotated[Paths, _input("Labels and aliases of a graph (`infuser graph build`).", metavar="DIR")] = None,
    tagged: Annotated[Paths, _input(_TAGGED)] = None,
    knowbert: Annotated[Paths, _input(_KNOWBERT)] = None,
    knowbert_entity: Annotated[
        Literal["name", "id"], option("Which of the two is the entity in --knowbert files.", panel=_INPUTS)
    ] = "name",
    knowbert_wordnet: Annotated[Paths, _input("KnowBERT's WordNet entities, .jsonl.")] = None,
    ernie: Annotated[
        tuple[Path, Path] | None, _input("ERNIE's entity2id.txt and entity_map.txt.", metavar="ENTITY2ID ENTITY_MAP")
    ] = None,
    asset: Annotated[list[str] | None, _input(_ASSETS, metavar="NAME")] = None,
    alias_weight: Annotated[float, option("What an alias counts when a label counts 1.")] = 0.5,
    strict: Strict = False,
) -> None:
    """Build candidates from names, counts, tagged texts or the files of KnowBERT and ERNIE.

    A table may have a first line with the names of its columns; otherwise
    they stand in the order given here. Text files may be packed (.gz, .zst).

    Examples:
      infuser candidates build --counts anchors.tsv.gz --out cands
      infuser candidates build --names my.csv --tagged my.jsonl --out cands
      infuser candidates build --asset wikidata-small --out cands
    """
    from infuser.knowledge.builders import build_candidates_from_files

    n_rows: dict[str, int] = {}
    with skipping(strict) as skipped, progress_bar("reading mentions", unit="rows") as bar:

        def report(name: str, done: int, total: int | None) -> None:
            n_rows[name] = done
            bar.report(name, done, total)

        store = build_candidates_from_files(
            out,
            counts=counts or (),
            names=names or (),
            graphs=graph or (),
            tagged=tagged or (),
            knowbert=knowbert or (),
            knowbert_entity=knowbert_entity,
            knowbert_wordnet=knowbert_wordnet or (),
            ernie=ernie,
            ready=asset or (),
            alias_weight=alias_weight,
            skipped=skipped,
            progress=report,
        )
    for name, n in n_rows.items():
        say(f"{name}: {counted(n, 'row')}")
    say(
        f"{out}: {counted(len(store), 'mention')} of {counted(len(store.ids), 'entity', 'entities')}, "
        f"{store.n_rows / len(store):.2f} entities per mention, {size_of(out)}"
    )


@app.command()
def lookup(
    folder: Annotated[Path, argument("What `build` wrote.", metavar="DIR")],
    mention: Annotated[str | None, argument("A name to look up.")] = None,
    text: Annotated[str | None, option("Find the mentions of a text instead.", metavar="TEXT")] = None,
    n_candidates: Annotated[int, option("Candidates per mention.", "-n", "--n-candidates", min=1)] = 30,
    max_words: Annotated[int, option("Words of a mention in --text, at most.", min=1)] = 5,
    longest: Annotated[bool, option("Leave out mentions that overlap longer ones.", "--longest")] = False,
    fold_case: Annotated[bool, option("Find names in any case.")] = True,
    fold_accents: Annotated[bool, option("Find names without their accents too.")] = True,
    as_json: AsJson = False,
) -> None:
    """Show what a name may mean, or the mentions of a text, with prior probabilities.

    Examples:
      infuser candidates lookup cands Bern
      infuser candidates lookup cands --text "Bern lies on the Aare." -n 3
    """
    from infuser.knowledge.candidates.mention_rule import MentionRule
    from infuser.knowledge.candidates.store import CandidateStore, MentionFinder

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
    given = text or mention or ""
    found = finder.find([text])[0] if text is not None else finder.find_whole(given)
    if as_json:
        print_json([one.to_json(given) for one in found], indent=None)
    elif found:
        rows = [
            (*(("", "") if place else (f"{one.start}-{one.end}", given[one.start : one.end])), id, f"{prior:.4f}")
            for one in found
            for place, (id, prior) in enumerate((candidate.id, candidate.prior) for candidate in one.candidates)
        ]
        print_table(("characters", "mention", "entity", "prior"), rows, left=range(3))
    else:
        say(f"{str(folder)!r} knows no mention in {given!r}.")
