"""What attention knows about relations, and how well triples are extracted by it, beside the published numbers.

    probe    95 relations of T-REx (train to test): gate and classifier on MiniLM's attention, beside an encoder with
             random weights and shuffled labels; with triggers and for pairs alone
    trex     extraction from the raw text of T-REx's test set: spans from spaCy, thresholds tuned on its dev set
    docred   extraction from Re-DocRED's test documents, fitted on its dev documents (its training set is not here), and
             with the model of T-REx
Each step is kept as soon as it is done, and steps that are there are not done again.

    python benchmarks/relations.py                 # all; the data are read from ../shared/data/relations
    python benchmarks/relations.py probe trex
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from support.measuring import about, timed, write_result

from infuser import assets
from infuser.analysis.probe.relations import ProbeSettings, probe_relations, probe_report, randomly_initialised
from infuser.analysis.probe.result import ProbeReport
from infuser.hosts.loading import load_model, load_tokenizer
from infuser.relations.candidates import CandidateRule
from infuser.relations.classifier import Thresholds
from infuser.relations.encoders import Encoder
from infuser.relations.evaluation import ExtractionTest
from infuser.relations.examples import RelationText
from infuser.relations.model import AttentionRelations
from infuser.relations.readers import read_relations
from infuser.relations.scores import MATCHES, RelationCounts, score_relations
from infuser.reports.probe_page import write_probe
from infuser.sources.spacy_pipelines import SpacyEntities, SpacyPhrases
from infuser.types import Source

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data" / "relations"
RESULT = Path(__file__).parent / "results" / "relations.json"
WORK = ROOT / "runs" / "relations"
SENTENCES = CandidateRule(max_spans=40, max_pairs=400)
DOCUMENTS = CandidateRule(max_spans=400, max_pairs=4000, max_distance=400)
PUBLISHED = {
    "probe": {"binary": 0.902, "precision": 0.867, "recall": 0.861, "f1": 0.863},
    "probe, random weights": {"binary": 0.498, "precision": 0.026, "recall": 0.024, "f1": 0.018},
    "T-REx, lenient": {"precision": 0.220, "recall": 0.534, "f1": 0.312},
    "DocRED, lenient": {"precision": 0.259, "recall": 0.175, "f1": 0.208},
}
"""Of the paper, with BERT-base (Chizhikova et al., "Attention Understands Semantic Relations")."""


def probe_steps(seed: int) -> dict[str, Callable[[], dict[str, Any]]]:
    """Return the probes: with the words that say the relation, and without."""
    return {
        "probe with triggers": lambda: _probe(True, seed),
        "probe of pairs": lambda: _probe(False, seed),
    }


def _probe(trigger: bool, seed: int) -> dict[str, Any]:
    encoder = minilm()
    settings = ProbeSettings(trigger=trigger, curve=trigger, seed=seed)
    probed = probe_relations(
        encoder.model, encoder.tokenizer, trex("train"), trex("test"), name="MiniLM", settings=settings, progress=True
    )
    report = probe_report([probed])
    write_probe(report, WORK / ("probe with triggers" if trigger else "probe of pairs"))
    return probe_numbers(report)


def probe_numbers(report: ProbeReport) -> dict[str, Any]:
    """Return what is kept of a report: scores and controls, layers, what is taken for what."""
    reading = report.readings[0]
    scores = {"encoder": reading.scores, "random weights": reading.control, "shuffled labels": reading.shuffled}
    return {
        "scores": {name: asdict(one) for name, one in scores.items() if one},
        "layers": reading.layers,
        "confusions": reading.confusions[:20],
        "facts": dict(report.facts),
        "notes": report.notes,
    }


def trex_steps(seed: int, n_dev: int) -> dict[str, Callable[[], dict[str, Any]]]:
    """Return the extractions from T-REx: ours, the paper's recipe, and ours on an encoder with random weights."""
    paper = {"negatives": 1.0, "none_class": False}
    return {
        "trex": lambda: _trex("trex", minilm(), {}, seed, n_dev),
        "trex, the paper's recipe": lambda: _trex("paper", minilm(), paper, seed, n_dev),
        "trex, random weights": lambda: _trex("random", random_minilm(seed), {}, seed, n_dev),
    }


