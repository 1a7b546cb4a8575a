"""How well linkers choose among candidates in documents they never saw, beside baselines that read no text.

Two knowledge bases, the MiniLM encoder, several seeds:

    wikidata   names, link counts and descriptions of shared/data and the asset wikidata-small. Trained on the ELEVANT
               sets OKE (train), Wiki-Fair and RSS-500, read on six others; no text of these is ever trained on.
    wordnet    synsets by all forms of their lemmas, vectors of the definitions alone. The usage examples in the glosses
               are the texts: one part is trained on, another read; no sentence is in both.

A linker learns without labels (unambiguous names, corrupted candidates) or with them. Scores are strict, over all gold
mentions; beside them the ceiling that candidates set, and the accuracy where the right entity is among the candidates.

    python benchmarks/linking.py                 # both; the knowledge bases are built into runs/linking once
    python benchmarks/linking.py wordnet --seeds 5
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import candidate_recall as wikidata
import torch
from support.measuring import about, write_result
from support.wordnet_texts import definition_of, wordnet_examples, wordnet_mentions

from infuser import Candidates, EntityVectors, Kar, KnowledgeBase, TrainSettings, assets, infuse
from infuser.knowledge.candidates.store import CandidateStore, build_candidates
from infuser.knowledge.facts import pack_mentions
from infuser.knowledge.readers.wikidata_small import read_wikidata_small
from infuser.knowledge.readers.wordnet import read_synsets
from infuser.knowledge.vectors.descriptions import Described
from infuser.linking.description_vectors import DescriptionVectors, build_from_descriptions
from infuser.linking.evaluation import entity_totals, most_frequent, prior_only
from infuser.linking.examples import LinkedText, link_examples
from infuser.linking.inference import find_mentions
from infuser.linking.mentions import Mention
from infuser.linking.readers import read_links
from infuser.linking.scores import score_links
from infuser.linking.self_supervision import SelfSupervision, UnambiguousTexts
from infuser.linking.training import train_linker
from infuser.linking.windows import window_linked

SHARED = wikidata.SHARED
RESULT = Path(__file__).parent / "results" / "linking.json"
WORK = Path(__file__).resolve().parents[1] / "runs" / "linking"
TRAIN_SETS = ("oke-2015-train", "oke-2016-train", "wiki-fair-v2-no-coref", "rss-500")
TEST_SETS = ("news-fair-v2-no-coref", "msnbc-updated", "kore50", "derczynski", "oke-2015-eval", "oke-2016-eval")


@dataclass(frozen=True)
class Set:
    """A knowledge base with labelled texts to learn from and to be read, and texts without labels."""

    base: KnowledgeBase
    train: list[LinkedText]
    test: list[LinkedText]
    corpus: list[str]
    supervision: SelfSupervision


def elevant(names: Iterable[str]) -> list[LinkedText]:
    """Return the texts of ELEVANT sets."""
    return [text for name in names for text in read_links(SHARED / "linking" / f"{name}.benchmark.jsonl")]


def wikidata_set(work: Path, n_corpus: int) -> Set:
    """Return Wikidata as far as texts mention it: names that no text has cannot be found and are left out."""
    test = elevant(TEST_SETS)
    seen = {one.text for one in test}
    train = [part for one in elevant(TRAIN_SETS) if one.text not in seen for part in window_linked(one, 100)]
    lines = (SHARED / "corpora" / "trex_evidence_sentences.txt").read_text(encoding="utf-8").splitlines()
    corpus = [line for line in random.Random(0).sample(lines, 6_000)[:n_corpus] if line not in seen]
    if not (work / "wikidata-vectors").exists():
        knowledge = wikidata.gather(None)
        store = build_candidates(batch for of_kind in knowledge.values() for batch in of_kind)
        small = met_in([*(one.text for one in (*train, *test)), *corpus], store)
        small.save(work / "wikidata-candidates")
        encode(described_wikidata(small), work / "wikidata-vectors")
    base = KnowledgeBase(Candidates(work / "wikidata-candidates"), work / "wikidata-vectors", "wikidata")
    # names of Wikidata begin with a capital; "well" and "made" are names of works there, and hardly ever meant
    return Set(base, train, test, corpus, SelfSupervision(capitals=True))


def wordnet_set(work: Path, n_train: int, n_test: int) -> Set:
    """Return WordNet's senses as far as the chosen examples need them."""
    folder = assets.fetch("wordnet")
    examples = list({one.text: one for one in wordnet_examples(folder)}.values())
    random.Random(0).shuffle(examples)
    train, test = examples[n_test : n_test + n_train], examples[:n_test]
    if not (work / "wordnet-vectors").exists():
        small = met_in([one.text for one in (*train, *test)], build_candidates(wordnet_mentions(folder)))
        small.save(work / "wordnet-candidates")
        wanted = {small.ids[number] for number in range(len(small.ids))}
        synsets = [synset for pos in "nvar" for synset in read_synsets(folder, pos).values() if synset.id in wanted]
        said = {
            s.id: Described(s.id, ", ".join(s.lemmas[:3]).replace("_", " "), definition_of(s.gloss)) for s in synsets
        }
        encode(list(said.values()), work / "wordnet-vectors")
    base = KnowledgeBase(Candidates(work / "wordnet-candidates"), work / "wordnet-vectors", "wordnet")
    return Set(base, train, test, [one.text for one in train], SelfSupervision())


