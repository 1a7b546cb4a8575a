from __future__ import annotations

import gzip
import json
import re
import string
import zipfile
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
import torch
from forked import exit_codes, start_ranks
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from miniatures import Repeats, tiny_host, tiny_tokenizer

from infuser import Kam, infuse
from infuser.errors import InputError
from infuser.reading.files import BadRow
from infuser.registry import TASKS
from infuser.signals import Collator
from infuser.tasks.quasar_t import QuasarT
from infuser.tasks.search_qa import SearchQa
from infuser.tasks.span_windows import Reading, WindowCollator, find_answer, read_windows, training_windows, windows_of
from infuser.training import TrainSettings

TASK = SearchQa("nowhere")
QUESTIONS = [
    {
        "text": "where lies the old bridge",
        "pair": ["the lake is blue and big", "the old bridge lies in the Green Town near the river"],
        "answers": ["green town"],
    },
    {
        "text": "what runs from the city",
        "pair": ["a red train runs from the city to the lake", "the garden of the house is small"],
        "answers": ["a Train", "red train"],
    },
]


class Forbidden(Repeats):
    """A source that must not be asked any more."""

    def annotate(self, texts):
        raise AssertionError("annotations were given, yet the source was asked")


# --- scores ---


def squads_words(text: str) -> list[str]:
    """SQuAD "ignores punctuations and articles (a, an, the)", case and white space; run by run, not by patterns."""
    kept = (char for char in text.lower() if char not in string.punctuation)
    runs = ("".join(run) for _, run in groupby(kept, key=str.isalnum))
    return "".join(" " if run in ("a", "an", "the") else run for run in runs).split()


def squads_f1(answer: list[str], gold: list[str]) -> float:
    """SQuAD: "average overlap between the prediction and ground truth, as bags of tokens"; none only matches none."""
    if not answer or not gold:
        return float(answer == gold)
    left = list(gold)
    for word in answer:
        if word in left:
            left.remove(word)
    shared = len(gold) - len(left)
    precision, recall = shared / len(answer), shared / len(gold)
    return 2 * precision * recall / (precision + recall) if shared else 0.0


TEXT = st.lists(
    st.sampled_from(["The", "a", "an", "Bern", "bern", "U.S.", "aare", " ", ", ", "-", "'s", "é"]), max_size=8
)


@given(
    st.lists(st.tuples(TEXT.map(" ".join), st.lists(TEXT.map("".join) | TEXT.map(" ".join), min_size=1, max_size=3)))
)
def test_scores_are_those_that_squad_describes(rows):
    if not rows:
        with pytest.raises(InputError, match="at least one"):
            TASK.score([], [])
        return
    predictions, golds = zip(*rows, strict=True)
    words = [(squads_words(answer), [squads_words(gold) for gold in accepted]) for answer, accepted in rows]
    scores = TASK.score(list(golds), list(predictions))
    f1s = [max(squads_f1(answer, gold) for gold in accepted) for answer, accepted in words]
    exact = [any(" ".join(answer) == " ".join(gold) for gold in accepted) for answer, accepted in words]
    assert scores["f1"] == pytest.approx(sum(f1s) / len(rows))
    assert scores["exact-match"] == pytest.approx(sum(exact) / len(rows))


def test_scores_agree_with_hand_counts():
    golds = [["the Green Town"], ["Aare", "river Aare"], ["Bern"]]
    scores = TASK.score(golds, ["green town!", "the blue river Aare", "Basel"])
    assert scores == pytest.approx({"f1": (1 + 2 * 2 / 5 + 0) / 3, "exact-match": 1 / 3})
    with pytest.raises(InputError, match="2 answers for 3 questions"):
        TASK.score(golds, ["", ""])


# --- windows ---


