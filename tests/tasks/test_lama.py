from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from forked import exit_codes, start_ranks
from lama_files import BORN, COLOURS, DANTE, REAL, jsonl, trex, write_answers
from miniatures import Repeats, tiny_host, tiny_tokenizer
from tiny_infusions import infuse_tiny

from infuser.errors import InputError
from infuser.registry import TASKS
from infuser.signals import Collator
from infuser.tasks.base import Training
from infuser.tasks.cloze import CUT_OFF, NO_SINGLE_WORD, rank_objects, ranked_words, with_gap
from infuser.tasks.lama import Lama
from infuser.training import TrainSettings

# reading


def test_facts_become_questions_asked_once_with_the_other_right_objects(tmp_path: Path):
    pisa, again = DANTE | {"obj_label": "Pisa"}, DANTE | {"uuid": "other"}
    rows = [row | {"evidences": [{"masked_sentence": "In [MASK]."}]} for row in (DANTE, again, pisa)]
    data = trex(tmp_path, rows)
    first, second = TASKS["lama"](data).read("test")
    assert first == {
        "text": "Dante was born in [MASK] .",
        "relation": "P19",
        "type": "N-1",
        "subject": "Dante",
        "object": "Florence",
        "others": ["Pisa"],
    }
    assert (second["object"], second["others"]) == ("Pisa", ["Florence"])
    assert Lama(data).gold(first) == {"relation": "P19", "type": "N-1", "object": "Florence"}
    evidence = Lama(data, prompt="evidence").read("test")
    assert [(example["text"], example["object"]) for example in evidence] == [
        ("In [MASK].", "Florence"),
        ("In [MASK].", "Florence"),
        ("In [MASK].", "Pisa"),
    ]


def test_some_facts_of_each_relation_know_what_else_is_right(tmp_path: Path):
    rows = [DANTE | {"sub_label": f"Ann{n // 2}", "obj_label": f"Bern{n}"} for n in range(10)]
    some = Lama(trex(tmp_path, rows), max_facts_per_relation=3).read("test")
    assert [(example["object"], example["others"]) for example in some] == [
        ("Bern0", ["Bern1"]),
        ("Bern3", ["Bern2"]),
        ("Bern6", ["Bern7"]),
    ]


def test_other_objects_of_squad_are_right_for_the_same_sentence_only(tmp_path: Path):
    sentences = [("The [MASK].", "gold"), ("The [MASK].", "color"), ("A [MASK].", "bowl")]
    rows = [{"masked_sentences": [text], "obj_label": name, "sub_label": "Squad"} for text, name in sentences]
    jsonl(tmp_path / "Squad" / "test.jsonl", rows)
    examples = Lama(str(tmp_path), part="squad").read("test")
    assert [example["others"] for example in examples] == [["color"], ["gold"], []]


def test_it_learns_from_a_corpus_or_not_at_all(tmp_path: Path):
    (tmp_path / "corpus.txt").write_text("one\ntwo\n")
    probe, learner = Lama(str(tmp_path)), Lama(str(tmp_path), corpus=str(tmp_path / "corpus.txt"))
    assert (probe.learns, learner.learns) == (False, True)
    assert learner.read("train") == [{"text": "one"}, {"text": "two"}]
    for task, split in ((probe, "train"), (learner, "dev")):
        with pytest.raises(InputError, match=f"LAMA has no {split} part"):
            task.read(split)
    with pytest.raises(InputError, match="Only facts can be asked"):
        learner.answer(tiny_host("bert", "masked-lm"), Collator(tiny_tokenizer("bert")), learner.read("train"))


@pytest.mark.parametrize("settings", [{"prompt": "question"}, {"max_facts_per_relation": 0}])
def test_settings_that_say_nothing_are_refused(settings: dict[str, Any]):
    with pytest.raises(InputError, match=next(iter(settings))):
        Lama("data", **settings)


@pytest.mark.shared
def test_the_published_number_of_google_re_questions_is_asked():
    if not REAL.is_dir():
        pytest.skip(f"no data at {REAL}")
    assert len(Lama(str(REAL), part="google-re").read("test")) == 5527


# words


