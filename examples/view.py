"""A live page about a model of your own: the server runs in a thread, and anybody on this machine can ask it.

python examples/view.py [SAVED_INFUSED_MODEL] [--stay]
"""

from __future__ import annotations

import argparse
import json
import urllib.request

import miniature

import infuser
from infuser.viewer.server import running, serve
from infuser.viewer.views import InfusedView, SampleText

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("model", nargs="?", help="directory that Infused.save wrote; else a miniature is trained")
parser.add_argument("--stay", action="store_true", help="serve until Ctrl-C, for your browser")
given = parser.parse_args()
infused = infuser.load(given.model) if given.model else miniature.trained()
_, [(product, _, shop), *_] = miniature.query_ads(4, seed=1)
example = SampleText(f"buy {product} online", f"{shop} near me")

view = InfusedView(infused, "My model", examples=[example])
with running(view) as address:  # in a thread; `serve(view)` runs until Ctrl-C
    asked = {"text": example.text, "pair": example.pair, "off": ["graph"]}
    request = urllib.request.Request(f"{address}/api/explain", json.dumps(asked).encode())
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request) as answer:
        told = json.load(answer)

if given.stay:
    serve(view, port=8765, when_up=lambda address: print(f"Open {address}"))

print("asked:", example.text, "/", example.pair)
print("left out:", told["off"], "answer without knowledge and with what is left:")
print(" ", told["answer_plain"], told["answer_infused"])