@pytest.mark.parametrize(
    ("passage", "answers", "found"),
    [
        ("in the Green Town.", ["green town"], "Green Town"),
        ("a townhouse, a town", ["town"], "town"),  # whole words only
        ("the U.S. and St. Louis", ["st louis"], "St. Louis"),
        ("Bern or Basel", ["Basel", "Bern"], "Basel"),  # the first answer goes first
        ("by Beatles", ["The Beatles"], "Beatles"),  # articles do not count in scores either
        ("Vitamin A", ["A"], "A"),
        ("nothing", ["Bern", "?"], None),
        ("", ["Bern"], None),
    ],
)
def test_an_answer_is_found_as_whole_words_in_any_case(passage, answers, found):
    place = find_answer(passage, answers)
    assert (passage[slice(*place)] if place else None) == found
    if place:
        assert place[0] == passage.rindex(found)


def test_training_reads_passages_that_hold_the_answer_and_a_few_that_do_not():
    question = {
        "text": "q",
        "pair": ["x", "in Bern", "y", "Bern it is"],
        "answers": ["Bern"],
        "annotations": list("abcd"),
    }
    windows = training_windows(question, n_negatives=1)
    assert [(window["pair"], window["answer"], window["annotations"]) for window in windows] == [
        ("in Bern", (3, 7), "b"),
        ("Bern it is", (0, 4), "d"),
        ("x", None, "a"),
    ]
    assert training_windows({**question, "answers": ["Basel"]}, n_negatives=1) == []
    with pytest.raises(InputError, match="None of the 1 questions has its answer"):
        TASK.fit(None, None, [{**question, "answers": ["Basel"]}], dev=None, settings=TrainSettings())


@pytest.mark.parametrize("host", ["bert", "roberta", "xlm-roberta"])
@pytest.mark.parametrize("side", ["right", "left"])
def test_answers_are_placed_at_their_tokens_beside_the_collators_own_batch(host, side):
    tokenizer = tiny_tokenizer(host, padding_side=side)
    collator = Collator(tokenizer, [Repeats()], max_length=32)
    windows = [window for question in QUESTIONS for window in training_windows(question, n_negatives=1)]
    windows.append({**windows[0], "pair": "the lake " * 30 + "green town", "answer": (270, 280)})  # cut off
    batch = WindowCollator(collator)(windows)
    starts, ends = batch.pop("start_positions").tolist(), batch.pop("end_positions").tolist()
    plain = collator(windows)
    assert batch.keys() == plain.keys() and all(torch.equal(batch[name], plain[name]) for name in plain)
    assert batch["knowledge_maps"].max() >= 0
    for row, window in enumerate(windows):
        first = int(batch["attention_mask"][row].argmax())
        ids = batch["input_ids"][row]
        assert ids[first] == tokenizer.cls_token_id
        if window["answer"] is None or len(window["pair"]) > 100:
            assert starts[row] == ends[row] == first
            continue
        said = tokenizer.decode(ids[starts[row] : ends[row] + 1]).strip().lower()
        assert said == window["pair"][slice(*window["answer"])].lower()


def test_selective_sources_draw_anew_in_each_epoch():
    class Drawing(Repeats):
        def drawn(self, found, *, epoch, seed):
            return [epoch == 1] * len(found.spans)

    collator = WindowCollator(Collator(tiny_tokenizer("bert"), [Drawing()]))
    windows = training_windows(QUESTIONS[0], n_negatives=0)
    n_boxes = [
        int((collator.for_epoch(epoch, seed=3)(windows)["knowledge_maps"][..., 0] >= 0).sum()) for epoch in (0, 1)
    ]
    assert n_boxes[0] == 0 < n_boxes[1]


class Pointing(torch.nn.Module):
    """Stands where a model stands, with chosen logits: a start and an end per token id."""

    device = torch.device("cpu")

    def __init__(self, starts: dict[int, float], ends: dict[int, float]) -> None:
        super().__init__()
        self.tables = starts, ends

    def forward(self, input_ids, **others):
        starts, ends = (
            torch.tensor([[table.get(token, 0.0) for token in row] for row in input_ids.tolist()])
            for table in self.tables
        )
        return type("Out", (), {"start_logits": starts, "end_logits": ends})


