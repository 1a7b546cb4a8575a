"""A linker measured beside linkers that read no text, and texts that cannot be measured."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli.small_linkers import linked_rows, save_linker

from infuser.errors import CheckpointError, InputError
from infuser.linking.evaluation import evaluate_linker, prior_only
from infuser.linking.examples import LinkedText, check_entities
from infuser.linking.inference import choose_base, find_mentions, load_linker
from infuser.linking.scores import score_links
from infuser.types import Span

GOLD = [
    LinkedText(row["text"], tuple(Span(one["start"], one["end"], id=one["id"]) for one in row["spans"]))
    for row in linked_rows()
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_linker(tmp_path_factory.mktemp("linker"))


def test_a_linker_is_measured_beside_linkers_that_read_no_text(folder):
    infused = load_linker(folder)
    base = choose_base(infused.sources, None)
    scores = evaluate_linker(infused, base, GOLD)
    texts = [one.text for one in GOLD]
    assert list(scores) == ["prior only", "most frequent", "linker"]
    assert scores["prior only"].to_json() == score_links(GOLD, prior_only(texts, base)).to_json()
    assert scores["linker"].to_json() == score_links(GOLD, find_mentions(infused, texts)).to_json()
    assert {one.total.ceiling for one in scores.values()} == {1.0}
    assert evaluate_linker(infused, base, GOLD, threshold=1000.0)["linker"].total.linked == 0


def test_what_cannot_be_measured_is_an_error(folder):
    infused = load_linker(folder)
    base = choose_base(infused.sources, "base")
    with pytest.raises(InputError, match="finds no mention in any of 1 text"):
        evaluate_linker(infused, base, [LinkedText("nothing is known", ())])
    with pytest.raises(InputError, match=r"None of the 1 entity in a.jsonl is in the knowledge base 'base'.*'Q1'"):
        check_entities([LinkedText("the bank", (Span(4, 8, id="Q1"),))], base, "a.jsonl")
    with pytest.raises(InputError, match="There is no knowledge base 'other' in this model; it has base"):
        choose_base(infused.sources, "other")
    with pytest.raises(CheckpointError, match="is no folder with a linker"):
        load_linker(folder / "nowhere")


def test_a_mention_is_written_with_its_best_candidates(folder):
    [mentions] = find_mentions(load_linker(folder), "the bank")
    [plain] = [mention.to_json(1) for mention in mentions]
    assert (plain["start"], plain["end"], plain["text"], plain["base"]) == (4, 8, "bank", "base")
    assert plain["candidates"] == [
        {"id": one.id, "prior": round(one.prior, 4), "score": round(one.score, 4)} for one in mentions[0].candidates[:1]
    ]
    assert len(mentions[0].to_json()["candidates"]) == 2
