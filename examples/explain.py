"""A picture of what knowledge changed in one pair: PNG and one self-contained HTML page.

python examples/explain.py [SAVED_INFUSED_MODEL] [--out DIRECTORY]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import miniature

import infuser
from infuser.analysis.explain import explain
from infuser.reports import write_explanation, write_png

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("model", nargs="?", help="directory that Infused.save wrote; else a miniature is trained")
parser.add_argument("--out", type=Path, help="where the files go; else a directory that goes away again")
given = parser.parse_args()
infused = infuser.load(given.model) if given.model else miniature.trained()
out = given.out or miniature.scratch()
_, [(product, _, shop), *_] = miniature.query_ads(4, seed=1)
text, pair = f"buy {product} online", f"{shop} near me"

explanation = explain(infused, text, pair, layer=0, head=None)  # None: the mean over heads
write_png(explanation, out / "explanation.png")
write_explanation(explanation, out / "explanation.html")

print("words:", " ".join(explanation.words))
print("maps:", {name: drawn.shape for name, drawn in explanation.maps.items()})
print("answer without knowledge:", explanation.answer_plain)
print("answer with knowledge:   ", explanation.answer_infused)
for row, column in explanation.largest_changes(3):
    before, after = explanation.plain[row, column], explanation.infused[row, column]
    print(f"  {explanation.words[row]} reads {explanation.words[column]}: {before:.2f} -> {after:.2f}")
print("files:", ", ".join(sorted(file.name for file in out.iterdir())))
