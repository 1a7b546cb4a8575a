"""Whether a linker that learned some facts of a graph finds the masked tail of others.

FB15k-237 with the names and descriptions of Wikidata. The MiniLM encoder reads "{head} {relation} [MASK]." and its
linker, trained alone on some triples of the training part (stage 1), ranks 100 entities for the mask: the right one and
99 others, among them no other right answer ("filtered"). Others are drawn alike, or as often as they are the answer to
something, which is harder: an entity that is popular is then no better guess. Two kinds of entity vectors: TransE,
trained with PyKEEN on all triples of the training part and no others, and descriptions read by the encoder itself.

Beside it: chance; how often an entity answers the same relation, among the triples that the linker learned from and in
the whole training part; the vectors alone, -|h + r - t| with r the average step of the relation's training triples.

What it shows: what words and entity vectors tell together about facts that were never trained on, neither the linker
nor the TransE vectors. What it does not show: the figure that the KnowBERT paper gives, which is over the word pieces
of an answer and a masked-LM head, with the whole vocabulary to choose from; here entities are ranked, and 100 of them.
Descriptions are text about the same world: they may tell a held-out fact ("film directed by ..."). A linker does not
read the vector of the head, only its name; the vectors alone have it, and the whole training part, so they are no
baseline to be beaten but the other half of what is known. Vectors are made once: seeds change the triples that the
linker learns from, its first weights and all candidates, not the vectors and not the held-out triples.

    python benchmarks/fact_recall.py                 # needs shared/data; the test part, as in the docs
    python benchmarks/fact_recall.py --part dev      # for choosing settings; writes no result
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from support.fact_questions import (
    Fact,
    FactSettings,
    Question,
    expected_by_chance,
    fact_examples,
    fact_questions,
    frequency_scores,
    linker_scores,
    mean_translations,
    measures,
    ranks,
    translation_scores,
)
from support.measuring import about, write_result

from infuser import Candidates, EntityVectors, Kar, KnowledgeBase, TrainSettings, assets, infuse
from infuser.infused import Infused
from infuser.knowledge.vectors.descriptions import Described
from infuser.knowledge.vectors.training import TrainedVectors, Triples, train_vectors
from infuser.linking.description_vectors import DescriptionVectors, build_from_descriptions
from infuser.linking.training import train_linker

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data" / "kg" / "FB15k-237"
RESULT = Path(__file__).parent / "results" / "fact_recall.json"
DRAWS: tuple[Literal["uniform", "frequency"], ...] = ("uniform", "frequency")
Questions = dict[Literal["uniform", "frequency"], list[Question]]
Table = dict[str, dict[str, float]]


def read_part(name: str) -> list[Fact]:
    """Return the triples of one part of the graph."""
    lines = (SHARED / f"{name}.tsv").read_text(encoding="utf-8").splitlines()
    return [Fact(*line.split("\t")) for line in lines]


def read_entities(ids: Sequence[str]) -> list[Described]:
    """Return what entities are called and what is said about them; some have no label, and some nothing else."""
    said = json.loads((SHARED / "entity2wikidata.json").read_text(encoding="utf-8"))
    return [Described(id, said.get(id, {}).get("label") or "", said.get(id, {}).get("description") or "") for id in ids]


def numbered(facts: Sequence[Fact]) -> Triples:
    """Return triples by numbers, as PyKEEN reads them."""
    ids, relations = sorted({end for one in facts for end in (one.head, one.tail)}), sorted({f.relation for f in facts})
    place, kind = ({name: number for number, name in enumerate(names)} for names in (ids, relations))
    return Triples(ids, relations, np.array([(place[f.head], kind[f.relation], place[f.tail]) for f in facts]))


def new_linker(vectors: EntityVectors, labels: dict[str, str], seed: int) -> Infused:
    """Return the encoder with a linker that knows nothing yet."""
    mentions = {label: {id: 1.0} for id, label in labels.items()}
    torch.manual_seed(seed)
    base = KnowledgeBase(Candidates(mentions), vectors, "freebase")
    return infuse(str(assets.fetch("minilm")), Kar(), sources=[base])


def measured(asked: Questions, scored: Callable[[list[Question]], list[Any]]) -> Table:
    """Return the measures of one way to answer, for each way of drawing candidates."""
    return {draw: measures(ranks(questions, scored(questions))) for draw, questions in asked.items()}


def run(
    vectors: dict[str, EntityVectors], parts: dict[str, list[Fact]], labels: dict[str, str], seed: int, options: Any
) -> dict[str, Table]:
    """Train one linker per kind of vectors from one seed, and return the measures of each way to answer."""
    train, held_out = parts["train"], parts["held out"]
    learned = random.Random(seed).sample([fact for fact in train if fact.head in labels], options.train)
    results: dict[str, Table] = {}
    for kind, store in vectors.items():
        started = time.perf_counter()
        infused = new_linker(store, labels, seed)
        # both kinds of vectors have the same entities in the same order, so the candidates are the same too
        asked = {
            draw: fact_questions(
                infused, held_out, labels, FactSettings(draw=draw, seed=1_000 + seed), known=parts["known"]
            )
            for draw in DRAWS
        }
        if not results:
            results["chance"] = {draw: expected_by_chance(questions) for draw, questions in asked.items()}
            results["frequency, all triples"] = measured(asked, lambda some: frequency_scores(some, train))
            results["frequency, linker's triples"] = measured(asked, lambda some: frequency_scores(some, learned))
        steps = mean_translations(train, store)
        results[f"vectors alone, {kind}"] = measured(asked, partial(translation_scores, vectors=store, relations=steps))
        examples = fact_examples(
            infused, learned, labels, FactSettings(draw=options.draw, seed=seed), held_out=held_out
        )
        settings = TrainSettings(
            epochs=options.epochs, batch_size=32, learning_rate=1e-3, new_learning_rate=1e-3, seed=seed
        )
        train_linker(infused, examples, loss=options.loss, settings=settings, progress=False)
        results[f"linker, {kind}"] = measured(asked, partial(linker_scores, infused))
        print(f"seed {seed}, {kind}: {time.perf_counter() - started:.0f} s", flush=True)
    return results


def averaged(seeds: Sequence[dict[str, Table]]) -> dict[str, Table]:
    """Return the means over seeds."""
    return {
        way: {
            draw: {name: float(np.mean([one[way][draw][name] for one in seeds])) for name in of_draw}
            for draw, of_draw in table.items()
        }
        for way, table in seeds[0].items()
    }


def show(table: dict[str, Table]) -> None:
    """Print the means, one way to answer per line."""
    names = ("mrr", "hits@1", "hits@10")
    print(f"{'':34}" + "".join(f"{draw + ' ' + name:>20}" for draw in DRAWS for name in names))
    for way, of_way in table.items():
        print(f"{way:34}" + "".join(f"{of_way[draw][name]:20.3f}" for draw in DRAWS for name in names))


def make_vectors(facts: Sequence[Fact], entities: Sequence[Described], work: Path, options: Any) -> dict[str, Any]:
    """Return both kinds of vectors and the seconds that each took."""
    started = time.perf_counter()
    settings = TrainedVectors(epochs=options.vector_epochs, batch_size=2048, n_negatives=8)
    trained = train_vectors(numbered(facts), settings, progress=False)
    between = time.perf_counter()
    described = DescriptionVectors(dim=settings.dim, missing="label", max_tokens=32)
    encoded = build_from_descriptions(entities, "minilm", work / "described", described)
    seconds = {"TransE": round(between - started), "descriptions": round(time.perf_counter() - between)}
    print("seconds for vectors:", seconds, flush=True)
    return {"vectors": {"TransE": trained, "descriptions": encoded}, "seconds": seconds}


def main() -> None:
    """Make vectors, train and ask with several seeds, print and write the means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=("dev", "test"), default="test", help="where held-out triples come from")
    parser.add_argument("--train", type=int, default=5_000, help="triples that the linker learns from")
    parser.add_argument("--held-out", type=int, default=1_000)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--vector-epochs", type=int, default=10)
    parser.add_argument("--loss", choices=("margin", "softmax"), default="softmax")
    parser.add_argument("--draw", choices=DRAWS, default="frequency", help="of wrong candidates to learn from")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    started = time.perf_counter()
    train, asked = read_part("train"), read_part(options.part)
    entities = read_entities(numbered(train).ids)
    labels = {one.id: one.label for one in entities if one.label}
    met = set(numbered(train).ids)
    relations = Counter(fact.relation for fact in train)
    askable = [one for one in asked if one.head in labels and one.tail in met and one.relation in relations]
    held_out = random.Random(0).sample(askable, options.held_out)
    parts = {"train": train, "held out": held_out, "known": [*train, *read_part("dev"), *read_part("test")]}
    assert not set(held_out) & set(train)
    with tempfile.TemporaryDirectory() as work:
        made = make_vectors(train, entities, Path(work), options)
        seeds = [run(made["vectors"], parts, labels, seed, options) for seed in range(options.seeds)]
    means = averaged(seeds)
    show(means)
    result = {
        **about(),
        "options": vars(options),
        "n_entities": len(entities),
        "n_relations": len(relations),
        "n_train": len(train),
        "vector_seconds": made["seconds"],
        "seconds": round(time.perf_counter() - started),
        "cpu_seconds": round(time.process_time()),
        "means": means,
        "seeds": seeds,
    }
    if options.part == "test":
        write_result(RESULT, result)


if __name__ == "__main__":
    main()
