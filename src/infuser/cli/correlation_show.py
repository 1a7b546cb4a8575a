"""`infuser correlation score`, `show` and `plot`: counted words scored again, looked at, and plotted."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from infuser.cli.console import print_json, print_table, say, size_of, warn
from infuser.cli.options import AsJson, argument, option, option_groups
from infuser.words import counted

if TYPE_CHECKING:
    from infuser.knowledge.correlation.scores import Scoring
    from infuser.knowledge.correlation.store import CorrelationStore

Folder = Annotated[Path, argument("A folder that `infuser correlation build` wrote.", metavar="DIR")]

Out = Annotated[Path, option("Folder to write; an older correlation there is replaced.")]


_scores = partial(option, panel="How it is scored")


@dataclass(frozen=True, slots=True)
class ScoringOptions:
    """How pairs are scored."""

    score: Annotated[
        Literal["npmi", "pmi", "ppmi"],
        _scores(
            "npmi: normalised PMI, the map's value where positive. pmi, ppmi: the map's value is PMI / Z, Z the "
            "largest of the table."
        ),
    ] = "npmi"
    smoothing: Annotated[
        float, _scores("Added to what was seen and to what chance would give: 0.5 shrinks what was seen rarely.", min=0)
    ] = 0.0
    context_power: Annotated[float, _scores("Power of counts in chance: 0.75 tames rare words.", min=0.01, max=1)] = 1.0
    max_ties: Annotated[int, _scores("A word has its strongest ties, at most so many; 0: all of them.", min=0)] = 100

    def read(self) -> Scoring:
        """Return the settings."""
        from infuser.knowledge.correlation.scores import Scoring

        return Scoring(self.score, self.smoothing, self.context_power, self.max_ties)


@option_groups
def score(folder: Folder, out: Out, *, scoring: ScoringOptions) -> None:
    """Score counted pairs in another way, without reading the corpus again.

    Example: infuser correlation score company --score pmi --smoothing 0.5 --out shrunk
    """
    from infuser.knowledge.correlation.build import save_correlation
    from infuser.knowledge.correlation.store import CorrelationStore

    save_correlation(CorrelationStore.open(folder).counts(), scoring.read(), out)
    print_built(CorrelationStore.open(out), out)


def show(
    folder: Folder,
    term: Annotated[str, argument("A word.", metavar="TERM")],
    top: Annotated[int, option("How many neighbours.", min=1)] = 20,
    side: Annotated[
        Literal["left", "right"] | None,
        option("Of a table of pairs: the side of the word.", default="where it is seen more often"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the words that are seen with a word more often than by chance, closest first.

    Example: infuser correlation show company pharmacy --top 50
    """
    from infuser.knowledge.correlation.store import CorrelationStore

    store = CorrelationStore.open(folder)
    number = None if side is None else ("left", "right").index(side)
    near = store.neighbours(term, top, side=number)
    n_seen = store.count(term, side=number)
    if as_json:
        print_json({"term": term, "count": n_seen, "neighbours": [one._asdict() for one in near]})
        return
    of = "words" if store.counting.unit == "window" else f"{store.counting.unit}s"
    where = f", on the {('left', 'right')[store.side_of(term, number)]}" if store.counting.n_sides == 2 else ""
    say(f"{term}: {n_seen:,} of {store.n_units:,} {of}{where}")
    if not near:
        warn("No word is tied to it: none was seen with it more often than by chance.")
        return
    print_table(
        ("word", store.scoring.score.upper(), "together", "seen"),
        [(one.word, f"{one.score:.3f}", f"{one.together:,}", f"{one.count:,}") for one in near],
    )


def plot(
    folder: Folder,
    out: Annotated[Path, option("Picture to write: .png, .svg or .pdf.")] = Path("correlation.png"),
    pairs: Annotated[int, option("How many pairs to draw, spread evenly over all.", min=1)] = 20_000,
) -> None:
    """Plot scores against how often words are seen: rare words score high, often by accident.

    Example: infuser correlation plot company --out company.png
    """
    from infuser.knowledge.correlation.store import CorrelationStore
    from infuser.reports.correlation import write_scores

    store = CorrelationStore.open(folder)
    points = store.points(pairs)
    write_scores(points.rarer, points.scores, store.scoring.score.upper(), out)
    say(f"{out}: {len(points.scores):,} of {counted(store.n_pairs, 'pair')}")


def print_built(store: CorrelationStore, out: Path) -> None:
    """Print how much a folder holds, and what to do if that is nothing."""
    say(
        f"{out}: {counted(store.n_words, 'word')}, {counted(store.n_pairs, 'pair')} of them seen together, "
        f"{store.n_ties:,} more often than by chance; from {counted(store.about['n_tokens'], 'word')} in "
        f"{counted(store.about['n_texts'], 'text')}; {size_of(out)}"
    )
    if not store.n_ties:
        warn(
            f"Nothing is tied. Words seen fewer than {store.counting.min_count} times and pairs seen fewer than "
            f"{store.counting.min_pairs} times are left out; for a small corpus lower --min-count and --min-pairs."
        )
