"""Text: knowledge written behind the text."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from miniatures import tiny_host, tiny_tokenizer

import infuser
from infuser import Entities, Graph
from infuser.errors import InputError
from infuser.methods import Text, Types
from infuser.types import Annotations, Link, Span, Term

TEXT = "glipizide from the pharmacy in Bern"


def names(**settings: object) -> Entities:
    return Entities({"glipizide": "drug", "Bern": "city", "pharmacy": "entity"}, **settings)  # type: ignore[arg-type]


def infuse(method: object = None, sources: object = None, head: str = "sequence-classification") -> infuser.Infused:
    return infuser.infuse(
        tiny_host("bert", head),
        method or Text(),  # type: ignore[arg-type]
        sources=sources or [names()],  # type: ignore[arg-type]
        tokenizer=tiny_tokenizer("bert"),
    )


def test_each_mention_says_its_type_and_then_its_terms_with_their_relations() -> None:
    found = Annotations(
        "glipizide in Bern",
        (Span(13, 17, "city"), Span(0, 9, "drug")),
        (Link(0, 0),),
        (Term("diabetes", ((1, 1.0),), "treats"), Term("drug", ((1, 1.0),), "type"), Term("small", ((0, 1.0),))),
    )
    assert Text().write([found]) == ["glipizide: drug; treats diabetes", "bern: city; small"]


def test_a_mention_about_which_nothing_is_known_is_not_written() -> None:
    assert Text().write(names().annotate([TEXT])) == ["glipizide: drug", "bern: city"]


def test_sources_say_what_they_know_about_one_mention_in_one_line() -> None:
    graph = Graph([("glipizide", "is a", "medicine")], n_terms=1)
    texts = ["buy glipizide"]
    found = [names().annotate(texts)[0], graph.annotate(texts)[0]]
    assert Text().write(found) == ["glipizide: drug; is a medicine"]


def test_knowledge_is_a_second_segment_and_no_tensor() -> None:
    infused = infuse()
    batch = infused.batch([TEXT])
    expected = infused.tokenizer(TEXT, "glipizide: drug . bern: city", return_tensors="pt")
    assert batch["input_ids"].tolist() == expected["input_ids"].tolist()
    assert not any(name.startswith("knowledge") for name in batch)
    with torch.no_grad():
        assert torch.equal(infused.model(**batch).logits, infused.model(**expected).logits)


def test_behind_a_pair_it_stands_after_a_separator() -> None:
    infused = infuse()
    batch = infused.batch(["glipizide"], ["the pharmacy in Bern"])
    expected = infused.tokenizer("glipizide", "the pharmacy in Bern [SEP] glipizide: drug . bern: city")
    assert batch["input_ids"][0].tolist() == expected["input_ids"]


def test_it_takes_no_more_than_its_share_and_leaves_out_whole_mentions() -> None:
    infused = infuse(Text(share=0.25))
    collator = infused.collator(max_length=40)
    written = collator.encode([TEXT])["input_ids"][0].tolist()
    one = infused.tokenizer(TEXT, "glipizide: drug")["input_ids"]
    assert written == one


def test_a_text_without_knowledge_is_read_as_it_is() -> None:
    infused = infuse()
    assert infused.batch(["the train"])["input_ids"].tolist() == [infused.tokenizer("the train")["input_ids"]]


def test_it_adds_no_weights_and_survives_saving(tmp_path: Path) -> None:
    infused = infuse()
    assert infused.n_new_weights() == 0
    infused.save(tmp_path / "saved")
    again = infuser.load(tmp_path / "saved")
    assert isinstance(again.method, Text)
    assert again.batch([TEXT])["input_ids"].tolist() == infused.batch([TEXT])["input_ids"].tolist()


def test_clients_that_call_a_tokenizer_get_the_written_knowledge() -> None:
    infused = infuse()
    read = infused.reading_tokenizer()([TEXT], return_tensors="pt")
    assert read["input_ids"].tolist() == infused.batch([TEXT])["input_ids"].tolist()


def test_beside_another_method_both_see_the_same_mentions() -> None:
    infused = infuse([Text(), Types()])
    alone = infuse(Types())
    both, tensors = infused.batch([TEXT]), alone.batch([TEXT])
    assert both["input_ids"].shape[1] > tensors["input_ids"].shape[1]
    assert torch.equal(both["knowledge_spans"], tensors["knowledge_spans"])


def test_explaining_it_is_a_clear_error() -> None:
    from infuser.analysis.explain import explain

    with pytest.raises(InputError, match="reads its knowledge as text"):
        explain(infuse(), TEXT)


def test_a_share_of_all_or_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="between 0 and 1"):
        Text(share=1.0)