def met_in(texts: Sequence[str], store: CandidateStore) -> CandidateStore:
    """Return the part of a store whose names stand in some of the texts."""
    met = {
        number
        for places in store.gazetteer.find(texts, overlaps=True)
        for _, _, spellings in places
        for number in spellings
    }
    rows = (
        (store.spellings[number], store.ids[entity], count)
        for number in sorted(met)
        for entity, count in zip(*(part.tolist() for part in store.counts(number)), strict=True)
    )
    return build_candidates(pack_mentions(rows))


def described_wikidata(store: CandidateStore) -> list[Described]:
    """Return what is said about the entities of a store: descriptions, else types, else nothing but the name."""
    said: dict[str, tuple[str, str]] = {}

    def add(id: str, label: str | None, description: str | None) -> None:
        before = said.get(id, ("", ""))
        said[id] = before[0] or label or "", before[1] or description or ""

    for batch in wikidata.names():
        for row in batch.to_pylist():
            add(row["id"], row["label"], row["description"])
    for batch in read_wikidata_small(assets.fetch("wikidata-small")):
        if "types" in batch.schema.names:
            for row in batch.to_pylist():
                add(row["id"], row["label"], ", ".join(row["types"] or ())[:100])
    entities = []
    for number in range(len(store.ids)):
        id = store.ids[number]
        title = id.removeprefix("title:")
        label, description = (title, "") if title != id else said.get(id, ("", ""))
        entities.append(Described(id, label or id, description))
    return entities


def encode(entities: list[Described], out: Path) -> EntityVectors:
    """Return vectors of descriptions, read by the encoder itself."""
    settings = DescriptionVectors(missing="label", max_tokens=48)
    return build_from_descriptions(entities, "minilm", out, settings, progress=True)


def measures(data: Set, found: Sequence[Sequence[Mention]]) -> dict[str, float]:
    """Return the strict scores on the texts that were held out."""
    total = score_links(data.test, found).total
    return {name: round(getattr(total, name), 4) for name in total.measures}


def run(data: Set, seed: int, epochs: int, self_epochs: int) -> dict[str, dict[str, float]]:
    """Train linkers from one seed and return the scores of each."""
    bases, texts = {data.base.name: data.base}, [one.text for one in data.test]
    checkpoint = str(assets.fetch("minilm"))
    hidden = UnambiguousTexts(data.corpus, bases, data.supervision).examples(seed=seed, epoch=0, mask_token="[MASK]")
    scores = {}
    for arm, examples, n_epochs in (
        ("without labels", hidden, self_epochs),
        ("with labels", link_examples(data.train, bases), epochs),
    ):
        torch.manual_seed(seed)
        infused = infuse(checkpoint, Kar(), sources=[data.base])
        started = time.perf_counter()
        settings = TrainSettings(epochs=n_epochs, batch_size=32, learning_rate=1e-3, new_learning_rate=1e-3, seed=seed)
        train_linker(infused, examples, settings=settings, progress=False)
        trained = time.perf_counter()
        scores[arm] = {
            **measures(data, find_mentions(infused, texts)),
            "examples": len(examples),
            "train_seconds": round(trained - started),
            "link_seconds": round(time.perf_counter() - trained),
        }
        print(f"seed {seed} {arm:30}", scores[arm], flush=True)
    return scores


def main() -> None:
    """Run knowledge bases and put the results of each beside those that are there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", choices=("wikidata", "wordnet"), default=("wikidata", "wordnet"))
    parser.add_argument("--work", type=Path, default=WORK, help="folder for the knowledge bases")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=6, help="over labelled texts")
    parser.add_argument("--self-epochs", type=int, default=2, help="over texts without labels")
    parser.add_argument("--corpus", type=int, default=3_000, help="sentences without labels (wikidata)")
    parser.add_argument("--train", type=int, default=8_000, help="examples (wordnet)")
    parser.add_argument("--test", type=int, default=2_000, help="examples (wordnet)")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    for name in options.sets:
        result = compare(name, options)
        everything = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.exists() else {}
        write_result(RESULT, {**everything, name: result})


def compare(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return the scores of baselines and linkers on one knowledge base."""
    if name == "wikidata":
        data = wikidata_set(options.work, options.corpus)
    else:
        data = wordnet_set(options.work, options.train, options.test)
    texts = [one.text for one in data.test]
    assert isinstance(data.base.candidates, Candidates)
    store = data.base.candidates.finder.store
    result: dict[str, Any] = {
        **about(),
        "options": {option: value for option, value in vars(options).items() if option not in ("work", "sets")},
        "n_names": len(store),
        "n_entities": len(store.ids),
        "train": {"texts": len(data.train), "mentions": sum(len(one.spans) for one in data.train)},
        "test": {"texts": len(data.test), "mentions": sum(len(one.spans) for one in data.test)},
        "without reading": {
            "prior only": measures(data, prior_only(texts, data.base)),
            "most frequent": measures(data, most_frequent(texts, data.base, entity_totals(store))),
        },
        "seeds": [],
    }
    for baseline, row in result["without reading"].items():
        print(f"{baseline:37}", row, flush=True)
    for seed in range(options.seeds):
        result["seeds"].append(run(data, seed, options.epochs, options.self_epochs))
    return result


if __name__ == "__main__":
    main()