def _trex(name: str, encoder: Encoder, settings: Mapping[str, Any], seed: int, n_dev: int) -> dict[str, Any]:
    spans = (SpacyEntities(), SpacyPhrases())
    dev = trex("valid")
    dev = dev[:: max(1, len(dev) // n_dev)]
    folder = WORK / f"{name}-{seed}"
    if folder.exists():  # a fit takes minutes; after a change of the code: --anew
        model = AttentionRelations.load(folder, encoder=encoder)
    else:
        model = AttentionRelations(encoder, rule=SENTENCES, seed=seed, **settings).fit(
            trex("train"), spans=spans, progress=True
        )
        model.save(folder)
    return _extraction(model, dev, trex("test"), spans)


def docred_steps(seed: int) -> dict[str, Callable[[], dict[str, Any]]]:
    """Return the extractions from Re-DocRED: from raw text, between known mentions, and with T-REx's model."""
    return {
        "docred": lambda: _docred(seed, (SpacyEntities(),)),
        "docred, known mentions": lambda: _docred(seed, ()),
        "docred, model of trex": lambda: _docred_from_trex(seed),
    }


def _docred(seed: int, spans: Sequence[Source]) -> dict[str, Any]:
    documents = docred("dev")
    fitted, tuned = documents[:400], documents[400:]
    model = AttentionRelations(minilm(), rule=DOCUMENTS, seed=seed).fit(fitted, spans=spans, progress=True)
    return _extraction(model, tuned, docred("test"), spans)


def _docred_from_trex(seed: int) -> dict[str, Any]:
    spans = (SpacyEntities(), SpacyPhrases())
    model = AttentionRelations.load(WORK / f"trex-{seed}", encoder=minilm())
    return _extraction(model, docred("dev")[::5], docred("test"), spans)


def _extraction(
    model: AttentionRelations, dev: Sequence[RelationText], test: Sequence[RelationText], spans: Sequence[Source]
) -> dict[str, Any]:
    """Return all scores on test, at thresholds tuned on dev for each way of counting and at the paper's."""
    tuning = ExtractionTest(model, dev, spans, progress=True)
    started = time.perf_counter()
    extraction = ExtractionTest(model, test, spans, progress=True)
    seconds = time.perf_counter() - started
    found: dict[str, Any] = {
        "texts per second": len(test) / seconds,
        "n_relations": len(model.classes_) - 1,
        "tuned": {},
    }
    tuned = {match: tuning.best_thresholds(match) for match in ("strict", "lenient")}
    for name, chosen in {**tuned, "the paper's thresholds": Thresholds()}.items():
        if chosen is None:
            continue
        found["tuned"][name] = {
            "thresholds": [chosen.gate, chosen.best],
            **{match: _measures(extraction.scores(match, chosen), intervals=match == name) for match in MATCHES},
        }
    everything = [[one.found.triple for one in of_text] for of_text in extraction.proposals]
    found["every pair"] = {match: _measures(score_relations(test, everything, match=match)) for match in MATCHES}
    found["ceiling"] = extraction.ceiling()
    return found


def _measures(scores: Any, *, intervals: bool = False) -> dict[str, Any]:
    told: dict[str, Any] = {name: getattr(scores.total, name) for name in RelationCounts.measures}
    return told | ({"intervals": scores.intervals()} if intervals else {})


def trex(part: str) -> list[RelationText]:
    """Return a part of the T-REx split."""
    return read_relations(DATA / "trex-95" / f"{part}.csv", "trex")


def docred(part: str) -> list[RelationText]:
    """Return a part of Re-DocRED, whole documents."""
    return read_relations(DATA / "re-docred" / f"{part}_revised.json", "docred")


def minilm() -> Encoder:
    """Return the encoder."""
    folder = str(assets.fetch("minilm"))
    return Encoder(load_model(folder, "encoder").eval(), load_tokenizer(folder), base="minilm")


def random_minilm(seed: int) -> Encoder:
    """Return the same encoder before it learned anything."""
    known = minilm()
    return Encoder(randomly_initialised(known.model, seed).eval(), known.tokenizer, base="minilm, random weights")


def main() -> None:
    """Do what is missing, and print all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("steps", nargs="*", help="what to do (all)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dev", type=int, default=1000, help="texts of T-REx's dev set that tune thresholds")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--anew", action="store_true", help="forget what was done before")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    done: dict[str, Any] = {}
    if given.anew:
        shutil.rmtree(WORK, ignore_errors=True)
    if RESULT.exists() and not given.anew:
        done = json.loads(RESULT.read_text(encoding="utf-8"))["steps"]
    steps = {
        "probe": probe_steps(given.seed),
        "trex": trex_steps(given.seed, given.dev),
        "docred": docred_steps(given.seed),
    }
    for kind in given.steps or steps:
        for name, step in steps[kind].items():
            if name in done:
                continue
            seconds, result = timed(step)
            done[name] = result | {"seconds": seconds, "seed": given.seed}
            write_result(RESULT, {"steps": done, "published": PUBLISHED, "about": about("torch")})
            print(f"{name}: {done[name]['seconds']:.0f} s", flush=True)
    _print(done)


def _print(done: Mapping[str, Any]) -> None:
    for name, one in done.items():
        print(f"\n{name}")
        for what, scores in (one.get("scores") or {}).items():
            print(f"  {what:18} " + "  ".join(f"{part} {value:.3f}" for part, value in scores.items()))
        for tuned, scores in (one.get("tuned") or {}).items():
            print(f"  thresholds {scores['thresholds']} ({tuned})")
            for match in MATCHES:
                print(
                    f"    {match:9} "
                    + "  ".join(f"{part} {scores[match][part]:.3f}" for part in RelationCounts.measures)
                )
        if "ceiling" in one:
            print(f"  ceiling of strict recall {one['ceiling']:.3f}; {one['texts per second']:.1f} texts a second")
            print("  every pair " + "  ".join(f"{m} F1 {one['every pair'][m]['f1']:.3f}" for m in MATCHES))
    print("\npublished (BERT-base)")
    for name, scores in PUBLISHED.items():
        print(f"  {name:24} " + "  ".join(f"{part} {value:.3f}" for part, value in scores.items()))


if __name__ == "__main__":
    main()
