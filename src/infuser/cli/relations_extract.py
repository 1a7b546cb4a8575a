"""`infuser relations extract`: the triples of every text of files, or of one text."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from infuser.cli.console import print_table, say
from infuser.cli.knowledge_options import SourceOptions
from infuser.cli.options import option, option_groups
from infuser.cli.relations_options import FittedModel, FittedOptions
from infuser.cli.text_files import TextFileOptions, writing
from infuser.words import counted

if TYPE_CHECKING:
    from infuser.relations.extraction import FoundTriple


@option_groups
def extract(
    model: FittedModel,
    *,
    texts: TextFileOptions,
    flat: Annotated[bool, option("Write a line per triple instead of a line per text.", "--flat")] = False,
    negated: Annotated[
        Literal["mark", "drop", "only"], option("What the text denies: mark it as negated, drop it, or write it only.")
    ] = "mark",
    heads: Annotated[int, option("Attention heads to name for each triple, as a reason.", min=0)] = 3,
    fitted: FittedOptions,
    sources: SourceOptions,
) -> None:
    """Extract triples from texts with a fitted model.

    Prints a table for --text. For files it writes one JSON object per text, in
    order: the text and its triples, each with places, relation, probability
    and the heads that decided. Spans are found by the sources saved with the
    model; sources named here take their place.

    Examples:
      infuser relations extract MODEL --text "Bern is the capital of Switzerland."
      infuser relations extract MODEL news.jsonl --out triples.jsonl
      cat news.txt | infuser relations extract MODEL - --flat > triples.jsonl
    """
    given, n_texts = sources.read(), texts.count()
    extractor = fitted.open(model)
    from infuser.relations import extraction
    from infuser.relations.saving import find_sources

    spans = find_sources(model, given)

    def kept(text: str, found: Sequence[FoundTriple]) -> list[dict[str, Any]]:
        wanted = [one for one in found if negated == "mark" or one.triple.negated == (negated == "only")]
        return [one.to_json(text) for one in wanted]

    if texts.text is not None:
        [found] = extraction.extract(extractor, [texts.text], spans, n_heads=heads)
        _print_triples(kept(texts.text, found))
        return
    n_read = n_triples = n_with_triples = 0
    started = time.monotonic()
    with writing(texts.out, "extracting", n_texts) as write:
        for path, text, found in texts.each(lambda read: extraction.extract(extractor, read, spans, n_heads=heads)):
            triples = kept(text, found)
            n_read += 1
            n_triples += len(triples)
            n_with_triples += bool(triples)
            if flat:
                about = texts.about(path, text, number=n_read)
                write(about | triple for triple in triples)
            else:
                write([texts.about(path, text) | {"triples": triples}])
    summary = f"{counted(n_read, 'text')}, {counted(n_triples, 'triple')} in {n_with_triples:,} of them"
    texts.print_done(summary, n_read, "texts", time.monotonic() - started)


def _print_triples(triples: Sequence[Mapping[str, Any]]) -> None:
    """Print a table of the triples and the heads that decided."""
    if not triples:
        say("No triple was found. A lower --gate or --best finds more.")
        return
    rows = []
    for one in triples:
        named = one["relation"] if one["label"] in ("", one["relation"]) else f"{one['relation']} ({one['label']})"
        head, tail, words = (one[end]["text"] if end in one else "" for end in ("head", "tail", "trigger"))
        heads = ", ".join(f"layer {head['layer']} head {head['head']}" for head in one["heads"])
        relation = f"not {named}" if one["negated"] else named
        rows.append((head, relation, tail, f"{one['probability']:.2f}", words, heads))
    print_table(("head", "relation", "tail", "probability", "words", "heads that decided"), rows, left=(0, 1, 2, 4, 5))
