"""Sources are switched off for a while: in batches, calls, vectors, pipelines and threads."""

from __future__ import annotations

import copy
import threading
from typing import Any

import pytest
import torch
from miniatures import Repeats
from tiny_infusions import KNOWN_TEXT, RepeatsAndTerms, answer, holds_knowledge, infuse_tiny, plain, shake
from torch import Tensor
from torch.utils.data import DataLoader
from transformers import pipeline

import infuser
from infuser.errors import UnknownNameError
from infuser.methods import Text

TEXTS = [KNOWN_TEXT, "buy glipizide tablets in the city", "cheap medicine"]
METHODS = ("kam", "kam-types", "types", "kar", "ernie", "types+kar")


def states(infused: infuser.Infused, batch: dict[str, Tensor] | None = None) -> Tensor:
    batch = infused.batch(TEXTS) if batch is None else batch
    with torch.no_grad():
        return answer(infused.model, batch) * batch["attention_mask"][..., None]


def silent(infused: infuser.Infused, *places: int) -> Tensor:
    """Return what the model answers when some sources find nothing in these texts."""
    found = infused.collator().annotate(TEXTS)
    rows = [
        {
            "text": text,
            "annotations": tuple(
                infuser.Annotations(text) if place in places else one for place, one in enumerate(of_text)
            ),
        }
        for text, of_text in zip(TEXTS, found, strict=True)
    ]
    return states(infused, infused.collator()(rows))


@pytest.mark.parametrize("method", METHODS)
def test_without_any_source_the_model_answers_as_the_plain_one(method: str) -> None:
    infused = infuse_tiny("bert", method=method)
    batch = infused.batch(TEXTS)
    told, expected = states(infused), states(infused, plain(batch))
    assert (told - expected).abs().max() > 1e-3
    with infused.disabled():
        assert not holds_knowledge(infused.batch(TEXTS))
        torch.testing.assert_close(states(infused), expected, atol=1e-12, rtol=0)
        assert torch.equal(states(infused, batch), expected)  # a batch from before the block
    assert torch.equal(states(infused), told)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("place", [0, 1])
def test_one_source_is_switched_off_in_new_batches_and_in_those_from_before(method: str, place: int) -> None:
    infused = infuse_tiny("bert", method=method)
    batch, told = infused.batch(TEXTS), states(infused)
    expected = silent(infused, place)
    assert (told - expected).abs().max() > 1e-4
    with infused.disabled(place):
        torch.testing.assert_close(states(infused), expected, atol=1e-12, rtol=0)
        torch.testing.assert_close(states(infused, batch), expected, atol=1e-12, rtol=0)
    assert torch.equal(states(infused, batch), told)


def test_sources_are_named_as_elsewhere() -> None:
    sources: list[infuser.Source] = [infuser.Entities.tiny(), infuser.Graph.tiny(), infuser.Graph.tiny()]
    infused = infuser.infuse(infuse_tiny("bert").detach(), sources=sources, tokenizer=infuse_tiny("bert").tokenizer)
    shake(infused.model)
    texts = ["glipizide in a pharmacy of Bern"]

    def drawn() -> set[int]:
        return set(infused.batch(texts)["knowledge_boxes"][..., 0].flatten().tolist()) - {-1}

    assert drawn() == {0, 1, 2}
    for names, left in (
        (("entities",), {1, 2}),
        (("graph 1",), {0, 2}),
        (("graph",), {0}),  # all of that kind
        (("entities", 2), {1}),
    ):
        with infused.disabled(*names):
            assert drawn() == left
    kar = infuse_tiny("bert", method="kar")
    with kar.disabled("things"):
        torch.testing.assert_close(states(kar), silent(kar, 1), atol=1e-12, rtol=0)


@pytest.mark.parametrize("wrong", ["grahp", 7, -1])
def test_an_unknown_name_is_an_error_that_lists_the_known_ones(wrong: str | int) -> None:
    infused = infuse_tiny("bert", method="kar")
    with pytest.raises(UnknownNameError, match=r"no source .* to switch off.*'places' \(0\), 'things' \(1\)"):
        infused.disabled(wrong).__enter__()
    with pytest.raises(UnknownNameError, match=r"Did you mean 'places'\?"):
        infused.disabled("place").__enter__()
    assert holds_knowledge(infused.batch(TEXTS))


def test_blocks_nest_and_end_also_with_an_error() -> None:
    infused = infuse_tiny("bert")
    told = states(infused)
    with infused.disabled(0):
        one = states(infused)
        with infused.disabled(1):
            torch.testing.assert_close(
                states(infused), states(infused, plain(infused.batch(TEXTS))), atol=1e-12, rtol=0
            )
        assert torch.equal(states(infused), one)
        with pytest.raises(ZeroDivisionError), infused.disabled():
            1 / 0  # noqa: B018
        assert torch.equal(states(infused), one)
    assert torch.equal(states(infused), told)


