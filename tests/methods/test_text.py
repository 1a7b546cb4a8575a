"""Text: knowledge written behind the text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from miniatures import N_POSITIONS, tiny_host, tiny_tokenizer
from tiny_infusions import shake

import infuser
from infuser import Entities, Graph
from infuser.analysis.explain import explain, read
from infuser.analysis.explanation import Explanation
from infuser.analysis.predict import answer
from infuser.errors import InputError
from infuser.methods import Kam, Text, Types
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
    assert Text().write([found]) == ["glipizide: drug; treats diabetes", "Bern: city; small"]


def test_a_mention_about_which_nothing_is_known_is_not_written() -> None:
    assert Text().write(names().annotate([TEXT])) == ["glipizide: drug", "Bern: city"]


def test_a_name_is_written_as_the_text_spells_it_first() -> None:
    found = names().annotate(["the city of BERN, Bern in short, near bern"])
    assert Text().write(found) == ["BERN: city"]
    infused = infuser.infuse(tiny_host("roberta"), Text(), sources=[names()], tokenizer=tiny_tokenizer("roberta"))
    ids = infused.batch(["in Bern"])["input_ids"][0].tolist()
    pieces = infused.tokenizer(" Bern", add_special_tokens=False)["input_ids"][-2:]
    places = [place for place in range(len(ids)) if ids[place : place + 2] == pieces]
    assert len(places) == 2, "a cased host reads the same pieces in the text and behind it"


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


def shares(infused: infuser.Infused, *inputs: str) -> dict[str, float]:
    """Return what the model answers about a text and what stands behind it."""
    with torch.no_grad():
        return answer(infused.model, infused.model(**infused.tokenizer(*inputs, return_tensors="pt")).logits)


def test_explaining_it_compares_with_the_input_without_what_is_written() -> None:
    infused = infuse(Text(share=0.7), [names(), Graph([("Bern", "lies on", "Aare")], n_terms=1)])
    explanation = explain(infused, TEXT, layer=0)
    written = "glipizide: drug . bern: city; lies on aare"
    assert explanation.written.lower() == written
    assert explanation.answer_plain == pytest.approx(shares(infused, TEXT))
    assert explanation.answer_infused == pytest.approx(shares(infused, TEXT, written))
    assert explanation.answers_without == {
        "entities": pytest.approx(shares(infused, TEXT, "bern: lies on aare")),
        "graph": pytest.approx(shares(infused, TEXT, "glipizide: drug . bern: city")),
    }
    n_tokens = len(infused.tokenizer(TEXT)["input_ids"])
    assert len(explanation.words) == n_tokens and explanation.maps["entities"].shape[0] == n_tokens
    np.testing.assert_allclose(explanation.plain.sum(axis=1), 1)
    assert (explanation.infused.sum(axis=1) < 1 - 1e-3).all()  # the rest reads what is written
    assert explanation.runaway == () and Explanation.from_dict(explanation.to_dict()).written == explanation.written


def test_a_source_that_is_left_out_of_an_explanation_writes_nothing() -> None:
    infused = infuse(Text(share=0.7), [names(), Graph([("Bern", "lies on", "Aare")], n_terms=1)])
    explanation = explain(infused, TEXT, off=["graph"])
    assert explanation.written.lower() == "glipizide: drug . bern: city"
    silent = explain(infused, TEXT, off=["entities", "graph"])
    assert silent.written == "" and silent.answer_infused == silent.answer_plain
    assert not silent.difference.any()


@pytest.mark.parametrize("host", ["bert", "roberta", "modernbert"])
@pytest.mark.parametrize("length", [1, 40])
def test_pairs_and_texts_that_are_cut_are_explained_too(host: str, length: int) -> None:
    model, tokenizer = tiny_host(host, "sequence-classification"), tiny_tokenizer(host)
    infused = infuser.infuse(model, Text(), sources=[names()], tokenizer=tokenizer)
    text, pair = " ".join([TEXT] * length), "the pharmacy in Bern"
    whole, cut = read(infused, text, pair), explain(infused, text, pair, off=["entities"])
    assert len(whole.about.words) <= len(cut.words) and whole.about.written
    again = read(infused, text, pair, off=["entities"], before=whole)
    assert again.about.words == cut.words and again.about.answer_plain == cut.answer_plain


LONG = " ".join(["the pharmacy in Bern"] * 60)
wordy = pytest.mark.parametrize(
    ("share", "source"),
    [
        (0.25, names()),
        (0.8, Entities({"glipizide": "the old drug", "pharmacy": "the old shop", "Bern": "the old city"})),
    ],
    ids=["a little", "much"],
)


@pytest.mark.parametrize(
    ("text", "pair"),
    [("buy glipizide", LONG), (f"buy glipizide {LONG}", "the old town"), (f"glipizide {LONG}", LONG)],
    ids=["long pair", "long text", "both long"],
)
@wordy
@pytest.mark.parametrize("host", ["bert", "roberta", "albert", "modernbert"])
def test_a_long_input_is_cut_and_never_what_is_written(
    host: str, share: float, source: Entities, text: str, pair: str
) -> None:
    model, tokenizer = tiny_host(host, "sequence-classification"), tiny_tokenizer(host)
    infused = infuser.infuse(model, [Text(share=share), Types()], sources=[source], tokenizer=tokenizer)
    written = explain(infused, text, pair).written
    mentions = source.annotate([text])[0].spans[:1]
    batch, [[(start, end)]] = infused.collator().place([{"text": text, "pair": pair}], [mentions])
    ids, alone = batch["input_ids"][0], tokenizer("the", f"the {tokenizer.sep_token} {written}")["input_ids"]
    n_written = len(alone) - len(tokenizer("the", "the")["input_ids"])
    assert written and ids[-n_written - 1 :].tolist() == alone[-n_written - 1 :]
    assert N_POSITIONS - 2 <= len(ids) <= N_POSITIONS, "no room is wasted"
    assert tokenizer.decode(ids[start:end]).strip().lower() == "glipizide"
    assert (batch["knowledge_spans"][0, :, 3] <= len(ids) - n_written).all(), "nothing is found in there"


@pytest.mark.parametrize("text", [LONG, "glipizide"])
def test_a_text_alone_is_cut_as_the_tokenizer_cuts_it(text: str) -> None:
    infused = infuse()
    expected = infused.tokenizer(text, explain(infused, text).written, truncation="longest_first")
    assert infused.batch([text])["input_ids"].tolist() == [expected["input_ids"]]


@wordy
def test_a_tokenizer_that_cuts_on_the_left_keeps_what_is_written_too(share: float, source: Entities) -> None:
    tokenizer = tiny_tokenizer("bert", truncation_side="left")
    infused = infuser.infuse(tiny_host("bert"), Text(share=share), sources=[source], tokenizer=tokenizer)
    for pair in (None, "the old town", LONG):
        ids = infused.batch([f"glipizide {LONG}"], None if pair is None else [pair])["input_ids"][0].tolist()
        [written] = infused.collator().written_texts([source.annotate([f"glipizide {LONG}"])])
        last = tokenizer(written, add_special_tokens=False)["input_ids"]
        assert written and ids[-len(last) - 1 : -1] == last


def test_clients_that_cut_shorter_keep_what_is_written_too() -> None:
    infused = infuse()
    read = infused.reading_tokenizer()(["glipizide"], [LONG], return_tensors="pt", max_length=40)
    ids = read["input_ids"][0].tolist()
    assert len(ids) == 40 and "[SEP] glipizide : drug" in infused.tokenizer.decode(ids)


def test_entities_are_read_at_their_words_in_every_row() -> None:
    model = tiny_host("bert", "token-classification", num_labels=3)
    model.config.id2label = {0: "O", 1: "B-city", 2: "I-city"}
    tokenizer = tiny_tokenizer("bert", padding_side="left")
    sources = [names(), Graph([("Bern", "lies on", "Aare")], n_terms=1)]
    infused = infuser.infuse(model, Text(), sources=sources, tokenizer=tokenizer)
    explanation = explain(infused, TEXT)
    for name in ("entities", "graph"):
        alone = explain(infused, TEXT, off=[name]).entities_infused
        assert alone is not None
        found = explanation.entities_without[name]
        assert [one[:3] for one in found] == [one[:3] for one in alone]
        assert [one[3] for one in found] == pytest.approx([one[3] for one in alone])


def test_an_explanation_switches_it_off_beside_another_method() -> None:
    infused, alone = infuse([Text(), Types()]), infuse(Types())
    alone.model.load_state_dict(infused.model.state_dict())
    explanation = explain(infused, TEXT, off=["text"])
    assert explanation.written == "" and explanation.answer_infused == explain(alone, TEXT).answer_infused
    assert explain(infused, TEXT).answers_without["text"] == pytest.approx(explanation.answer_infused)


def test_heads_that_run_away_are_reported_where_nothing_was_written() -> None:
    infused = infuse([Text(), Kam(limit="off")], [Entities({"Bern": "city", "pharmacy": "entity"})])
    for seed in range(20):
        shake(infused.model, seed=seed)
    wrote, silent = "Bern lies near the old bridge", "the pharmacy lies near the old bridge"
    assert explain(infused, wrote).written and explain(infused, wrote).runaway == ()
    assert explain(infused, wrote, off=["text"]).warning
    assert not explain(infused, silent).written and explain(infused, silent).warning


@pytest.mark.parametrize("method", [Text(), [Text(), Types()]], ids=["alone", "beside types"])
def test_a_call_cannot_switch_it_off_and_says_how_to_leave_it_out(method: object) -> None:
    infused = infuse(method)
    with pytest.raises(InputError, match=r"part of the tokens.*infused\.collator\(writer=None\)"):
        infused.model(**infused.batch([TEXT]), knowledge_off="text")
    bare = infused.collator(writer=None).encode([TEXT])
    assert bare["input_ids"].tolist() == [infused.tokenizer(TEXT)["input_ids"]]


def test_a_share_of_all_or_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="between 0 and 1"):
        Text(share=1.0)
