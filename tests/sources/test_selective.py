"""A source that selects: what is injected in training and in answering, for every method."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
import torch
from miniatures import tiny_host, tiny_tokenizer
from tiny_infusions import KNOWN_TEXT, tiny_base

import infuser
from infuser import Candidates, Collator, Entities, Ernie, Graph, Kam, Kar, KnowledgeBase, TrainSettings, infuse, train
from infuser.errors import InputError, SourceError
from infuser.experiments.placebo import shuffle
from infuser.linking.masking import Masking, MaskingCollator
from infuser.sources import Known, Sampling, Selective
from infuser.sources.annotating import annotate
from infuser.sources.annotating.cache import CachedSource, flush_caches, with_cache
from infuser.sources.annotating.columns import SourceColumn, encode
from infuser.sources.annotating.fingerprints import fingerprint
from infuser.sources.naming import source_names
from infuser.types import Annotations

GRAPH = Graph([("bridge", "in", "town"), ("river", "near", "town"), ("bridge", "over", "river")])
HALF = Sampling(share=0.5, neglected=0.0)


def test_answering_injects_everything_and_every_epoch_of_training_its_draw() -> None:
    source = Selective(GRAPH, HALF)
    (all_of_it,), (bare,) = source.annotate([KNOWN_TEXT]), GRAPH.annotate([KNOWN_TEXT])
    assert replace(all_of_it, odds=()) == bare and len(all_of_it.odds) == len(all_of_it.spans) == 3
    collate = Collator(tiny_tokenizer("bert"), [source])
    examples = [{"text": KNOWN_TEXT, "annotations": (all_of_it,)}, {"text": KNOWN_TEXT}]
    answering = collate(examples)
    plain = Collator(tiny_tokenizer("bert"), [GRAPH])([{"text": KNOWN_TEXT}] * 2)
    assert all(torch.equal(answering[name], plain[name]) for name in plain)
    n_boxes = [int((collate.for_epoch(e)(examples)["knowledge_boxes"][0, :, 0] >= 0).sum()) for e in range(12)]
    assert len(set(n_boxes)) > 1 and max(n_boxes) < int((answering["knowledge_boxes"][0, :, 0] >= 0).sum())
    for epoch in range(4):  # asked beforehand or not, the draw is the same; and again, by another copy
        batch = collate.for_epoch(epoch)(examples)
        assert torch.equal(batch["knowledge_boxes"][0], batch["knowledge_boxes"][1])
        again = copy.deepcopy(collate).for_epoch(epoch)(examples[::-1])
        assert torch.equal(batch["knowledge_boxes"], again["knowledge_boxes"])
    seeds = {str(collate.for_epoch(0, seed=seed)(examples)["knowledge_boxes"].tolist()) for seed in range(8)}
    assert len(seeds) > 1


def test_drawn_once_the_same_is_injected_in_training_and_answering() -> None:
    source = Selective(GRAPH, replace(HALF, each_epoch=False))
    texts = [KNOWN_TEXT, KNOWN_TEXT.replace("old ", ""), "river town bridge"]
    found = source.annotate(texts)
    assert [len(one.spans) for one in found] != [3, 3, 3] and found == source.annotate(texts)
    collate = Collator(tiny_tokenizer("bert"), [source])
    examples = [{"text": text} for text in texts]
    answering = collate(examples)
    assert all(
        torch.equal(collate.for_epoch(e)(examples)["knowledge_boxes"], answering["knowledge_boxes"]) for e in (0, 1)
    )


@pytest.mark.parametrize("method", [Kar(), Ernie()], ids=["kar", "ernie"])
def test_a_selective_knowledge_base_is_one_and_what_its_mentions_mean_stays_beside_them(method: Any) -> None:
    base = tiny_base()
    source = Selective(base, HALF)
    infused = infuse(tiny_host("bert"), method, sources=[source], tokenizer=tiny_tokenizer("bert"))
    (found,) = source.annotate([KNOWN_TEXT])
    assert replace(found, odds=()) == base.annotate([KNOWN_TEXT])[0]
    gold = [candidates[-1].id if candidates else "" for candidates in found.candidates]
    example = {"text": KNOWN_TEXT, "annotations": (found,), "gold": {base.name: gold}}
    for epoch in range(6):
        batch = infused.collator().for_epoch(epoch)([example])
        stays = source.drawn(found, seed=0, epoch=epoch)
        kept = [tuple(span.id for span, is_kept in zip(found.spans, stays, strict=True) if is_kept)]
        assert len(kept[0]) < len(found.spans)
        left = [(c, g) for c, g, is_kept in zip(found.candidates, gold, stays, strict=True) if is_kept]
        expected = [int(one.id == right) for candidates, right in left for one in candidates]
        assert batch[f"knowledge_{base.name}_gold"][0, : len(expected)].tolist() == expected
        infused.model(**{name: tensor for name, tensor in batch.items() if not name.endswith("gold")})
    assert source_names([source, GRAPH]) == ["knowledge-base", "graph"]
    with pytest.raises(SourceError, match=r"Wrap the base: Selective\(base"):
        KnowledgeBase(Selective(Candidates.tiny()), KnowledgeBase.tiny().vectors)
    with pytest.raises(InputError, match="has 1 gold entities for"):
        infused.collator().for_epoch(0)([{**example, "gold": {base.name: gold[:1]}}])
    tiny = Selective(KnowledgeBase.tiny(), HALF)
    larger = tiny.with_entities({"Thun": {"Q68144": 3}}, ["Q68144"], np.ones((1, 8), np.float32))
    assert isinstance(larger, Selective) and larger.annotate(["Thun"])[0].spans


def test_training_draws_anew_in_every_epoch_and_the_dev_set_is_answered_with_everything() -> None:
    seen: list[tuple[bool, int]] = []

    class Watching(Selective):
        def drawn(self, found: Annotations, *, seed: int, epoch: int) -> list[bool]:
            seen.append((found.text == "river town", epoch))
            return super().drawn(found, seed=seed, epoch=epoch)

    infused = infuse(
        tiny_host("bert", "sequence-classification"),
        Kam(),
        sources=[Watching(GRAPH, HALF)],
        tokenizer=tiny_tokenizer("bert"),
    )
    examples = [{"text": KNOWN_TEXT, "label": 0}, {"text": "river and town", "label": 1}]
    dev = [{"text": "river town", "label": 0}, {"text": "bridge", "label": 1}]
    train(
        infused.model,
        examples,
        infused.collator(),
        dev=dev,
        progress=False,
        settings=TrainSettings(epochs=3, batch_size=2, metric="accuracy"),
    )
    assert seen == [(False, epoch) for epoch in (0, 0, 1, 1, 2, 2)]


def test_strategies_can_be_stacked_and_saved_with_a_model(tmp_path: Path) -> None:
    known = Known({"river": 0.9, "town": 0.2})
    stacked = Selective(Selective(GRAPH, HALF), known)
    (found,) = stacked.annotate([KNOWN_TEXT])
    assert [span.id for span in found.spans] == ["bridge", "town"] and len(found.odds) == 2
    assert any(stacked.drawn(found, seed=0, epoch=e) != [True, True] for e in range(5))
    infused = infuse(tiny_host("bert"), Kam(), sources=[stacked], tokenizer=tiny_tokenizer("bert"))
    infused.save(tmp_path / "model")
    read = infuser.load(tmp_path / "model")
    assert read.sources == infused.sources
    batch, again = (one.collator().for_epoch(3)([{"text": KNOWN_TEXT}]) for one in (infused, read))
    assert torch.equal(batch["knowledge_boxes"], again["knowledge_boxes"])
    counted = Selective(GRAPH, Sampling(frequencies={"river": 200}))
    infuse(tiny_host("bert"), Kam(), sources=[counted], tokenizer=tiny_tokenizer("bert")).save(tmp_path / "counted")
    assert infuser.load(tmp_path / "counted").sources == (counted,)


def test_odds_survive_files_the_placebo_and_caches(tmp_path: Path) -> None:
    source = Selective(GRAPH, Sampling(frequencies={"river": 200}))
    texts = [KNOWN_TEXT, "nothing", "town of the river"]
    found = source.annotate(texts)
    column = SourceColumn(encode(found))
    assert [column.read(row, text) for row, text in enumerate(texts)] == found
    assert encode(GRAPH.annotate(texts)).type.get_field_index("odds") == -1  # as it was before there were odds
    notes = annotate(texts, [source], tmp_path / "notes", cache=tmp_path / "cache")
    assert [notes.annotations(place)[0] for place in range(3)] == found
    shuffled = shuffle([(one,) for one in found])
    assert sorted(sorted(one.odds) for (one,) in shuffled) == sorted(sorted(one.odds) for one in found)
    assert all(len(one.odds) == len(one.spans) for (one,) in shuffled)


def test_sources_draw_apart_and_one_entity_shares_its_fate_in_all_of_them() -> None:
    first, second = Entities({"Bern": "city"}), Entities({"Aare": "river"})
    each = [Selective(one, Sampling(share=0.5, neglected=0)) for one in (first, second, first)]
    found = [one.annotate(["Bern lies on the Aare"])[0] for one in each]
    draws = [
        [one.drawn(of_one, seed=0, epoch=epoch)[0] for one, of_one in zip(each, found, strict=True)]
        for epoch in range(400)
    ]
    assert all(one == same for one, _, same in draws)
    assert 0.4 < np.mean([one == other for one, other, _ in draws]) < 0.6  # as two coins do


class Mine:
    """A source of somebody's own, not registered."""

    def __init__(self, name: str) -> None:
        self.known = Entities({name: "place"})

    def annotate(self, texts: Sequence[str]) -> list[Annotations]:
        return self.known.annotate(texts)

    @classmethod
    def tiny(cls) -> Self:
        return cls("Bern")


