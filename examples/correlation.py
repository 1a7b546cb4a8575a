"""Words that occur together: counted in a corpus, saved as a folder, looked at, read by an encoder.

python examples/correlation.py [--checkpoint CHECKPOINT] [--out DIRECTORY]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import miniature

from infuser import Correlation, Kam, infuse
from infuser.analysis.explain import explain
from infuser.knowledge.correlation.scores import Scoring
from infuser.knowledge.correlation.store import CorrelationStore, save_correlation
from infuser.knowledge.counting import Counting, count_texts
from infuser.knowledge.counting.build import build_correlation

CORPUS = """\
The pharmacy sells tablets. The florist sells roses.
Buy tablets at the pharmacy! Roses come from the florist.
My pharmacy had no tablets, the bakery had bread.
Fresh bread from the bakery. A bakery sells bread and cakes.
Who sells medicine? The pharmacy sells medicine and tablets.
"""

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--checkpoint", help="hub id or directory; else a miniature is built")
parser.add_argument("--out", type=Path, help="where the folders go; else a directory that goes away again")
given = parser.parse_args()
checkpoint, out = given.checkpoint or miniature.checkpoint(), given.out or miniature.scratch()
out.mkdir(parents=True, exist_ok=True)
(out / "corpus.txt").write_text(CORPUS, encoding="utf-8")

# a corpus on disk, of any size; the defaults (words seen 5 times, pairs seen twice) are for larger ones
counting = Counting(unit="sentence", min_count=2, min_pairs=1, stop_words=["the", "and"])
store = build_correlation([out / "corpus.txt"], out / "company", counting)
print(f"{store.n_words} words in {store.n_units} sentences, {store.n_pairs} pairs, {store.n_ties} of them tied")

for near in store.neighbours("pharmacy", 3):
    print(f"  pharmacy - {near.word}  {near.score:.2f}, {near.together} times together, {near.count} times seen")

# the same counts, another score: the corpus is not needed again
save_correlation(store.counts(), Scoring("pmi", smoothing=0.5), out / "shrunk")
shrunk = CorrelationStore.open(out / "shrunk")
print("PMI of pharmacy and tablets, shrunk:", round(shrunk.pair("pharmacy", "tablets").score or 0.0, 2))

# texts in memory; here pairs of a query and an ad, whose ties lead from left to right
log = [("buy roses", "florist near me"), ("cheap roses", "your local florist"), ("buy bread", "bakery open today")]
save_correlation(count_texts(log, Counting("pair", min_count=1, min_pairs=1)), Scoring(), out / "querylog")
querylog = CorrelationStore.open(out / "querylog")
print("who asks for roses finds a", querylog.neighbours("roses", 1)[0].word)

source = Correlation.load(out / "company", n_terms=1)
text = "where to buy tablets"
[found] = source.annotate([text])
for term in found.terms:
    print(f"term {term.text!r}, tied to", [(found.spans[place].id, round(weight, 2)) for place, weight in term.ties])

infused = infuse(checkpoint, Kam(), sources=[source], task="sequence-classification", num_labels=2)
explanation = explain(infused, text, "pharmacy open today")
print("maps:", {name: drawn.shape for name, drawn in explanation.maps.items()}, "terms:", explanation.terms)
