"""`infuser link`: the entities that the mentions of texts mean, for every text of files or for one text."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from infuser.cli.console import loading, print_table, say
from infuser.cli.linker_options import LinkerModel, Threshold
from infuser.cli.options import option, option_groups
from infuser.cli.text_files import TextFileOptions, writing
from infuser.words import counted

if TYPE_CHECKING:
    from infuser.linking.mentions import Mention


@option_groups
def link(
    model: LinkerModel,
    *,
    texts: TextFileOptions,
    everything: Annotated[bool, option("Write mentions without a link too: their id is null.", "--all")] = False,
    candidates: Annotated[int, option("Candidates to write for each mention; 0 writes none.", min=0)] = 5,
    threshold: Threshold = None,
    labels: Annotated[
        Path | None,
        option(
            "What entities are called: a folder of `infuser graph build`, or a table of id and label.",
            metavar="DIR|FILE",
        ),
    ] = None,
    batch_size: Annotated[int, option("Texts that are read at once.", min=1)] = 32,
) -> None:
    """Link the mentions in texts to the entities they mean.

    Prints a table for --text. For files it writes one JSON object per text, in
    order: the text and its mentions, each with its place, its entity, its
    score and the best candidates. A text of any length is read whole.

    Examples:
      infuser link RUN --text "Jordan played in Chicago." --labels graph
      infuser link RUN news.jsonl --out links.jsonl
      infuser link RUN a.txt b.txt --all --candidates 0 > links.jsonl
    """
    n_texts = texts.count()
    with loading("the model"):
        from infuser.experiments.run_folder import find_model
        from infuser.linking.inference import find_mentions, iter_mentions, load_linker
        from infuser.linking.texts import read_labels

        label_of = read_labels(labels) if labels is not None else lambda id: ""
        infused = load_linker(find_model(model))
    several_bases = len(infused.sources) > 1

    def kept(mentions: Sequence[Mention]) -> list[Mention]:
        return [mention for mention in mentions if everything or mention.id is not None]

    if texts.text is not None:
        [mentions] = find_mentions(infused, texts.text, threshold=threshold)
        _print_mentions(kept(mentions), label_of, several_bases=several_bases)
        return

    def record(mention: Mention) -> dict[str, Any]:
        label = "" if mention.id is None else label_of(mention.id)
        return mention.to_json(candidates, label=label, with_base=several_bases)

    n_read = n_words = n_mentions = n_links = 0
    started = time.monotonic()
    with writing(texts.out, "linking", n_texts) as write:
        for path, text, mentions in texts.each(
            lambda read: iter_mentions(infused, read, batch_size=batch_size, threshold=threshold)
        ):
            write([texts.about(path, text) | {"mentions": [record(mention) for mention in kept(mentions)]}])
            n_read += 1
            n_words += len(text.split())
            n_mentions += len(mentions)
            n_links += sum(mention.id is not None for mention in mentions)
    found = f"{counted(n_read, 'text')}, {counted(n_mentions, 'mention')}, {counted(n_links, 'link')}"
    texts.print_done(found, n_words, "words", time.monotonic() - started)


def _print_mentions(mentions: Sequence[Mention], label_of: Callable[[str], str], *, several_bases: bool) -> None:
    """Print a table of the mentions, their entities and the next best ones."""
    if not mentions:
        say("Nothing was linked. --all shows the mentions that were found.")
        return

    def named(id: str) -> str:
        return f"{id} ({label_of(id)})" if label_of(id) else id

    rows = []
    for mention in mentions:
        rivals = [one for one in mention.candidates if one.id != mention.id]
        second = f"{named(rivals[0].id)} {rivals[0].score:.2f}" if rivals else ""
        entity = "" if mention.id is None else named(mention.id)
        row = (f"{mention.start}-{mention.end}", mention.text, entity, f"{mention.score:.2f}", second)
        rows.append((*row, mention.base) if several_bases else row)
    headers = ("characters", "mention", "entity", "score", "runner-up", *(["base"] if several_bases else []))
    print_table(headers, rows, left=(0, 1, 2, 4, 5))
