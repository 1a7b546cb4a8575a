"""`infuser graph`: build a knowledge graph from files, look into it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from infuser.cli.console import say, size_of, skipping, warn
from infuser.cli.graph_show import info, show
from infuser.cli.knowledge_options import NameOptions
from infuser.cli.options import Paths, Strict, argument, option, option_groups
from infuser.progress import progress_bar
from infuser.words import counted

app = typer.Typer(
    no_args_is_help=True,
    help="Build a knowledge graph from files, and look into it.\n\n"
    "A graph is built once, into a folder that opens in milliseconds and is shared by all processes. The source "
    "Graph(DIR) then ties mentions in a text whose entities are near each other in the graph.",
)

app.command()(info)
app.command()(show)

Files = Annotated[
    Paths,
    argument(
        "Triples or entities: .tsv .csv .jsonl .parquet .nt .ttl, a ConceptNet dump, WordNet's folder.", metavar="FILE"
    ),
]
LabelBefore = Annotated[
    str,
    option(
        "In --entities files a label ends here and its description begins: ', ' for \"saxony, an area in Germany\".",
        metavar="TEXT",
    ),
]


@app.command()
@option_groups
def build(
    out: Annotated[Path, option("Folder to write; an older graph there is replaced.")],
    files: Files = None,
    format: Annotated[str | None, option("table, rdf, conceptnet or wordnet.", default="by their names")] = None,
    order: Annotated[
        str | None, option("Columns of tables without a header: hrt, rht, hrtw ...", default="hrt")
    ] = None,
    label_before: LabelBefore = "",
    strict: Strict = False,
    landmarks: Annotated[int, option("Hubs to which all distances are kept: one byte per entity each.", min=0)] = 32,
    *,
    names: NameOptions,
) -> None:
    """Build a graph from files of triples and entities, or from ready-made knowledge.

    Triples are head, relation, tail and maybe a weight above 0 and up to 1.
    Files may be packed (.gz, .zst). Rows that cannot be read are counted and
    the first are shown. The same files give the same bytes.

    Examples:
      infuser graph build triples.tsv --entities names.csv --out kg
      infuser graph build dump.nt.gz --out kg
      infuser graph build --asset wordnet --out wordnet
    """
    from infuser.knowledge.builders import build_graph_from_files
    from infuser.knowledge.graph.store import columns_look_swapped

    with skipping(strict) as skipped, progress_bar() as bar:
        store = build_graph_from_files(
            out,
            files or (),
            format=format,
            order=order,
            label_before=label_before,
            n_landmarks=landmarks,
            skipped=skipped,
            progress=bar.report,
            **names.settings(),
        )
    n_entities, n_relations = counted(store.n_entities, "entity", "entities"), counted(len(store.relations), "relation")
    if columns_look_swapped(store):
        warn(
            f"{n_relations} for {n_entities}: are the columns of the triples in another order? See --order, for "
            "example --order rht where the relation comes first."
        )
    n_names, n_edges = counted(store.about["n_names"], "name"), counted(store.n_edges, "edge")
    say(f"{out}: {n_entities} with {n_names}, {n_edges} of {n_relations}, {size_of(out)}")