def test_the_best_span_lies_in_the_passage_and_is_no_longer_than_allowed():
    tokenizer = tiny_tokenizer("bert")
    cls, river, old, town = tokenizer.convert_tokens_to_ids(["[CLS]", "river", "old", "town"])
    model: Any = Pointing({river: 9.0, old: 5.0, cls: 1.0}, {town: 4.5, cls: 0.5})
    passages = ["a river of the old, big town is", "town old", "!", ""]
    windows = windows_of({"text": "the river town", "pair": passages})

    def read(most: int, batch_size: int = 64) -> list[Reading]:
        return read_windows(model, Collator(tokenizer), windows, max_answer_tokens=most, batch_size=batch_size)

    found = read(16)
    assert found[0] == Reading(9 + 4.5 - 1.5, "river of the old, big town")
    assert found[1] == Reading(5 - 1.5, "old")
    assert found[2:] == [Reading(float("-inf"), "")] * 2
    assert read(4)[0] == Reading(5 + 4.5 - 1.5, "old, big town")  # the comma is a token, too
    assert read(3)[0] == Reading(9 - 1.5, "river")
    assert read(16, batch_size=1) == found


# --- the whole way ---


def fitted(collator: Collator, model: Any, questions: list[dict[str, Any]], **changes: Any) -> None:
    chosen = {"epochs": 40, "batch_size": 4, "learning_rate": 1e-2, "weight_decay": 0.0, "patience": 3, **changes}
    result = TASK.fit(model, collator, questions, dev=questions, settings=TrainSettings(**chosen), progress=False)
    assert result.best is None and result.steps == chosen["epochs"]


def test_a_tiny_host_learns_two_questions_and_answers_them():
    model, collator = tiny_host("bert", "question-answering"), Collator(tiny_tokenizer("bert"))
    before = TASK.answer(model, collator, QUESTIONS)
    fitted(collator, model, QUESTIONS)
    answers = TASK.answer(model, collator, QUESTIONS, batch_size=3)
    assert answers == ["Green Town", "train"] != before
    golds = json.loads(json.dumps([TASK.gold(question) for question in QUESTIONS]))
    assert TASK.score(golds, answers) == {"f1": 1.0, "exact-match": 1.0}


def test_annotations_of_each_passage_reach_an_infused_model():
    infused = infuse(
        tiny_host("bert", "question-answering"), Kam(), sources=[Repeats()], tokenizer=tiny_tokenizer("bert")
    )
    collator = infused.collator()
    asked = TASK.answer(infused.model, collator, QUESTIONS)
    annotated = [
        {**question, "annotations": collator.annotate([question["text"]] * 2, question["pair"])}
        for question in QUESTIONS
    ]
    silent = Collator(infused.tokenizer, [Forbidden()])
    assert TASK.answer(infused.model, silent, annotated) == asked
    before = {name: weight.clone() for name, weight in infused.model.named_parameters() if "knowledge" in name}
    fitted(silent, infused.model, annotated, epochs=2)
    weights = dict(infused.model.named_parameters())
    assert before and any(not torch.equal(weights[name], old) for name, old in before.items())


