"""Makes the model that `infuser view` shows when nothing is given, and measures it.

MiniLM stays as it is; only the weights of KAM and a classifier are trained, on the demo's query-to-ad pairs, with three
sources: the demo's graph, words that occur together in WordNet's glosses, and set phrases. What is kept in
the package is small: the new weights, and of the knowledge what concerns the test pairs, whose terms no training pair
has. WordNet is (c) Princeton University, free for any use with this notice.

KAM is trained with several learning rates. The one with the best AUC on the dev pairs is taken, of those with which no
head runs away on them (moves more than half of its attention on words without knowledge); test pairs are scored once.

    python benchmarks/viewer_default.py            # trains and measures, about ten minutes
    python benchmarks/viewer_default.py --write    # and puts it into src/infuser/viewer/default
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.torch import save
from support.measuring import write_result
from transformers import AutoTokenizer, set_seed
from transformers.utils import logging

from infuser import Correlation, Graph, Infused, Kam, TrainSettings, assets, infuse, train
from infuser.analysis.diagnose.effects import without_channel
from infuser.analysis.explain import explain
from infuser.demo import count_glosses
from infuser.files import write_whole
from infuser.hosts import is_new_weight
from infuser.methods.together import describe
from infuser.signals import Collator
from infuser.sources import Phrases
from infuser.sources.naming import source_names
from infuser.tasks.query_ads import QueryAds, build_query_ads
from infuser.training import evaluate
from infuser.viewer.default import FOLDER, KNOWLEDGE, WEIGHTS, sources_of

RESULT = Path(__file__).parent / "results" / "viewer_default.json"
PHRASES = (
    *("near me", "for sale", "this weekend", "looking for", "how much", "where to find", "free delivery"),
    *("open sunday", "top rated", "since 1987", "call now", "huge selection", "book online", "save up to 20%"),
)
LABELS = ("not relevant", "relevant")
N_TERMS, N_EXAMPLES = 3, 8
METHOD = Kam(map_step=1000)
RATES = (1e-4, 3e-4, 1e-3)
"""Learning rates of KAM's weights; steps of maps are these times `map_step`."""
N_WATCHED = 40
"""Dev pairs in which runaway heads are looked for."""