@pytest.mark.parametrize("host", ["bert", "roberta", "xlm-roberta"])
def test_every_piece_that_is_a_whole_word_is_ranked(host: str, tmp_path: Path):
    tokenizer = tiny_tokenizer(host)
    words = ranked_words(tokenizer)
    assert {"river", "red", "bridge"} <= set(words.values())
    assert not {"ing", "##ing", "er", ".", "<s>", "[MASK]", "[UNK]", ""} & set(words.values())
    ids = [tokenizer(f" {word}", add_special_tokens=False)["input_ids"] for word in words.values()]
    assert ids == [[number] for number in words]
    (tmp_path / "list.txt").write_text("river\nglipizide\n\nred\n☃\nred\n")
    assert list(ranked_words(tokenizer, str(tmp_path / "list.txt")).values()) == ["river", "red"]
    (tmp_path / "list.txt").write_text("glipizide\n")
    with pytest.raises(InputError, match=r"None of the 1 words in .*list.txt"):
        ranked_words(tokenizer, str(tmp_path / "list.txt"))


# ranks


def slow_rank(model: Any, tokenizer: Any, example: dict[str, Any], words: dict[int, str], discount: bool) -> int | None:
    """One text at a time, all positions, softmax, sorting."""
    encoding = tokenizer(example["text"].replace("[MASK]", tokenizer.mask_token), return_tensors="pt")
    at = encoding["input_ids"][0].tolist().index(tokenizer.mask_token_id)
    shares = model(**encoding).logits[0, at].softmax(dim=-1)
    taken_out = set(example["others"]) if discount else set()
    order = sorted((-shares[number].item(), word) for number, word in words.items() if word not in taken_out)
    ranked = [word for _, word in order]
    return ranked.index(example["object"]) + 1 if example["object"] in ranked else None


@pytest.mark.parametrize("host", ["bert", "roberta"])
@pytest.mark.parametrize("discount", [True, False])
def test_ranks_are_those_of_a_slow_reference(host: str, discount: bool):
    model, tokenizer = tiny_host(host, "masked-lm"), tiny_tokenizer(host)
    words = ranked_words(tokenizer)
    found = rank_objects(model, Collator(tokenizer), COLOURS, words, discount_others=discount, batch_size=2)
    expected = [slow_rank(model, tokenizer, example, words, discount) for example in COLOURS]
    assert [one["rank"] for one in found] == expected
    assert expected[3] is None
    assert found[3] == {"rank": None, "left_out": NO_SINGLE_WORD, "words": len(words)}
    assert json.loads(json.dumps(found)) == found


def test_a_right_object_does_not_stand_in_the_way_of_another():
    model, tokenizer = tiny_host("bert", "masked-lm"), tiny_tokenizer("bert")
    words = ranked_words(tokenizer)
    [plain] = rank_objects(model, Collator(tokenizer), COLOURS[2:3], words)
    before = [word for word in words.values() if word != "green"]
    alone = COLOURS[2] | {"others": before}
    [first] = rank_objects(model, Collator(tokenizer), [alone], words)
    [counted] = rank_objects(model, Collator(tokenizer), [alone], words, discount_others=False)
    assert (first["rank"], first["answer"]) == (1, "green")
    assert counted == plain
    assert plain["rank"] > 1


def test_words_that_score_alike_come_before_the_right_one():
    model, tokenizer = tiny_host("bert", "masked-lm"), tiny_tokenizer("bert")
    with torch.no_grad():
        for weight in model.cls.parameters():
            weight.zero_()
    words = ranked_words(tokenizer)
    assert rank_objects(model, Collator(tokenizer), COLOURS[2:3], words)[0]["rank"] == len(words)


def test_a_mask_that_was_cut_off_is_counted_not_guessed():
    model, tokenizer = tiny_host("bert", "masked-lm"), tiny_tokenizer("bert")
    task = Lama("data")
    found = task.answer(model, Collator(tokenizer, max_length=8), COLOURS)
    assert [one.get("left_out") for one in found] == [CUT_OFF, CUT_OFF, None, NO_SINGLE_WORD, CUT_OFF]
    notes = task.notes([task.gold({"type": "", **example}) for example in COLOURS], found)
    assert notes["left out"] == {CUT_OFF: 3, NO_SINGLE_WORD: 1}
    assert (notes["facts"], notes["ranked"], notes["words"]) == (5, 1, len(ranked_words(tokenizer)))