def answers_after_three_steps() -> list[str]:
    model = tiny_host("bert", "question-answering", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    collator = Collator(tiny_tokenizer("bert"))
    fitted(collator, model, QUESTIONS, epochs=3)
    return TASK.answer(model, collator, QUESTIONS, batch_size=1)


def answer_as_a_process(out: Path) -> None:
    from accelerate import PartialState

    told = answers_after_three_steps()
    (out / f"told-{PartialState().process_index}.json").write_text(json.dumps(told))
    PartialState().destroy_process_group()


@pytest.mark.slow
def test_two_processes_answer_as_one_does(tmp_path):
    ranks = start_ranks(answer_as_a_process, tmp_path, logs=tmp_path)
    assert exit_codes(*ranks) == [0, 0], "".join(log.read_text() for log in tmp_path.glob("log-*.txt"))
    alone = answers_after_three_steps()
    assert [json.loads((tmp_path / f"told-{rank}.json").read_text()) for rank in (0, 1)] == [alone, alone]


# --- files ---


def quasar_files(folder: Path, questions: list[Any], contexts: list[Any], kind: str = "short") -> QuasarT:
    for name, rows in (("questions/dev_questions", questions), (f"contexts/{kind}/dev_contexts", contexts)):
        path = folder / f"{name}.json.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress("".join(f"{json.dumps(row)}\n" for row in rows).encode()))
    return QuasarT(str(folder), max_passages=2, contexts="long" if kind == "long" else "short")


QUESTION = {"uid": "s3q1", "question": "Where is Bern?", "answer": "Switzerland", "tags": ["1tok"]}
CONTEXTS = {"uid": "s3q1", "contexts": [[0.9, "Bern , Switzerland ."], [0.5, "b"], [0.1, "c"]]}


@pytest.mark.parametrize("kind", ["short", "long"])
def test_quasar_joins_questions_and_passages_by_their_uid(tmp_path, kind):
    task = quasar_files(
        tmp_path, [QUESTION, {**QUESTION, "uid": "s3q2"}], [{"uid": "s3q2", "contexts": []}, CONTEXTS], kind
    )
    first, second = task.read("dev")
    answer = {"text": "Where is Bern?", "answers": ["Switzerland"]}
    assert first == {**answer, "pair": ["Bern , Switzerland .", "b"], "id": "s3q1"}
    assert second == {**answer, "pair": [""], "id": "s3q2"}  # nothing was found, and it counts all the same
    assert TASKS["quasar-t"] is QuasarT and task.head == "question-answering" and task.metrics[0] == "f1"


@pytest.mark.parametrize(
    ("question", "contexts", "why"),
    [
        ({**QUESTION, "uid": "s3q9"}, CONTEXTS, r"dev_questions.json.gz, line 2 has the uid 's3q9', for which"),
        ({**QUESTION, "answer": " "}, CONTEXTS, r"dev_questions.json.gz, line 2 has no answer that is a text"),
        ({**QUESTION, "question": 5}, CONTEXTS, r"dev_questions.json.gz, line 2 has no question that is a text but 5"),
        (QUESTION, {"uid": "s3q1"}, r"dev_contexts.json.gz, line 2 has no list of contexts but None"),
        (QUESTION, {"uid": ["s3q1"], "contexts": []}, r"dev_contexts.json.gz, line 2 has no uid that is a text"),
        (QUESTION, {"uid": "s3q1", "contexts": [[0.5, None]]}, r"line 1 has a passage that is no text but None"),
        (QUESTION, "no object", r"dev_contexts.json.gz, line 2 is no object"),
    ],
)
def test_malformed_rows_of_quasar_are_told_with_their_file_and_line(tmp_path, question, contexts, why):
    with pytest.raises(BadRow, match=why):
        quasar_files(tmp_path, [QUESTION, question], [CONTEXTS, contexts]).read("dev")


LINE = "<s> the aare flows in bern </s>  <s> bern </s> ||| a city on the aare ||| bern\n"
CRAWLED = {
    "question": "A city on the Aare",
    "answer": "Bern",
    "search_results": [
        {"snippet": "Bern it is", "title": "t"},
        {"snippet": None, "title": "t"},
        {"snippet": "the Aare"},
    ],
}
FROM_CRAWLED = {"text": "A city on the Aare", "pair": ["Bern it is", "the Aare"], "answers": ["Bern"], "id": "dev-1"}


def test_searchqas_lines_hold_snippets_question_and_answer(tmp_path):
    (tmp_path / "val.txt").write_text(LINE + "<s> a </s> |||  ||| bern\n" + LINE)
    pair = ["the aare flows in bern", "bern"]
    read = SearchQa(str(tmp_path)).read("dev")
    assert read[0] == {"text": "a city on the aare", "pair": pair, "answers": ["bern"], "id": "dev-1"}
    assert [example["id"] for example in read] == ["dev-1", "dev-3"]  # one without a question is left out
    assert SearchQa(str(tmp_path), max_passages=1).read("dev")[0]["pair"] == pair[:1]
    assert TASKS["search-qa"] is SearchQa


@pytest.mark.parametrize(
    ("line", "why"),
    [("a ||| b\n", r"has 2 parts between '\|\|\|'"), ("snippet ||| q ||| a\n", "has snippets without <s> and </s>")],
)
def test_malformed_lines_of_searchqa_are_told_with_their_file_and_line(tmp_path, line, why):
    (tmp_path / "train.txt").write_text(LINE + line)
    with pytest.raises(BadRow, match=rf"train.txt, line 2 {why}"):
        SearchQa(str(tmp_path)).read("train")


@pytest.mark.parametrize("packed", [False, True])
def test_searchqas_crawled_files_are_read_from_a_folder_or_a_zip(tmp_path, packed):
    files = {"000001.json": json.dumps(CRAWLED), "000002.json": "{"}
    task = SearchQa(str(tmp_path))

    def write(names: list[str]) -> None:
        if packed:
            with zipfile.ZipFile(tmp_path / "val.zip", "w") as archive:
                for name in names:
                    archive.writestr(name, files[name])
        else:
            (tmp_path / "val").mkdir(exist_ok=True)
            for name in names:
                (tmp_path / "val" / name).write_text(files[name])

    write(["000001.json"])
    assert task.read("dev") == [FROM_CRAWLED]
    write([*files])
    with pytest.raises(BadRow, match=r"000002.json, line 1 is not JSON"):
        task.read("dev")


def test_searchqa_says_what_is_missing(tmp_path):
    (tmp_path / "val").mkdir()
    (tmp_path / "val/1.json").write_text(json.dumps({**CRAWLED, "search_results": "none"}))
    (tmp_path / "test.zip").write_bytes(b"no archive")
    for split, why in (("dev", "has no search_results"), ("test", "no zip file"), ("train", "train.txt or train.zip")):
        with pytest.raises(InputError, match=why):
            SearchQa(str(tmp_path)).read(split)


def test_the_hubs_columns_are_read_through_the_datasets_library(tmp_path, monkeypatch):
    pytest.importorskip("datasets")
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    results = {"snippets": ["Bern it is", "", "the Aare"], "titles": ["t", "t", "t"]}
    for name, row in (
        ("search", {**CRAWLED, "search_results": results}),
        ("quasar", {**QUESTION, "contexts": [text for _, text in CONTEXTS["contexts"]]}),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "validation.jsonl").write_text(json.dumps(row))
    assert SearchQa(f"datasets:{tmp_path / 'search'}").read("dev") == [FROM_CRAWLED]
    assert QuasarT(f"datasets:{tmp_path / 'quasar'}").read("dev")[0]["pair"] == ["Bern , Switzerland .", "b", "c"]


@given(st.text(st.sampled_from("<s/>| ab\n"), max_size=40))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_line_is_read_or_refused_with_its_place(tmp_path, text):
    (tmp_path / "val.txt").write_text(text)
    examples, refused = [], ""
    try:
        examples = SearchQa(str(tmp_path)).read("dev")
    except BadRow as error:
        refused = str(error)
    n_lines = sum(1 for line in text.split("\n") if line.strip())
    assert re.search(r"val.txt, line \d+", refused) or len(examples) <= n_lines
    assert all(example["text"] and example["pair"] and example["answers"][0] for example in examples)


@pytest.mark.parametrize(
    "setting", [{"max_passages": 0}, {"max_answer_tokens": 0}, {"n_negatives": -1}, {"contexts": "x"}]
)
def test_impossible_settings_are_refused(setting):
    with pytest.raises(InputError, match=f"The setting {next(iter(setting))} is"):
        QuasarT("nowhere", **setting)
