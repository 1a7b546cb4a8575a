"""RDF: statements become triples, names and types become entities, broken lines are told."""

from __future__ import annotations

import gzip
import logging
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infuser.errors import InputError
from infuser.knowledge.facts import ENTITIES, TRIPLES
from infuser.knowledge.readers.rdf import read_rdf
from infuser.tables.skipped import BATCH, Skipped

pytest.importorskip("pyoxigraph", reason="pyoxigraph is not installed")

TURTLE = """
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix schema: <https://schema.org/> .
@prefix dct: <http://purl.org/dc/terms/> .
@prefix ex: <http://example.org/thing/> .

ex:Bern a ex:City, ex:Capital ;
    rdfs:label "Berne", "Bern"@de, "Bern"@en-GB, "Bern city"@en ;
    skos:altLabel "Bundesstadt"@de, "federal city"@en ;
    schema:alternateName "City of Bern" ;
    dct:description "a city on the Aare"@en ;
    ex:population 134591 ;
    ex:liesOn ex:Aare ;
    ex:near [ ex:liesOn ex:Aare ] .
ex:Aare skos:prefLabel "Aare" ; rdfs:comment "une rivière"@fr ; skos:definition "a river" .
"""


def read(path: Path, skipped: Skipped | None = None, **options) -> tuple[list[dict], list[dict]]:
    """Return the triples and the entities."""
    found: dict[bool, list[dict]] = {True: [], False: []}
    for batch in read_rdf(path, skipped or Skipped(strict=True), **options):
        assert batch.schema in (TRIPLES, ENTITIES)
        assert batch.num_rows <= BATCH
        batch.validate(full=True)
        found[batch.schema == TRIPLES] += batch.to_pylist()
    return found[True], found[False]


@pytest.mark.parametrize("name", ["a.ttl", "a.ttl.gz", "a.trig"])
def test_turtle_gives_triples_names_descriptions_and_types(tmp_path, name, caplog):
    path = tmp_path / name
    path.write_bytes(gzip.compress(TURTLE.encode(), mtime=0) if name.endswith(".gz") else TURTLE.encode())
    with caplog.at_level(logging.INFO):
        triples, entities = read(path, shorten=True)
    ties = [(row["head"], row["relation"], row["tail"]) for row in triples]
    assert ("Bern", "liesOn", "Aare") in ties
    (blank,) = [tail for head, relation, tail in ties if relation == "near"]
    assert blank.startswith("_:") and (blank, "liesOn", "Aare") in ties and len(ties) == 3
    bern = next(row for row in entities if row["id"] == "Bern" and row["label"])
    assert bern["label"] == "Bern city"  # the wanted language, then its varieties, then text without a language
    assert bern["aliases"] == ["Bern", "Berne", "federal city", "City of Bern"]
    assert bern["description"] == "a city on the Aare"
    assert bern["types"] == ["City", "Capital"]
    (aare,) = [row for row in entities if row["id"] == "Aare"]
    assert (aare["label"], aare["description"]) == ("Aare", "a river")
    assert "1 statements about literals" in caplog.text


def test_another_language_may_be_asked_for_and_ids_stay_whole(tmp_path):
    path = tmp_path / "a.ttl"
    path.write_text(TURTLE)
    _, entities = read(path, language="de")
    bern = next(row for row in entities if row["label"])
    assert bern["id"] == "http://example.org/thing/Bern"
    assert (bern["label"], bern["aliases"]) == ("Bern", ["Berne", "Bundesstadt", "City of Bern"])


def test_a_broken_line_of_n_triples_is_told_and_the_rest_is_read(tmp_path):
    good = "<http://e/a> <http://e/r> <http://e/{}> .\n"
    path = tmp_path / "a.nt"
    path.write_text(
        good.format(1) + "no triple\n" + good.format(2) + '<http://e/a> <http://e/r> "open .\n' + good.format(3)
    )
    skipped = Skipped()
    triples, _ = read(path, skipped)
    assert [row["tail"] for row in triples] == [f"http://e/{n}" for n in (1, 2, 3)]
    assert skipped.n == 2
    assert f"{path}, line 2: " in skipped.first[0] and f"{path}, line 4: " in skipped.first[1]
    with pytest.raises(InputError, match=r"line 2: .*--strict"):
        read(path, Skipped(strict=True))


def test_graphs_of_n_quads_are_read_as_one(tmp_path):
    path = tmp_path / "a.nq"
    path.write_text(
        "<http://e/a> <http://e/r> <http://e/b> <http://e/g1> .\n<http://e/a> <http://e/r> <http://e/c> .\n"
    )
    triples, entities = read(path)
    assert [row["tail"] for row in triples] == ["http://e/b", "http://e/c"]
    assert entities == []


def test_broken_turtle_is_an_error_that_names_the_line(tmp_path):
    path = tmp_path / "a.ttl"
    path.write_text("@prefix e: <http://e/> .\ne:a e:r e:b .\ne:a e:r ; .\n")
    with pytest.raises(InputError, match=r"a\.ttl, line 3: "):
        read(path, Skipped())


def test_missing_cut_off_and_unknown_files_are_clear_errors(tmp_path):
    with pytest.raises(InputError, match="No file at"):
        read(tmp_path / "a.nt")
    with pytest.raises(InputError, match="does not end in"):
        read(tmp_path / "a.rdf")
    whole = gzip.compress(
        "".join(f"<http://e/{n * 7919}> <http://e/r> <http://e/b> .\n" for n in range(20_000)).encode()
    )
    (tmp_path / "a.nt.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="is cut off or damaged"):
        read(tmp_path / "a.nt.gz")


def test_large_files_come_in_bounded_batches(tmp_path):
    path = tmp_path / "a.nt"
    n = BATCH + 10
    label = "http://www.w3.org/2000/01/rdf-schema#label"
    with path.open("w") as file:
        for number in range(n):
            file.write(
                f'<http://e/{number}> <http://e/r> <http://e/x> .\n<http://e/{number}> <{label}> "n {number}" .\n'
            )
    triples, entities = read(path, shorten=True)
    assert len(triples) == len(entities) == n
    assert entities[-1] == {
        **dict.fromkeys(("aliases", "description", "types", "count")),
        "id": str(n - 1),
        "label": f"n {n - 1}",
    }


@settings(deadline=None, max_examples=50)
@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20), max_size=5
    )
)
def test_any_label_comes_back(tmp_path_factory, labels):
    import pyoxigraph as ox

    path = tmp_path_factory.mktemp("nt") / "a.nt"
    name = ox.NamedNode("http://www.w3.org/2000/01/rdf-schema#label")
    statements = [ox.Triple(ox.NamedNode(f"http://e/{n}"), name, ox.Literal(text)) for n, text in enumerate(labels)]
    path.write_bytes(ox.serialize(statements, format=ox.RdfFormat.N_TRIPLES))
    _, entities = read(path)
    assert [row["label"] for row in entities] == labels


@pytest.mark.parametrize("name", ["a.nt", "a.ttl"])
def test_a_statement_with_a_null_character_is_told(tmp_path, name):
    label = "<http://www.w3.org/2000/01/rdf-schema#label>"
    lines = [
        f'<http://e/a> {label} "a\\u0000b" .',
        f'<http://e/a> {label} "good" .',
        "<http://e/a> <http://e/r> <http://e/b> .",
    ]
    (tmp_path / name).write_text("\n".join(lines))
    skipped = Skipped()
    triples, [entity] = read(tmp_path / name, skipped)
    assert (len(triples), entity["label"]) == (1, "good")
    assert skipped.n == 1 and "statement 1: holds a null character" in skipped.first[0]
