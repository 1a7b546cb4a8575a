"""Whether exported models answer as they do in torch: MiniLM with a classifier, 1,000 glosses of WordNet per method.

New weights are moved away from where they change nothing, and the classifier's are made large, so that knowledge
changes answers and a mistake would show. "difference" is the largest of a logit; the target is 1e-4. "changed" is how
far a logit moves by knowledge at most, on the first 100. Of these, one at a time, it also says what a text takes in
torch and exported, each with one thread, making batches included: roughly, not as a benchmark of speed. The result of
each method is written as soon as it is there, beside those of earlier runs.

    python benchmarks/export_agreement.py                 # about twenty minutes
    python benchmarks/export_agreement.py kam types       # some methods only
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from support.measuring import about, timed, write_result
from torch import Tensor

from infuser import Candidates, Entities, EntityVectors, Infused, KnowledgeBase, assets, infuse
from infuser.exporting import export_parts
from infuser.hosts import is_new_weight
from infuser.knowledge.readers.wordnet import read_synsets
from infuser.methods import Ernie, Kam, Kar, Text, Types
from infuser.runtime import load

RESULT = Path(__file__).parent / "results" / "export_agreement.json"
METHODS: dict[str, Any] = {
    "types": Types(),
    "kam": Kam(),
    "kam-types": Kam(channels="types"),
    "kam-bias": Kam(fusion="bias"),
    "text": Text(),
    "kar": Kar(),
    "ernie": Ernie(),
    "types+kam": [Types(), Kam()],
}
N_TEXTS, N_TIMED = 1000, 100
TARGET = 1e-4


def read_wordnet() -> tuple[list[str], dict[str, str], dict[str, dict[str, float]]]:
    """Return glosses, nouns with the file of the lexicographer they stand in, and what each noun may mean."""
    synsets = list(read_synsets(assets.fetch("wordnet"), "n").values())
    texts = [synset.gloss for synset in synsets[:: len(synsets) // N_TEXTS]][:N_TEXTS]
    labels: dict[str, str] = {}
    meanings: dict[str, dict[str, float]] = {}
    for synset in synsets:
        for lemma, count in zip(synset.lemmas, synset.counts, strict=True):
            if len(lemma) > 4 and count:
                labels.setdefault(lemma, f"length {len(lemma) % 5}")
                meanings.setdefault(lemma, {})[synset.id] = 1.0 + count
    return texts, labels, meanings


def infuse_minilm(name: str, labels: dict[str, str], meanings: dict[str, dict[str, float]]) -> Infused:
    """Return MiniLM with a method whose new weights do something."""
    if name in ("kar", "ernie"):
        ids = sorted({entity for of_word in meanings.values() for entity in of_word})
        vectors = np.random.default_rng(0).normal(size=(len(ids), 64)).astype(np.float32)
        source: Any = KnowledgeBase(Candidates(meanings), EntityVectors.of(ids, vectors), "wordnet")
    else:
        source = Entities(labels, n_terms=0 if name == "kam-bias" else 1)
    torch.manual_seed(0)
    checkpoint = str(assets.fetch("minilm"))
    infused = infuse(checkpoint, METHODS[name], sources=[source], task="sequence-classification", num_labels=3)
    noise = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight_name, weight in infused.model.named_parameters():
            if is_new_weight(weight_name):
                held_small = weight_name.endswith(("maps", "term_gates", ".vectors", "name_gates"))
                weight.add_(torch.randn(weight.shape, generator=noise) * (0.001 if held_small else 0.02))
            elif weight_name.startswith("classifier"):
                weight.mul_(20)
    infused.model.train(False)
    return infused


def measure(name: str, texts: list[str], *words: Any) -> dict[str, Any]:
    """Return how far both forms agree with one method, and roughly what a text takes."""
    infused = infuse_minilm(name, *words)
    collator = infused.collator()

    def ask_torch(some: list[str], **options: Any) -> np.ndarray[Any, Any]:
        with torch.inference_mode():
            batch: dict[str, Tensor] = collator.encode(some)
            return infused.model(**{**batch, **options}).logits.numpy()

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        seconds, report = timed(lambda: export_parts(out, infused.model, collator, infused.method))
        exported = load(out, sources=infused.sources, threads=1)
        differences, changes = [], []
        plain = infused.collator(writer=None, tensors=False)
        for first in range(0, len(texts), 16):
            some = texts[first : first + 16]
            own = ask_torch(some)
            differences.append(np.abs(exported.logits(some) - own).max())
            if first >= N_TIMED:
                continue
            with torch.inference_mode():
                changes.append(np.abs(infused.model(**plain.encode(some)).logits.numpy() - own).max())
        in_torch, _ = timed(lambda: [ask_torch([text]) for text in texts[:N_TIMED]])
        in_runtime, _ = timed(lambda: [exported.logits([text]) for text in texts[:N_TIMED]])
    return {
        "difference": float(max(differences)),
        "changed": float(max(changes)),
        "texts": len(texts),
        "graph_mb": report.n_bytes / 1e6,
        "export_seconds": seconds,
        "torch_ms_per_text": in_torch / N_TIMED * 1e3,
        "exported_ms_per_text": in_runtime / N_TIMED * 1e3,
    }


def main() -> None:
    """Measure every method, print a line for each and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("methods", nargs="*", metavar="METHOD", help=", ".join(METHODS))
    chosen = parser.parse_args().methods or list(METHODS)
    torch.set_num_threads(1)
    texts, *words = read_wordnet()
    rows = {}
    for name in chosen:
        rows[name] = row = measure(name, texts, *words)
        print(
            f"{name:10} difference {row['difference']:.1e}, knowledge changes {row['changed']:.2f}; per text "
            f"{row['torch_ms_per_text']:.1f} ms in torch, {row['exported_ms_per_text']:.1f} ms exported",
            flush=True,
        )
        earlier = json.loads(RESULT.read_text(encoding="utf-8"))["methods"] if RESULT.exists() else {}
        facts = about("torch", "transformers", "onnx", "onnxruntime", target=TARGET, threads=1)
        write_result(RESULT, {"about": facts, "methods": earlier | {name: row}})
    worst = max(row["difference"] for row in rows.values())
    verdict = "met" if worst <= TARGET else "MISSED"
    print(f"The largest difference is {worst:.1e}; the target of {TARGET:.0e} is {verdict}.")


if __name__ == "__main__":
    main()
