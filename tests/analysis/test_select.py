"""What a selection keeps and drops on a corpus, and the reasons it gives."""

from __future__ import annotations

import json

import pytest

from infuser import Graph
from infuser.analysis.select import explain_selection, select
from infuser.sources import Entities, Known, Sampling, Selective


def test_keep_rates_and_reasons_are_those_of_the_draws() -> None:
    graph = Graph([("bridge", "in", "town"), ("river", "near", "town"), ("hill", "over", "valley")])
    texts = [f"bridge in town {number}" for number in range(60)] + ["river, town and hill", "nothing", "hill"]
    sampling = Sampling(frequencies={"town": 400, "river": 20, "bridge": 3})
    found = graph.annotate(texts)
    report = explain_selection(Selective(graph, sampling), found, n_draws=40)
    fates = {one.key: one for one in report.entities}
    assert {key: one.n_texts for key, one in fates.items()} == {"bridge": 60, "town": 61, "river": 1, "hill": 2}
    assert fates["town"].why == "frequent, in 400 texts; 1.0 of 1.0 others within 6 hops"
    assert fates["hill"].why == "rare, in 0 texts; 0.0 of 1.0 others within 6 hops"
    (weighed,) = sampling.select([found[60]], graph)
    drawn = [sampling.draw(weighed, epoch=epoch) for epoch in range(40)]
    assert fates["river"].kept == pytest.approx(sum(draw[0] for draw in drawn) / 40)
    assert fates["town"].kept < fates["bridge"].kept
    buckets = {one.name: one for one in report.buckets}
    assert list(buckets) == ["in no text", "in 1 to 9 texts", "in 10 to 99 texts", "in 100 to 999 texts"]
    assert buckets["in 100 to 999 texts"].kept == fates["town"].kept and 0.8 < report.kept < 0.95
    known = explain_selection(Selective(graph, Known({"town": 0.9})), found, frequencies={"town": 4})
    assert known.entities[0].why == "the encoder predicts it: 0.9 >= 0.5" and known.entities[0].kept == 0
    assert {one.kept for one in known.entities[1:]} == {1.0} and json.dumps(known.to_json())


def test_each_source_is_reported_by_its_name_and_a_strategy_without_counts_gets_those_of_the_corpus() -> None:
    sources = [Entities({"Bern": "city", "Aare": "river"}), Entities({"Zug": "city"})]
    texts = ["Bern lies on the Aare", "Bern and Zug"]
    found = list(zip(*(source.annotate(texts) for source in sources), strict=True))
    reports = select(sources, found, Known({"bern": 0.9}), n_draws=2)
    assert list(reports) == ["entities 1", "entities 2"] and reports["entities 2"].kept == 1
    assert [(one.key, one.kept, one.frequency) for one in reports["entities 1"].entities] == [
        ("Bern", 0, 2),
        ("Aare", 1, 1),
    ]
