from __future__ import annotations

from typing import Any

from experiments.bench_results import N, cell, settings

from infuser.experiments.summary import summarise
from infuser.reports.bench_table import markdown_table


def notes(cells: list[dict[str, Any]], **changed: Any) -> list[str]:
    tables = {"task": {"cola": {}}, "method": {"plain": {}, "kam": {}}, "seeds": [0, 1]} | changed
    return list(summarise(settings(**tables), cells, rounds=100).notes)


def both() -> list[dict[str, Any]]:
    return [cell(method, "cola", seed) for method in ("plain", "kam") for seed in (0, 1)]


def with_sizes(one: dict[str, Any], train: int, held_out: int) -> dict[str, Any]:
    sizes = {"train": train, "held_out": held_out}
    return one | {"data": {**one["data"], **{part: {**one["data"][part], "n": n} for part, n in sizes.items()}}}


def test_how_many_examples_were_used_is_told_for_every_task() -> None:
    assert notes(both()) == [f"cola: trained on 9,000 examples, 100 held out, {N} of dev scored."]
    assert notes([with_sizes(one, 12, 0) for one in both()]) == [
        f"cola: trained on 12 examples, none held out, {N} of dev scored."
    ]
    assert notes([with_sizes(one, 0, 0) for one in both()]) == [f"cola: nothing trained, {N} of dev scored."]
    cells = both()
    cells[0] = with_sizes(cells[0], 8000, 100)
    [told] = notes(cells)
    assert "trained on 8,000 examples, 100 held out, 240 of dev scored (1 cells); trained on 9,000" in told
    [missing] = notes([])
    assert missing == "Not finished: 4 of 4 cells are missing."


def test_cells_of_one_method_with_different_knowledge_are_noted() -> None:
    cells = both()
    cells[3]["settings"] = {"knowledge": ["other"]}
    told = [note for note in notes(cells) if "knowledge" in note]
    assert len(told) == 1 and told[0].startswith("cola: cells of kam read 2 different versions of its knowledge.")


def test_data_that_changed_are_noted_whichever_part_it_was() -> None:
    for part, name in (("train", "train"), ("held_out", "held-out"), ("score", "score")):
        cells = both()
        cells[3]["data"][part]["digest"] = "other"
        assert [note for note in notes(cells) if f"2 different versions of its {name} data were read" in note]


def test_what_a_task_tells_is_shown_in_words_for_the_first_seed_of_the_baseline() -> None:
    told = {
        "vocabulary": "every whole word",
        "words": 21000,
        "facts": 1120,
        "left out": {"the mask was cut off": 3, "no single word": 1114},
        "chance": 0.25,
    }
    cells = [one | {"notes": {"facts": one["cell"]["seed"]}} for one in both()]
    cells[0]["notes"] = told
    words = "vocabulary: every whole word; 21,000 words; 1,120 facts; left out: 3 the mask was cut off, "
    assert notes(cells[::-1])[1:] == [f"cola (plain): {words}1,114 no single word; chance 0.25."]
    cells[0]["notes"] = {"left out": {}, "chance": 0.25}
    assert notes(cells, published={"scale": 100})[1:] == ["cola (plain): left out: none; chance 25."]
    hosts = {name: {"checkpoint": name} for name in ("minilm", "other")}
    assert any(note.startswith("cola (minilm, plain): ") for note in notes(cells, host=hosts))


def test_notes_stand_under_the_table() -> None:
    table = summarise(settings(), both(), rounds=100)
    assert f"- cola: trained on 9,000 examples, 100 held out, {N} of dev scored." in markdown_table(table)


def test_scores_of_covered_rows_are_noted_for_all_arms() -> None:
    cells = both()
    for one in cells[2:]:
        one["coverage"] = {"rows": [1] * 40 + [0] * (N - 40)}
    [told] = [note for note in notes(cells) if "covered" in note]
    assert told.startswith("cola: matthews by rows (knowledge of kam): 40 covered rows: plain 0.")
    assert f"{N - 40} uncovered rows: plain 0." in told and told.count("kam 0.") == 2
