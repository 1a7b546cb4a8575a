"""The four sources, what each finds in a text, and auxiliary terms. No model is needed: sources speak of characters.

python examples/sources.py
"""

from __future__ import annotations

import re

from infuser import Correlation, Entities, Graph, Source
from infuser.sources import Phrases
from infuser.types import join_pair


def capitalised(text: str) -> list[tuple[int, int]]:
    """A chunker of your own: takes a text, returns (start, end) in characters."""
    return [match.span() for match in re.finditer(r"[A-Z]\w+(?: [A-Z]\w+)+", text)]


entities = Entities({"Fred Meyer": "shop", "glipizide": "medicine"})
phrases = Phrases(["near me"], chunker=capitalised)
correlation = Correlation({("buy", "store"): 2.0, ("tablets", "pharmacy"): 4.0, ("buy", "shop"): 3.0}, n_terms=1)
graph = Graph(
    [("glipizide", "treats", "diabetes"), ("glipizide", "sold by", "pharmacy", 0.9)],
    aliases={"pharmacy": ["pharmacy", "drug store"]},
)

learned = Correlation.from_texts(["the cat sat", "the cat ran", "a dog ran", "cat and mouse", "mouse and cat"])
print("learned from texts:", dict(learned.scores))


def show(source: Source, text: str) -> None:
    [found] = source.annotate([text])
    print(type(source).__name__)
    for link in found.links:
        one, other = (text[span.start : span.end] for span in (found.spans[link.source], found.spans[link.target]))
        print(f"  {one!r} - {other!r}  {link.weight:.2f}  {link.relation}")
    for term in found.terms:
        print(
            f"  term {term.text!r}, tied to", [text[found.spans[at].start : found.spans[at].end] for at, _ in term.ties]
        )


# the two sides of a pair are one text for a source, so a link may lead from one side to the other
text = join_pair("buy glipizide tablets", "Fred Meyer Drug Store near me")
for source in (entities, phrases, correlation, graph):
    show(source, text)