def test_what_is_remembered_is_what_the_wrapped_source_said(tmp_path: Path) -> None:
    assert fingerprint(Selective(Mine("Bern"))) is None
    texts = ["Bern lies on the Aare"]
    (mine,) = with_cache([Selective(Mine("Aare"))], tmp_path)
    assert [span.start for span in mine.annotate(texts)[0].spans] == [17]
    entities = Entities({"Bern": "city"})
    sources = [Selective(entities, Sampling(frequencies={"bern": n})) for n in (5, 500)]
    assert len({fingerprint(source) for source in sources}) == 2
    for n_asked, source in zip((1, 0), sources, strict=True):  # one cache for all selections, each with its own odds
        (kept,) = with_cache([source], tmp_path)
        assert kept.annotate(texts) == source.annotate(texts)
        flush_caches([kept])
        assert isinstance(kept, Selective) and isinstance(kept.source, CachedSource) and kept.source.n_asked == n_asked
    graphs = Selective(GRAPH, Sampling())
    (kept,) = with_cache([graphs], tmp_path)
    assert kept.annotate([KNOWN_TEXT]) == graphs.annotate([KNOWN_TEXT])  # the graph is found behind the cache


def test_pretraining_draws_too() -> None:
    source = Selective(tiny_base(), HALF)
    collate = MaskingCollator(Collator(tiny_tokenizer("bert"), [source]), Masking(words=0.0))
    example = {"text": KNOWN_TEXT, "seed": 1}
    spans = "knowledge_base_spans"
    everything = int((collate([example])[spans][..., 1] > 0).sum())
    assert all(int((collate.for_epoch(epoch)([example])[spans][..., 1] > 0).sum()) < everything for epoch in range(5))