@pytest.mark.parametrize("host", ["bert", "roberta"])
def test_an_infused_model_reads_its_knowledge_also_where_the_mask_has_another_name(host: str):
    infused = infuse_tiny(host, "masked-lm", "kam")
    collator, words = infused.collator(), ranked_words(infused.tokenizer)
    asked = [example for example in COLOURS if example["object"] != "glipizide"]
    texts = [example["text"] + " the old river near the old bridge" for example in asked]
    questions = [example | {"text": text} for example, text in zip(asked, texts, strict=True)]
    found = collator.annotate(texts)
    annotated = [example | {"annotations": one} for example, one in zip(questions, found, strict=True)]
    plain = Collator(infused.tokenizer)
    with_knowledge = rank_objects(infused.model, collator, annotated, words)
    assert with_knowledge == rank_objects(infused.model, collator, questions, words)
    assert with_knowledge != rank_objects(infused.model, plain, questions, words)


def test_annotations_move_with_the_gap():
    text = "old [MASK] bridge, [MASK] old [MASK]"
    [found] = Repeats(term="river").annotate([text])
    moved = with_gap({"text": text, "annotations": (found,)}, "<mask>", 3)
    assert moved["text"] == "old <mask><mask><mask> bridge, <mask> old <mask>"
    [after] = moved["annotations"]
    assert [after.text[span.start : span.end] for span in after.spans] == [
        "old",
        "<mask><mask><mask>",
        "bridge",
        "<mask>",
        "old",
        "<mask>",
    ]
    assert (after.links, after.terms, after.text) == (found.links, found.terms, moved["text"])
    of_another = with_gap({"text": f"{text}.", "annotations": (found,)}, "<mask>")
    with pytest.raises(InputError, match="belong to another text"):
        Collator(tiny_tokenizer("roberta"), [Repeats()])([of_another])
    same = with_gap({"text": text, "annotations": (found,)}, "[MASK]")
    assert same["text"] == text
    assert [span.start for span in same["annotations"][0].spans] == [0, 4, 11, 19, 26, 30]


# learning


def test_facts_of_a_corpus_are_recalled_after_training(tmp_path: Path):
    facts = {"old bridge": "red", "small house": "blue"}
    data = trex(tmp_path, [DANTE | {"sub_label": f"the {name}", "obj_label": colour} for name, colour in facts.items()])
    jsonl(tmp_path / "relations.jsonl", [BORN | {"template": "[X] was [Y]"}])
    beginnings = ("the", "a", "and the", "on the", "near a", "in the", "of the", "from a")
    lines = [f"{begin} {name} was {colour}\n" for name, colour in facts.items() for begin in beginnings]
    (tmp_path / "corpus.txt").write_text("".join(lines))
    task = Lama(data, corpus=str(tmp_path / "corpus.txt"))
    model = tiny_host("bert", "masked-lm", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    collator, examples = Collator(tiny_tokenizer("bert")), task.read("test")
    golds = [task.gold(example) for example in examples]
    before = task.score(golds, task.answer(model, collator, examples))
    settings = TrainSettings(epochs=60, batch_size=16, learning_rate=1e-2)
    run = task.fit(Training(model, collator, settings, progress=False), task.read("train"))
    after = task.answer(model, collator, examples)
    assert run.history[0].loss > run.history[-1].loss
    assert before["p@1"] < 1.0
    assert task.score(golds, after)["p@1"] == 1.0
    assert [one["answer"] for one in after] == ["red", "blue"]


# processes


@pytest.mark.slow
def test_two_processes_share_the_questions_and_both_know_all_answers(tmp_path: Path):
    assert exit_codes(*start_ranks(write_answers, tmp_path, logs=tmp_path)) == [0, 0]
    alone = Lama("data").answer(tiny_host("bert", "masked-lm"), Collator(tiny_tokenizer("bert")), COLOURS)
    assert [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)] == [alone, alone]