def main() -> None:
    """Train, measure with all knowledge and with what is kept, and write it if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="Replace what the package holds.")
    parser.add_argument("--pairs", type=int, default=2000, help="Pairs to train on.")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--rates", type=float, nargs="+", default=RATES, help="Learning rates of KAM's weights.")
    options = parser.parse_args()
    logging.set_verbosity_error()
    encoder, wordnet = assets.fetch("minilm"), assets.fetch("wordnet")
    pieces = AutoTokenizer.from_pretrained(encoder).tokenize
    data = build_query_ads(
        wordnet, n_train=options.pairs, n_dev=160, n_test=600, max_topics=16, tokenizer_pieces=pieces
    )
    with tempfile.TemporaryDirectory() as folder:
        glosses = count_glosses(wordnet, Path(folder))
        correlation, tried = Correlation.load(glosses, n_terms=N_TERMS), {}
        for rate in options.rates:
            one = trained(str(encoder), data, correlation, options.epochs, rate)
            tried[rate] = {"dev auc": auc(one, data.dev), "pairs with runaway heads": n_runaway(one, data)}, one
            print(f"rate {rate:g}: {tried[rate][0]}")
        calm = [rate for rate, (told, _) in tried.items() if not told["pairs with runaway heads"]]
        rate = max(calm, key=lambda rate: tried[rate][0]["dev auc"])
        infused = tried[rate][1]
        scores = {"all knowledge": auc(infused, data.test)}
        kept = kept_knowledge(data, infused.sources[1])
    smaller = infused.with_sources(sources_of(kept))
    scores["what is kept"] = auc(smaller, data.test)
    for place, name in enumerate(source_names(infused.sources)):
        scores[f"without {name}"] = auc(smaller, data.test, off=place)
    scores["without knowledge"] = auc(smaller, data.test, plain=True)
    for name, score in scores.items():
        print(f"{name:24} AUC {score:.3f}")
    kept["examples"] = clearest(smaller, data)
    kept["method"] = describe(infused.method)
    told = {
        "auc": scores,
        "n_train": options.pairs,
        "epochs": options.epochs,
        "n_test": len(data.test),
        "rate": rate,
        "tried": {f"{one:g}": told for one, (told, _) in tried.items()},
    }
    write_result(RESULT, told)
    if options.write:
        write_default(smaller, kept)


def trained(encoder: str, data: QueryAds, correlation: Correlation, epochs: int, rate: float) -> Infused:
    """Return MiniLM with knowledge inside, of which only KAM and the classifier have learned."""
    set_seed(0)
    sources = [Graph(data.graph.triples, data.graph.aliases), correlation, Phrases(list(PHRASES))]
    options = {"num_labels": 2, "id2label": dict(enumerate(LABELS))}
    infused = infuse(encoder, METHOD, sources=sources, task="sequence-classification", **options)
    for name, weight in infused.model.named_parameters():
        weight.requires_grad_(is_new_weight(name) or name.startswith("classifier."))
    settings = TrainSettings(epochs=epochs, batch_size=16, learning_rate=1e-3, new_learning_rate=rate)
    train(infused.model, data.train, infused.collator(), dev=data.dev, settings=settings)
    return infused


def n_runaway(infused: Infused, data: QueryAds) -> int:
    """Return in how many of the watched dev pairs a head moves more than half of what words without knowledge read."""
    return sum(bool(explain(infused, one["text"], one["pair"]).runaway) for one in data.dev[:N_WATCHED])


def auc(infused: Infused, examples: list[Any], off: int | None = None, *, plain: bool = False) -> float:
    """Return the AUC, perhaps with a source that finds nothing, or without the method (and so without knowledge)."""
    collator = Collator(infused.tokenizer, max_length=128) if plain else infused.collator()
    if off is not None:
        found = collator.annotate([one["text"] for one in examples], [one["pair"] for one in examples])
        silent = without_channel(found, off)
        examples = [{**one, "annotations": left} for one, left in zip(examples, silent, strict=True)]
    return float(evaluate(infused.model, examples, collator).metrics["auc"])


def kept_knowledge(data: QueryAds, correlation: Any) -> dict[str, Any]:
    """Return what the sources know about the test pairs, as plain JSON values."""
    terms = {example["term"] for example in data.test}
    found = correlation.annotate([f"{example['text']}\n\n{example['pair']}" for example in data.test])
    ties: dict[tuple[str, str], float] = {}
    for one in found:
        words = [one.text[span.start : span.end].lower() for span in one.spans]
        rows = [(words[link.source], words[link.target], link.weight) for link in one.links]
        rows += [(words[place], term.text, weight) for term in one.terms for place, weight in term.ties]
        ties |= {(min(a, b), max(a, b)): round(weight, 3) for a, b, weight in rows}
    triples = [triple for triple in data.graph.triples if triple[0] in terms]
    entities = sorted({end for head, _, tail in triples for end in (head, tail)})
    return {
        "about": "Of WordNet, (c) Princeton University: made by benchmarks/viewer_default.py",
        "labels": list(LABELS),
        "triples": [list(triple) for triple in triples],
        "aliases": {entity: list(data.graph.aliases[entity]) for entity in entities if entity in data.graph.aliases},
        "correlation": [[a, b, weight] for (a, b), weight in sorted(ties.items())],
        "phrases": list(PHRASES),
    }


def clearest(infused: Infused, data: QueryAds) -> list[dict[str, str]]:
    """Return the pairs whose answer knowledge mended most, no topic twice, and the one that it spoilt most."""
    plain = Collator(infused.tokenizer, max_length=128)
    before, after = (
        evaluate(infused.model, data.test, collate).logits[:, 1] for collate in (plain, infused.collator())
    )
    sign = np.array([1 if example["label"] else -1 for example in data.test])
    order = [data.test[place] for place in np.argsort(-sign * (after - before))]
    mended = list({example["topic"]: example for example in reversed(order[:60])}.values())[::-1]
    chosen = [*mended[: N_EXAMPLES - 1], order[-1]]
    return [{"text": example["text"], "pair": example["pair"]} for example in chosen]


def write_default(infused: Infused, kept: dict[str, Any]) -> None:
    """Write the weights that are not MiniLM's own, and the knowledge, each whole or not at all."""
    state = infused.model.state_dict()
    new = {name: state[name].contiguous() for name in state if is_new_weight(name) or name.startswith("classifier.")}
    write_whole(FOLDER / WEIGHTS, save(new))
    lines = [f" {json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}" for name, value in kept.items()]
    write_whole(FOLDER / KNOWLEDGE, "{\n" + ",\n".join(lines) + "\n}\n")
    size = sum(path.stat().st_size for path in FOLDER.iterdir())
    print(f"Written: {size / 1024:.0f} KiB in {FOLDER.name}/")


if __name__ == "__main__":
    main()
