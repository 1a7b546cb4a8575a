from __future__ import annotations

from pathlib import Path

from cli.commands import error_of, run_command, write_lines

from infuser import Entities
from infuser.types import Span


def test_a_list_of_names_becomes_a_folder_that_finds_them(tmp_path: Path) -> None:
    names = write_lines(
        tmp_path / "names.tsv", "name\tlabel\tid", "glipizide\tmedicine\tD1", "Fred Meyer", "Zürich\tcity"
    )
    said = run_command("gazetteer", "build", names, "--out", tmp_path / "g", "--fold-accents").stdout
    assert "3 names of 3 entities" in said
    [found] = Entities(tmp_path / "g").annotate(["Buy GLIPIZIDE at fred  meyer in Zurich"])
    assert found.spans == (
        Span(4, 13, "medicine", "D1"),
        Span(17, 28, "entity", "Fred Meyer"),
        Span(32, 38, "city", "Zürich"),
    )
    shown = run_command("gazetteer", "find", tmp_path / "g", "buy glipizide").stdout
    assert "medicine" in shown and "D1" in shown and "Meyer" not in shown
    assert "No name" in run_command("gazetteer", "find", tmp_path / "g", "buy").stdout


def test_a_table_of_entities_gives_labels_and_aliases(tmp_path: Path) -> None:
    table = write_lines(
        tmp_path / "e.tsv", "id\tlabel\taliases\ttypes", "Q70\tBern\tBerne|Bärn\tcity", "Q1\tuniverse\t\t"
    )
    run_command("gazetteer", "build", "--entities", table, "--out", tmp_path / "g")
    [found] = Entities(tmp_path / "g").annotate(["bärn, Berne, universe"])
    assert [(span.label, span.id) for span in found.spans] == [("city", "Q70"), ("city", "Q70"), ("entity", "Q1")]


def test_rows_that_cannot_be_read_are_counted_and_shown_or_stop_it(tmp_path: Path) -> None:
    names = write_lines(tmp_path / "names.tsv", "Bern", "a\tb\tc\td", "Aare", "\tno name")
    result = run_command("gazetteer", "build", names, "--out", tmp_path / "g")
    assert "2 rows could not be read" in result.stderr and "names.tsv, line 2:" in result.stderr
    assert "2 names" in result.stdout
    assert "names.tsv, line 2:" in error_of("gazetteer", "build", names, "--out", tmp_path / "h", "--strict")
    assert not (tmp_path / "h").exists()


def test_lines_with_broken_bytes_or_null_characters_are_skipped_too(tmp_path: Path) -> None:
    for name, mark in (("names.tsv", b"\t"), ("names.csv", b",")):
        names = tmp_path / name
        lines = [b"Bern", b"B\xff", b"a\0b", mark.join((b"Aare", b"river"))]
        names.write_bytes(b"\n".join(lines) + b"\n")
        result = run_command("gazetteer", "build", names, "--out", tmp_path / "g")
        assert "2 rows could not be read" in result.stderr and "2 names of 2 entities" in result.stdout
        assert f"{name}, line 2: is not UTF-8" in result.stderr and f"{name}, line 3: holds a null" in result.stderr
        assert "line 2" in error_of("gazetteer", "build", names, "--out", tmp_path / "h", "--strict")


def test_a_damaged_gazetteer_is_named_and_may_be_built_again(tmp_path: Path) -> None:
    names = write_lines(tmp_path / "names.tsv", "Bern")
    assert "1 name of 1 entity," in run_command("gazetteer", "build", names, "--out", tmp_path / "g").stdout
    (tmp_path / "g" / "about.json").write_text("no JSON")
    assert "about.json is damaged" in error_of("gazetteer", "find", tmp_path / "g", "Bern")
    run_command("gazetteer", "build", names, "--out", tmp_path / "g")
    assert "Bern" in run_command("gazetteer", "find", tmp_path / "g", "Bern").stdout


def test_a_wrong_place_is_refused_before_anything_is_read_and_assets_may_be_several(tmp_path: Path) -> None:
    missing = tmp_path / "missing.tsv"
    (tmp_path / "mine.txt").write_text("mine")
    assert "left alone" in error_of("gazetteer", "build", missing, "--out", tmp_path)
    several = ("--asset", "wordnett", "--asset", "conceptnett")
    assert "'wordnett'" in error_of("gazetteer", "build", *several, "--out", tmp_path / "g")
    empty = write_lines(tmp_path / "empty.tsv", "name")
    assert "not one name in" in error_of("gazetteer", "build", empty, "--out", tmp_path / "g")


def test_other_folders_are_left_alone(tmp_path: Path) -> None:
    names = write_lines(tmp_path / "names.tsv", "Bern")
    assert "left alone" in error_of("gazetteer", "build", names, "--out", tmp_path)
    assert "at least one FILE" in error_of("gazetteer", "build", "--out", tmp_path / "g")
    assert "no gazetteer folder" in error_of("gazetteer", "find", tmp_path / "nowhere", "Bern")
