"""How often the right entity is among the candidates, on real linking sets, and what limits it.

A gold mention counts when it has a Wikidata id; those without one (NIL, no mapping, quantities and dates) are counted
apart and left out. It is found when its exact span is a mention, and recalled when its entity is among the candidates
of that span. What is missed has one reason, the first that holds:

    entity unknown   the knowledge holds nothing about this entity
    name unknown     the knowledge does not have the words of this span as a name of anything
    other meanings   it has them as a name, but of other entities only
    not whole words  the span begins or ends inside a word
    too long         it has more than max_words words
    stop words       it has only stop words
    cut              it is not among the first n_candidates

    python benchmarks/candidate_recall.py                              # the table
    python benchmarks/candidate_recall.py --wheel sm_datasets-2.0.3-py3-none-any.whl
    python benchmarks/candidate_recall.py --settings                   # what each setting does, on the training sets
"""

from __future__ import annotations

import argparse
import json
import random
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from support.measuring import about, fastest, timed, write_result

from infuser import assets
from infuser.errors import AssetError
from infuser.knowledge.candidates.files import name_mentions, read_mention_counts
from infuser.knowledge.candidates.mention_rule import MentionRule
from infuser.knowledge.candidates.store import CandidateStore, MentionFinder, build_candidates
from infuser.knowledge.facts import ENTITIES, pack_mentions
from infuser.knowledge.readers.tables import read_table
from infuser.tables.skipped import Skipped
from infuser.words import WordBorders

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
RESULT = Path(__file__).parent / "results" / "candidate_recall.json"
LIMITS = ("entity unknown", "name unknown", "other meanings", "not whole words", "too long", "stop words", "cut")
DEV_SETS = ("oke-2015-train", "oke-2016-train")
"""Settings are chosen on these only; the others are read with the settings as they then are."""

Gold = list[tuple[str, list[tuple[int, int, str]]]]


def read_gold(path: Path) -> tuple[Gold, Counter[str]]:
    """Return texts with their gold mentions (start, end, entity), and how many mentions there are of which kind."""
    texts: Gold = []
    counts: Counter[str] = Counter()
    for line in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        mentions = []
        for label in record["labels"]:
            counts["all"] += 1
            if re.fullmatch(r"Q\d+", label["entity_id"]):
                counts["gold"] += 1
                mentions.append((*label["span"], label["entity_id"]))
            else:
                counts["without entity"] += 1
        texts.append((record["text"], mentions))
    return texts, counts


def names() -> Iterator[pa.RecordBatch]:
    """Yield the entities with labels and aliases that lie in shared/data/kg."""
    skipped = Skipped(strict=True)
    yield from read_table(SHARED / "kg" / "wikidata_labels_merged.tsv", skipped, kind="entities")
    known = json.loads((SHARED / "kg" / "FB15k-237" / "entity2wikidata.json").read_text(encoding="utf-8"))
    rows = [
        {"id": entry["wikidata_id"], "label": entry["label"], "aliases": entry["alternatives"]}
        for entry in known.values()
        if entry["wikidata_id"]
    ]
    yield pa.RecordBatch.from_pylist(rows, schema=ENTITIES)


def titles() -> dict[str, str]:
    """Return Wikipedia title to Wikidata id: by FB15k-237's page addresses, else by a label that one entity has."""
    labels: dict[str, set[str]] = defaultdict(set)
    for batch in names():
        for entity, label in zip(batch.column("id").to_pylist(), batch.column("label").to_pylist(), strict=True):
            labels[label].add(entity)
    found = {label: next(iter(entities)) for label, entities in labels.items() if label and len(entities) == 1}
    known = json.loads((SHARED / "kg" / "FB15k-237" / "entity2wikidata.json").read_text(encoding="utf-8"))
    for entry in known.values():
        if entry["wikidata_id"] and entry["wikipedia"]:
            found[unquote(entry["wikipedia"].rpartition("/wiki/")[2]).replace("_", " ")] = entry["wikidata_id"]
    return found


def counted(id_of: dict[str, str]) -> Iterator[pa.RecordBatch]:
    """Yield the mention counts of shared/data/linking; a title without a Wikidata id stays, as a rival."""
    for batch in read_mention_counts(SHARED / "linking" / "mention_candidates.tsv.gz", Skipped(strict=True)):
        rows = zip(*(batch.column(name).to_pylist() for name in ("mention", "entity", "count")), strict=True)
        yield from pack_mentions((mention, id_of.get(title, f"title:{title}"), count) for mention, title, count in rows)


