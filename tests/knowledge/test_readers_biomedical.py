"""The biomedical graph: entries of several vocabularies, merged and typed, from small samples of their files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from infuser.errors import SourceError
from infuser.knowledge.builders import _entity_names
from infuser.knowledge.facts import TRIPLES, EntityRow
from infuser.knowledge.graph.build import build_graph
from infuser.knowledge.graph.store import GraphEntity, GraphStore, save_graph
from infuser.knowledge.readers.biomedical import read_biomedical
from infuser.knowledge.readers.same_things import find_same
from infuser.sources import Graph


def write_table(path: Path, *rows: str) -> None:
    """Write rows whose cells are separated by semicolons as tab-separated ones."""
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(row.replace(";", "\t") + "\n" for row in rows))


@pytest.fixture
def ontologies(tmp_path) -> Path:
    terms = {
        "chebi": [
            {"id": "CHEBI:1", "name": "water", "namespace": "chebi", "relations": {"has_role": ["CHEBI:2"]}},
            {"id": "CHEBI:2", "name": "solvent", "relations": {"is_a": ["CHEBI:50906", "CHEBI:9", "CHEBI:2"]}},
            {"id": "CHEBI:50906", "name": "role"},
        ],
        "go": [{"id": "GO:1", "name": "growth", "namespace": "biological_process", "synonyms": ["growth", "growing"]}],
        "mondo": [
            {"id": "1", "name": "disease", "namespace": "mondo"},
            {
                "id": "2",
                "name": "gout",
                "relations": {"is_a": ["1"], "excluded_subClassOf": ["1"]},
                "synonyms": ["podagra", "neuron", "NEURON"],
                "xrefs": [{"namespace": "MESH", "id": "D6"}, {"namespace": "UMLS", "id": "C1"}],
            },
        ],
        "hp": [
            {"id": "HP:0000118", "name": "Phenotypic abnormality"},
            {"id": "HP:1", "name": "Arthritis", "relations": {"is_a": ["HP:0000118"]}},
            {"id": "HP:2", "name": "Severe"},
        ],
        "doid": [{"id": "DOID:1", "name": "Disease", "relations": {}}],
        "efo": [
            {"id": "1", "name": "factor", "namespace": "efo", "relations": {"IAO:0000136": ["2"]}},
            {"id": "2", "name": "genome", "namespace": "efo", "relations": {"disease_has_feature": ["1"]}},
            {"id": "3", "name": "podagra", "xrefs": [{"namespace": "MeSH", "id": "D6"}]},
        ],
    }
    for name, content in terms.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    write_table(
        tmp_path / "mesh_id_label_mappings.tsv",
        'D1;Cells;Cell|Cell "body;A11|C04.1;',
        "D2;Neurons;Neuron;A11.671;",
        "D3;Notes;;;",
        "D4;Calpain;;D08.811.1|D12.776.1;",
        "D5;Solvents;;D27.720.1;",
        "D6;Gouts, Acute;;C05.1|C23.888;",
        "D7;Water;Aqua;D01.2;",
        "D8;Depressive Disorder;;F03.600;",
        "D9;Oxytocin;;D06.472|D12.644.400|D12.776.631;",
    )
    write_table(
        tmp_path / "mesh_supp_id_label_mappings.tsv",
        "C1;heavy water;D2O;D7",
        "C2;A1BG protein, human;alpha 1B glycoprotein, human|a1b protein, mouse|period protein, human;D4",
        "C3;male protein, Drosophila;;D4",
        "C4;calpain deficiency;;D4,D6",
    )
    write_table(tmp_path / "mesh_mappings.tsv", "MESH;C2;A1BG protein, human;UP;P04217;A1BG")
    write_table(tmp_path / "biomappings.tsv", "EFO;9;unknown;DOID;DOID:9;unknown")
    header = (
        "HGNC ID;Approved symbol;Approved name;Status;Alias symbols;Previous symbols;UniProt ID(supplied by UniProt)"
    )
    write_table(
        tmp_path / "hgnc_entries.tsv",
        header,
        "HGNC:5;A1BG;alpha-1-B glycoprotein;Approved;A1B, ABG, AB;ABNORMALITY;P04217",
        "HGNC:6;GONE;withdrawn;Entry Withdrawn;;;",
    )
    write_table(
        tmp_path / "drugbank_mappings.tsv",
        "DRUGBANK_ID;NAMESPACE;ID;SOURCE",
        "DB1;NAME;Water;drugbank",
        "DB1;CHEBI;1;chebi",
        "DB2;NAME;Oxytocin;drugbank",
        "DB3;NAME;Dateplum;drugbank",
    )
    famplex = {
        "entities": "A1_family\nOR\n",
        "relations": "HGNC,A1BG,isa,FPLX,A1_family\nHGNC,GONE,isa,FPLX,A1_family\n",
        "grounding_map": '"A1, all of them",FPLX,A1_family,,\nA1-BG,UP,P04217,,\nelsewhere,UP,P9,,\n',
    }
    (tmp_path / "famplex").mkdir()
    for name, content in famplex.items():
        (tmp_path / "famplex" / f"{name}.csv").write_text(content)
    return tmp_path


@pytest.fixture
def things(ontologies) -> GraphStore:
    return build_graph(read_biomedical(ontologies))


def entity(store: GraphStore, id: str) -> GraphEntity:
    number = store.number_of(id)
    assert number is not None, id
    return store.entity(number)


def test_biomedical_terms_keep_apart_what_has_the_same_number(ontologies, things):
    batches = list(read_biomedical(ontologies))
    triples = [tuple(row.values())[:3] for batch in batches if batch.schema == TRIPLES for row in batch.to_pylist()]
    assert triples == [
        ("CHEBI:1", "has_role", "CHEBI:2"),  # the other edges of water's role lead to itself and to nothing known
        ("CHEBI:2", "is_a", "CHEBI:50906"),
        ("MONDO:2", "is_a", "MONDO:1"),
        ("HP:1", "is_a", "HP:0000118"),
        ("EFO:1", "is_about", "EFO:2"),
        ("MESH:D2", "broader", "MESH:D1"),
        ("MESH:C1", "broader", "CHEBI:1"),
        ("HGNC:5", "broader", "MESH:D4"),
        ("MESH:C3", "broader", "MESH:D4"),
        ("MESH:C4", "broader", "MESH:D4"),
        ("MESH:C4", "broader", "MONDO:2"),
        ("HGNC:5", "is_a", "FPLX:A1_family"),
    ]
    assert (entity(things, "MONDO:1").label, entity(things, "EFO:1").label) == ("disease", "factor")
    assert entity(things, "GO:1").aliases == ("growing",)
    assert entity(things, "MESH:D1").aliases == ("Cell", 'Cell "body')
    assert things.number_of("HGNC:6") is None and things.number_of("FPLX:OR") is None


def test_entries_of_one_thing_are_one_entity_with_all_names_and_ids(things):
    water = entity(things, "CHEBI:1")
    assert (water.label, water.aliases, water.types) == ("water", ("Water", "Aqua"), ("chemical", "drug"))
    assert things.other_ids_of(things.number_of("CHEBI:1")) == ["DRUGBANK:DB1", "MESH:D7"]
    assert entity(things, "MESH:D7") == water
    assert entity(things, "MESH:D5").id == "CHEBI:2"  # the plural of a role
    assert entity(things, "DOID:1").id == "MONDO:1"
    gout = entity(things, "MESH:D6")
    assert gout.id == "MONDO:2" and gout.aliases == ("podagra", "NEURON", "Gouts, Acute")  # a neuron is no disease
    assert entity(things, "EFO:3") == gout and gout.types == ("disease", "phenotype")
    gene = entity(things, "MESH:C2")
    assert gene.id == "HGNC:5" and gene.types == ("gene", "protein")
    assert gene.aliases == (
        *("alpha-1-B glycoprotein", "A1B", "ABG"),  # AB is too short, ABNORMALITY a word of a label
        *("A1BG protein, human", "A1BG protein", "alpha 1B glycoprotein", "a1b", "a1b protein", "period protein"),
        "A1-BG",
    )
    assert entity(things, "FPLX:A1_family").aliases == ("A1, all of them",)
    assert "male" not in entity(things, "MESH:C3").aliases


@pytest.mark.parametrize(
    ("id", "types"),
    [
        ("CHEBI:2", ("role",)),
        ("GO:1", ("process",)),
        ("HP:1", ("phenotype",)),
        ("HP:2", ("concept",)),
        ("EFO:1", ("experimental factor",)),
        ("MESH:D1", ("cell", "disease")),
        ("MESH:D3", ()),
        ("MESH:D4", ("protein",)),
        ("MESH:D6", ("disease", "phenotype")),
        ("MESH:D8", ("disease",)),
        ("MESH:D9", ("chemical", "protein", "drug")),
        ("MESH:C1", ("chemical",)),
        ("MESH:C3", ("protein",)),
        ("MESH:C4", ("disease", "phenotype")),
        ("DRUGBANK:DB3", ("drug",)),
        ("FPLX:A1_family", ("protein",)),
    ],
)
def test_types_are_coarse_classes(things, id, types):
    assert entity(things, id).types == types


def test_roles_of_chemicals_are_terms(things, tmp_path):
    source = Graph(save_graph(things, tmp_path / "kg"), types=["chemical"], n_terms=1, terms=["has_role"])
    [found] = source.annotate(["Aqua is not gout."])
    assert [(term.text, term.relation) for term in found.terms] == [("solvent", "has_role")]


def row(id: str, label: str, *aliases: str, type: str = "disease") -> EntityRow:
    return EntityRow(id, label, aliases, types=[type])


@pytest.mark.parametrize(
    ("entries", "references", "joined"),
    [
        ([row("A:1", "gout"), row("B:1", "Podagra", "Gout")], [("A:1", "B:1")], True),
        ([row("A:1", "gout"), row("B:1", "tophi")], [("B:1", "A:1"), ("A:1", "A:9")], True),
        ([row("A:1", "gout"), row("B:1", "tophi"), row("B:2", "podagra")], [("A:1", "B:1"), ("A:1", "B:2")], False),
        ([row("A:1", "Gout-like states"), row("B:1", "gout like state")], [], True),
        ([row("A:1", "REST", type="gene"), row("B:1", "Rest", type="behaviour")], [], False),
        ([row("A:1", "(+)-x", type="chemical"), row("B:1", "(-)-x", type="chemical")], [], False),
        ([row("A:1", "2,4'-x", type="chemical"), row("B:1", "2',4'-x", type="chemical")], [], False),
        ([row("A:1", "gout"), row("A:2", "gout")], [("A:1", "A:2")], False),
        ([row("A:1", "gout"), row("B:1", "gout", type="phenotype")], [], True),
    ],
)
def test_what_is_the_same_thing(entries, references, joined):
    same = find_same(entries, references)
    assert same["A:1"] == "A:1"
    assert (same[entries[1].id] == "A:1") is joined


def test_a_thing_has_one_entry_of_a_vocabulary():
    entries = [row("A:1", "gout"), row("B:1", "gout"), row("B:2", "gout"), row("C:1", "gout")]
    same = find_same(entries, [("C:1", "B:2")])
    assert same == {"A:1": "A:1", "B:1": "A:1", "B:2": "B:2", "C:1": "B:2"}


def test_a_gazetteer_of_biomedical_names_leaves_out_triples_and_further_ids(ontologies):
    names = list(_entity_names(read_biomedical(ontologies)))
    assert names and all(all(name) for name in names)


@pytest.mark.parametrize(
    "name", ["go.json", "mesh_id_label_mappings.tsv", "mesh_mappings.tsv", "hgnc_entries.tsv", "famplex/relations.csv"]
)
def test_a_missing_or_damaged_biomedical_file_is_named(ontologies, name):
    for content in (None, b"\xff[", b'[{"name": 1}]'):
        (ontologies / name).unlink(missing_ok=True)
        if content is not None:
            (ontologies / name).write_bytes(content)
        with pytest.raises(SourceError, match=f"{name} cannot be read .*infuser assets fetch biomedical"):
            list(read_biomedical(ontologies))