def test_other_threads_and_other_models_keep_their_knowledge() -> None:
    infused, other = infuse_tiny("bert"), infuse_tiny("bert")
    told, found = states(infused), dict[str, Tensor]()
    with infused.disabled():
        thread = threading.Thread(target=lambda: found.update(told=states(infused)))
        thread.start()
        thread.join()
        assert torch.equal(states(other), told)
        assert not torch.equal(states(infused), told)
    assert torch.equal(found["told"], told)


def test_vectors_encodings_and_pipelines_read_without_the_source() -> None:
    infused = infuse_tiny("bert", "sequence-classification")
    classify = pipeline("text-classification", model=infused.model, tokenizer=infused.reading_tokenizer(), top_k=None)
    bare = pipeline("text-classification", model=infused.model, tokenizer=infused.tokenizer, top_k=None)
    asks: list[Any] = [lambda: infused.encode(TEXTS), lambda: infused.embed(TEXTS)]
    with_knowledge = [ask() for ask in asks]
    assert classify(TEXTS) != bare(TEXTS)
    with infused.disabled():
        assert all((ask() - told).abs().max() > 1e-4 for ask, told in zip(asks, with_knowledge, strict=True))
        for one, same in zip(classify(TEXTS), bare(TEXTS), strict=True):
            assert [answer["label"] for answer in one] == [answer["label"] for answer in same]
            for answer_of, answer_same in zip(one, same, strict=True):
                assert answer_of["score"] == pytest.approx(answer_same["score"], abs=1e-9)
    assert all(torch.equal(ask(), told) for ask, told in zip(asks, with_knowledge, strict=True))


def test_a_method_that_writes_knowledge_writes_nothing() -> None:
    infused = infuser.infuse(
        infuse_tiny("bert").detach(), Text(), sources=[infuser.Entities.tiny()], tokenizer=infuse_tiny("bert").tokenizer
    )
    texts = ["Bern lies on the Aare"]
    written, bare = infused.batch(texts)["input_ids"], torch.tensor(infused.tokenizer(texts)["input_ids"])
    assert written.shape[1] > bare.shape[1]
    with infused.disabled("entities"):
        assert torch.equal(infused.batch(texts)["input_ids"], bare)
    assert torch.equal(infused.batch(texts)["input_ids"], written)


def test_a_copy_a_reloaded_batch_and_workers_of_a_loader_follow_the_model_they_are_given_to() -> None:
    infused = infuse_tiny("bert", "sequence-classification")
    copied = copy.deepcopy(infused)
    told = answer(infused.model, infused.batch(TEXTS))
    bare = answer(infused.model, plain(infused.batch(TEXTS)))
    with infused.disabled():
        assert torch.equal(answer(copied.model, copied.batch(TEXTS)), told)
        rows = [{"text": text} for text in TEXTS]
        [batch] = DataLoader(rows, batch_size=3, collate_fn=infused.collator(), num_workers=1)  # type: ignore[arg-type]
        torch.testing.assert_close(answer(infused.model, batch), bare, atol=1e-12, rtol=0)
    with copied.disabled():
        torch.testing.assert_close(answer(copied.model, copied.batch(TEXTS)), bare, atol=1e-12, rtol=0)


def test_under_lora_the_same_switch_works() -> None:
    from dataclasses import replace

    from peft import LoraConfig, get_peft_model

    infused = infuse_tiny("bert", "sequence-classification")
    batch = infused.batch(TEXTS)
    bare = answer(infused.model, plain(batch)).detach()
    lora: Any = get_peft_model(infused.model, LoraConfig(r=2, target_modules=["query"])).double()
    under = replace(infused, model=lora)
    with under.disabled(), torch.no_grad():
        torch.testing.assert_close(lora(**under.batch(TEXTS)).logits, bare, atol=1e-12, rtol=0)
        torch.testing.assert_close(lora(**batch).logits, bare, atol=1e-12, rtol=0)


def test_a_source_among_several_is_off_for_its_terms_too() -> None:
    infused = infuser.infuse(
        infuse_tiny("bert").detach(),
        sources=[Repeats(), RepeatsAndTerms()],
        tokenizer=infuse_tiny("bert").tokenizer,
    )
    shake(infused.model)
    batch = infused.batch(TEXTS)
    assert batch["knowledge_tie_weights"].max() > 0
    with infused.disabled(1):
        torch.testing.assert_close(states(infused, batch), silent(infused, 1), atol=1e-12, rtol=0)
        assert "knowledge_terms" not in infused.batch(TEXTS)


@pytest.mark.parametrize("names", [(), ("places",)])
def test_a_base_that_is_off_links_nothing(names: tuple[str, ...]) -> None:
    infused = infuse_tiny("bert", method="kar")
    told = infuser.find_mentions(infused, TEXTS)
    assert {one.base for of_text in told for one in of_text} == {"places", "things"}
    with infused.disabled(*names):
        found = infuser.find_mentions(infused, TEXTS)
    left = {one.base for of_text in found for one in of_text}
    assert left == ({"things"} if names else set())
    assert infuser.find_mentions(infused, TEXTS) == told