def gather(wheel: Path | None) -> dict[str, list[pa.RecordBatch]]:
    """Return each kind of knowledge as batches of (mention, entity, count)."""
    knowledge = {"names": list(name_mentions(names())), "counts": list(counted(titles()))}
    try:
        from infuser.knowledge.readers.wikidata_small import read_wikidata_small_mentions

        folder = assets.add("wikidata-small", wheel) if wheel else assets.fetch("wikidata-small")
        knowledge["wikidata-small"] = list(read_wikidata_small_mentions(folder))
    except AssetError as error:
        print(f"Without wikidata-small: {error}\n")
    return knowledge


def measure(store: CandidateStore, rule: MentionRule, gold: Gold) -> dict[str, Any]:
    """Return the counts of one set."""
    finder, wide = MentionFinder(store, rule), MentionFinder(store, replace(rule, n_candidates=10**9))
    ids = {store.ids[number] for number in range(len(store.ids))}
    counts: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    n_candidates = 0
    for (text, mentions), found in zip(gold, finder.find([text for text, _ in gold]), strict=True):
        at = {(start, end): candidates for start, end, candidates in found}
        counts["mentions"] += len(found)
        borders = WordBorders(text)
        for start, end, entity in mentions:
            candidates = at.get((start, end), ())
            counts["gold"] += 1
            counts["found"] += bool(candidates)
            n_candidates += len(candidates)
            if entity in [candidate.id for candidate in candidates]:
                counts["recalled"] += 1
                counts["first"] += candidates[0].id == entity
                continue
            known = wide.lookup(text[start:end])
            if entity not in ids:
                missed["entity unknown"] += 1
            elif not known:
                missed["name unknown"] += 1
            elif entity not in [candidate.id for candidate in known]:
                missed["other meanings"] += 1
            elif borders.widen(start, end) != (start, end):
                missed["not whole words"] += 1
            elif not rule.is_short_enough(text[start:end]):
                missed["too long"] += 1
            else:
                missed["cut" if candidates else "stop words"] += 1
    return {
        **counts,
        "mean candidates": round(n_candidates / counts["found"], 2) if counts["found"] else 0.0,
        "missed": {name: missed[name] for name in LIMITS},
    }


def show(title: str, rows: dict[str, dict[str, Any]]) -> None:
    """Print one table: a row per set."""
    print(f"{title}\n{'':24}{'gold':>6}{'found':>8}{'recall':>8}{'first':>8}{'cand.':>7}", end="")
    print("".join(f"{name:>17}" for name in LIMITS))
    for name, row in rows.items():
        shares = [row[key] / row["gold"] for key in ("found", "recalled", "first")]
        print(f"{name:24}{row['gold']:>6}" + "".join(f"{share:>8.1%}" for share in shares), end="")
        print(f"{row['mean candidates']:>7.1f}" + "".join(f"{row['missed'][limit]:>17}" for limit in LIMITS))
    print()