def test_a_strategy_of_ones_own_selects_and_saving_says_that_it_must_be_given_again(tmp_path: Path) -> None:
    class Nothing:
        def select(self, found: Sequence[Annotations], source: Any) -> list[Annotations]:
            return [Annotations(one.text) for one in found]

    source = Selective(GRAPH, Nothing())
    assert source.annotate([KNOWN_TEXT]) == [Annotations(KNOWN_TEXT)]
    assert fingerprint(source) is None
    infuse(tiny_host("bert"), Kam(), sources=[source], tokenizer=tiny_tokenizer("bert")).save(tmp_path / "model")
    with pytest.raises(SourceError, match="no strategy that can be saved"):
        infuser.load(tmp_path / "model")
    assert fingerprint(Selective(GRAPH, Sampling(frequencies={"river": np.int64(3)}))) is not None  # type: ignore[dict-item]


def test_what_cannot_be_selected_from_is_refused() -> None:
    with pytest.raises(SourceError, match="Two strategies that draw"):
        Selective(Selective(GRAPH, Sampling()), Sampling(each_epoch=False))
    wrong: Any = "graph"
    with pytest.raises(SourceError, match="'graph' is not a source"):
        Selective(wrong)
    with pytest.raises(SourceError, match=r"is not a strategy\. Known: sampling, known"):
        Selective(Entities.tiny(), wrong)


def test_under_trainer_every_epoch_draws_and_evaluation_injects_everything(tmp_path: Path) -> None:
    from transformers import Trainer, TrainingArguments

    from infuser.signals.each_epoch import SelectiveTraining

    class MyTrainer(SelectiveTraining, Trainer):
        pass

    source = Selective(GRAPH, HALF)
    infused = infuse(
        tiny_host("bert", "sequence-classification"), Kam(), sources=[source], tokenizer=tiny_tokenizer("bert")
    )
    seen: list[tuple[bool, str]] = []
    infused.model.register_forward_pre_hook(
        lambda model, args, batch: seen.append((model.training, str(batch["knowledge_boxes"].tolist()))),
        with_kwargs=True,
    )
    example = {"text": KNOWN_TEXT, "label": 0}
    trainer = MyTrainer(
        infused.model,
        TrainingArguments(
            str(tmp_path),
            num_train_epochs=6,
            per_device_train_batch_size=1,
            remove_unused_columns=False,
            seed=3,
            eval_strategy="epoch",
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            use_cpu=True,
        ),
        data_collator=infused.collator(),
        train_dataset=[example],
        eval_dataset=[example],
    )
    trainer.train()
    collate = infused.collator()
    drawn = [str(collate.for_epoch(epoch, seed=3)([example])["knowledge_boxes"].tolist()) for epoch in range(6)]
    assert [maps for training, maps in seen if training] == drawn and len(set(drawn)) > 1
    assert {maps for training, maps in seen if not training} == {str(collate([example])["knowledge_boxes"].tolist())}