def in_all(rows: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the sums over sets."""
    keys = ("gold", "found", "recalled", "first", "mentions")
    sums: dict[str, Any] = {key: sum(row.get(key, 0) for row in rows.values()) for key in keys}
    weighed = sum(row["mean candidates"] * row["found"] for row in rows.values())
    missed = {name: sum(row["missed"][name] for row in rows.values()) for name in LIMITS}
    return {**sums, "mean candidates": round(weighed / max(1, sums["found"]), 2), "missed": missed}


def time_it(store: CandidateStore, rule: MentionRule, texts: list[str]) -> dict[str, float]:
    """Return how fast the store is built into a folder, opened and asked; "again" is with what it remembers."""
    with tempfile.TemporaryDirectory() as folder:
        store.save(Path(folder) / "store")
        n_bytes = sum(file.stat().st_size for file in (Path(folder) / "store").iterdir())
        opened, finder = timed(lambda: MentionFinder(CandidateStore.open(Path(folder) / "store"), rule))
        first, n_mentions = timed(lambda: sum(map(len, finder.find(texts))))
        again = fastest({"again": lambda: finder.find(texts)}, 3)["again"]
    words = sum(len(text.split()) for text in texts)
    return {
        "names": len(store),
        "entities": len(store.ids),
        "megabytes": round(n_bytes / 1e6, 1),
        "open_ms": round(opened * 1e3, 1),
        "mentions": n_mentions,
        "mentions_per_second": round(n_mentions / first),
        "mentions_per_second_again": round(n_mentions / again),
        "words_per_second": round(words / first),
        "words_per_second_again": round(words / again),
    }


def a_million(rule: MentionRule) -> dict[str, float]:
    """Return the speed with a million generated mentions, two entities each, read in texts that are full of them."""
    words = [f"{one}{other}" for one in ("al", "be", "cor", "du", "en") for other in map(str, range(2000))]
    chance = random.Random(0)
    names = {" ".join(chance.choices(words, k=chance.choice((2, 2, 3)))) for _ in range(1_020_000)}
    mentions = sorted(names)[:1_000_000]
    rows = (
        (name, f"Q{place * 7 % 600_000 + rank}", 3 - rank) for place, name in enumerate(mentions) for rank in (0, 1)
    )
    built, store = timed(lambda: build_candidates(pack_mentions(rows)))
    texts = [" and ".join(chance.choices(mentions, k=40)) for _ in range(500)]
    return {"build_s": round(built, 2), **time_it(store, rule, texts)}


def try_settings(knowledge: dict[str, list[pa.RecordBatch]], gold: dict[str, Gold]) -> None:
    """Print what each setting does to recall and to the first candidate, on the training sets only."""
    texts = [entry for name in DEV_SETS for entry in gold[name]]
    everything = [batch for kind in knowledge.values() for batch in kind]
    store, rule = build_candidates(everything), MentionRule()
    tried = {"as they are": rule, "case kept": replace(rule, fold_case=False)}
    tried["accents kept"] = replace(rule, fold_accents=False)
    tried |= {f"spelling={value:g}": replace(rule, spelling=value) for value in (0, 1, 10, 100, 1e9)}
    tried["no stop words"] = replace(rule, stop_words=())
    tried["max_words=10"] = replace(rule, max_words=10)
    tried |= {f"n_candidates={value}": replace(rule, n_candidates=value) for value in (5, 10, 100)}
    rows = {name: measure(store, how, texts) for name, how in tried.items()}
    for weight in (0.25, 1.0):
        others = [batch for kind, of_kind in knowledge.items() if kind != "names" for batch in of_kind]
        weighed = build_candidates([*name_mentions(names(), alias_weight=weight), *others])
        rows[f"alias_weight={weight:g}"] = measure(weighed, rule, texts)
    show(f"{' + '.join(DEV_SETS)}, all knowledge", rows)
    for name, row in rows.items():
        print(f"{name:24}{row['mentions']:>9} mentions in all")


def main() -> None:
    """Measure every set with every kind of knowledge, and with all of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wheel", type=Path, help="the wheel of wikidata-small, if it cannot be fetched")
    parser.add_argument("--settings", action="store_true", help="try the settings on the training sets instead")
    asked = parser.parse_args()
    if not (SHARED / "linking").is_dir():
        print(f"Skipped: the linking sets are not at {SHARED / 'linking'}.")
        return
    knowledge = gather(asked.wheel)
    sets = sorted((SHARED / "linking").glob("*.benchmark.jsonl"))
    read = {path.name.removesuffix(".benchmark.jsonl"): read_gold(path) for path in sets}
    gold = {name: texts for name, (texts, _) in read.items()}
    if asked.settings:
        try_settings(knowledge, gold)
        return
    combined = {**knowledge, "all": [batch for kind in knowledge.values() for batch in kind]}
    rule = MentionRule()
    result: dict[str, Any] = {
        **about(),
        "rule": {name: value for name, value in asdict(rule).items() if name != "stop_words"},
        "sets": {name: dict(counts) for name, (_, counts) in read.items()},
        "recall": {},
        "speed": {},
    }
    for name, counts in result["sets"].items():
        print(f"{name:24}{counts['all']:>6} mentions, {counts.get('without entity', 0):>5} without an entity")
    print()
    for kind, of_kind in combined.items():
        built, store = timed(lambda of_kind=of_kind: build_candidates(of_kind))  # type: ignore[misc]
        rows = {name: measure(store, rule, texts) for name, texts in gold.items()}
        rows["all sets"] = in_all(rows)
        show(f"{kind}: {len(store):,} names, {len(store.ids):,} entities", rows)
        result["recall"][kind] = rows
        texts = [text for of_set in gold.values() for text, _ in of_set]
        result["speed"][kind] = {"build_s": round(built, 2), **time_it(store, rule, texts)}
    result["speed"]["a million generated"] = a_million(rule)
    print(json.dumps(result["speed"], indent=1))
    write_result(RESULT, result)


if __name__ == "__main__":
    main()
