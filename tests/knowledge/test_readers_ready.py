"""Formats guessed from names, and ready-made knowledge: small samples here, the real packages in the slow tests."""

from __future__ import annotations

import gc
import json
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from fetching import fetch_or_skip

from infuser import assets
from infuser.errors import InputError, SourceError, UnknownNameError
from infuser.knowledge.builders import _entity_names
from infuser.knowledge.facts import ENTITIES, MENTIONS, OTHER_IDS, TRIPLES, EntityRow
from infuser.knowledge.graph.build import build_graph
from infuser.knowledge.graph.store import GraphEntity, GraphStore, save_graph
from infuser.knowledge.readers import FORMATS, READY, guess_format, read_facts, read_ready
from infuser.knowledge.readers.biomedical import read_biomedical
from infuser.knowledge.readers.same_things import find_same
from infuser.knowledge.readers.wikidata_small import read_wikidata_small, read_wikidata_small_mentions
from infuser.sources import Graph
from infuser.tables.skipped import BATCH, Skipped

Triples = list[tuple[str, str, str]]


def split(batches: Iterator[pa.RecordBatch]) -> tuple[dict[str, dict], Triples]:
    """Return entities by id, and triples."""
    entities: dict[str, dict] = {}
    triples: Triples = []
    for batch in batches:
        assert batch.num_rows <= BATCH
        batch.validate(full=True)
        if batch.schema == ENTITIES:
            entities.update((row["id"], row) for row in batch.to_pylist())
        else:
            assert batch.schema == TRIPLES
            triples += [(row["head"], row["relation"], row["tail"]) for row in batch.to_pylist()]
    return entities, triples


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("train.tsv", "table"),
        ("Train.TXT.gz", "table"),
        ("facts.jsonl.zst", "table"),
        ("facts.parquet", "table"),
        ("dump.nt.gz", "rdf"),
        ("vocabulary.ttl", "rdf"),
        ("conceptnet-assertions-5.7.0.csv.gz", "conceptnet"),
    ],
)
def test_the_format_is_guessed_from_the_name(name, format):
    assert guess_format(name) == format
    assert format in FORMATS


def test_a_folder_with_wordnets_files_is_wordnet(tmp_path):
    with pytest.raises(InputError, match="is a folder"):
        guess_format(tmp_path)
    (tmp_path / "data.noun").write_text("")
    assert guess_format(tmp_path) == "wordnet"


def test_what_cannot_be_guessed_or_read_is_a_clear_error(tmp_path):
    with pytest.raises(InputError, match=r"Known endings: \.tsv"):
        guess_format("facts.xlsx")
    with pytest.raises(UnknownNameError, match="Did you mean 'table'"):
        read_facts(tmp_path / "a.tsv", Skipped(), format="tabel")
    with pytest.raises(InputError, match="No file at"):
        read_facts(tmp_path / "a.tsv", Skipped())
    (tmp_path / "a.tsv").write_text("a\tr\tb\n")
    with pytest.raises(InputError, match=r"does not take these settings: .*language"):
        read_facts(tmp_path / "a.tsv", Skipped(), language="en")
    with pytest.raises(UnknownNameError, match="Did you mean 'wordnet'"):
        read_ready("wordnett", Skipped())


def test_settings_reach_the_reader_and_a_format_may_be_named(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("IsA\tdog\tanimal\n")
    assert split(read_facts(path, Skipped(), order="rht"))[1] == [("dog", "IsA", "animal")]
    assert split(read_facts(path, Skipped(), format="table", order="trh"))[1] == [("animal", "dog", "IsA")]


def test_all_ready_made_knowledge_is_an_asset():
    assert set(READY) == {"wordnet", "conceptnet", "biomedical", "wikidata-small"}
    for ready in READY.values():
        assert ready.asset in assets.ASSETS


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


def column(index: int, *values: str) -> dict:
    return {"index": index, "name": f"col{index}", "values": list(values)}


def link(entity: str | None, end: int) -> dict:
    return {"start": 0, "end": end, "url": None, "entity_id": entity}


def klass(id: str, entity: str, readable: str | None) -> dict:
    return {"id": id, "abs_uri": f"http://x/{entity}", "rel_uri": f"wd:{entity}", "readable_label": readable}


def edge(source: str, target: str, property: str, readable: str | None = None) -> dict:
    uri = "rdfs:label" if property == "label" else f"p:{property}"
    address = f"http://x/prop/{property}"
    return {"source": source, "target": target, "abs_uri": address, "rel_uri": uri, "readable_label": readable}


@pytest.fixture
def linked_tables(tmp_path) -> Path:
    people = {
        "table": {"columns": [column(0, "Ada", "Adda", "Ada"), column(1, "London [a]", "Paris", "")]},
        "links": [
            [[link("Q1", 3)], [link("Q84", 6)]],
            [[link("Q1", 4)], [link("Q90", 5), link(None, 5)]],
            [[link("Q1", 3)], []],
        ],
    }
    constant = {"id": "k", "value": "http://x/Q9", "readable_label": "poet (Q9)", "datatype": "entity-id"}
    statement = {"id": "s", "abs_uri": "", "rel_uri": "wikibase:Statement", "readable_label": None}
    graph = {
        "nodes": [
            *(klass("p", "Q5", None), klass("c", "Q515", "city (Q515)"), statement, constant),
            *({"id": "0", "col_index": 0, "label": ""}, {"id": "1", "col_index": 1, "label": ""}),
        ],
        "edges": [
            *(edge("p", "0", "label"), edge("c", "1", "label"), edge("p", "c", "P19", None)),
            *(edge("p", "s", "P39"), edge("s", "k", "P39", "position held (P39)"), edge("s", "c", "P768")),
        ],
    }
    wiki = tmp_path / "250wt"
    (wiki / "tables").mkdir(parents=True)
    (wiki / "descriptions" / "people").mkdir(parents=True)
    (wiki / "tables" / "people.json").write_text(json.dumps(people))
    (wiki / "descriptions" / "people" / "version.01.json").write_text(json.dumps([graph]))
    named = {"nodes": [klass("p", "Q5", "human (Q5)")], "edges": []}
    empty = {"table": {"columns": [column(0, "x")]}, "links": []}
    for kind, content in (("tables", empty), ("descriptions", [named])):
        folder = tmp_path / "semtab2020_round4" / kind
        folder.mkdir(parents=True)
        with zipfile.ZipFile(folder / "part-0000.zip", "w") as archive:
            archive.writestr("AAAA.json", json.dumps(content))
    return tmp_path


def test_rows_of_linked_tables_tell_names_types_and_relations(linked_tables):
    entities, triples = split(read_wikidata_small(linked_tables))
    ada = entities["Q1"]
    assert (ada["label"], ada["aliases"], ada["count"]) == ("Ada", ["Adda"], 3)  # the majority is the label
    assert ada["types"] == ["human"]  # named by another table's graph
    assert (entities["Q84"]["label"], entities["Q84"]["types"]) == ("London", ["city"])
    assert (entities["Q9"]["label"], entities["Q9"]["count"]) == ("poet", 0)
    assert Counter(triples) == Counter(
        [("Q1", "P19", "Q84"), ("Q1", "P19", "Q90"), ("Q1", "position held", "Q9")]  # the qualifier P768 is left out
    )


def test_mentions_are_counted_for_candidates(linked_tables):
    (batch,) = read_wikidata_small_mentions(linked_tables)
    assert batch.schema == MENTIONS
    assert {tuple(row.values()) for row in batch.to_pylist()} == {
        ("Ada", "Q1", 2),
        ("Adda", "Q1", 1),
        ("London", "Q84", 1),
        ("Paris", "Q90", 1),
    }


def test_damaged_linked_tables_are_named(linked_tables, tmp_path):
    part = linked_tables / "semtab2020_round4" / "tables" / "part-0000.zip"
    part.write_bytes(part.read_bytes()[:40])
    with pytest.raises(SourceError, match=r"part-0000\.zip cannot be read .*fetch wikidata-small"):
        list(read_wikidata_small(linked_tables))
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match="it holds no tables"):
        list(read_wikidata_small(tmp_path / "empty"))


class Counts(NamedTuple):
    """What a whole package holds."""

    entities: int
    triples: int
    relations: int
    example: tuple[str, str]
    """Label of an entity and one of its relations, which must be there."""


REAL = {
    "wordnet": Counts(117_659, 364_552, 26, ("dog", "hypernym")),
    "conceptnet": Counts(305_554, 513_748, 39, ("dog", "IsA")),
    "biomedical": Counts(656_035, 1_019_139, 40, ("water", "has_role")),
    "wikidata-small": Counts(449_143, 216_410, 412, ("Paris", "country")),
}


@pytest.fixture
def no_garbage() -> Iterator[None]:
    """Do not look for garbage among millions of new objects that are all in use; it takes as long as reading them."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.slow
@pytest.mark.usefixtures("no_garbage")
@pytest.mark.parametrize("name", REAL)
def test_ready_made_knowledge_is_complete(name):
    fetch_or_skip(READY[name].asset)
    batches = list(read_ready(name, Skipped(strict=True)))
    entities, triples = (
        pa.Table.from_batches([batch for batch in batches if batch.schema == schema], schema)
        for schema in (ENTITIES, TRIPLES)
    )
    others = sum(batch.num_rows for batch in batches if batch.schema == OTHER_IDS)
    assert entities.num_rows + triples.num_rows + others == sum(batch.num_rows for batch in batches)
    assert max(batch.num_rows for batch in batches) <= BATCH
    for table in (entities, triples):
        table.validate(full=True)
    expected = REAL[name]
    ids = pc.unique(entities["id"])
    assert (len(ids), triples.num_rows) == (expected.entities, expected.triples)
    assert len(pc.unique(triples["relation"])) == expected.relations
    assert entities["label"].null_count == 0 and pc.all(pc.not_equal(entities["label"], "")).as_py()
    assert all(pc.all(pc.is_in(triples[end], ids)).as_py() for end in ("head", "tail"))
    label, relation = expected.example
    called = entities.filter(pc.equal(entities["label"], label))["id"].combine_chunks()
    told = triples.filter(pc.is_in(triples["head"], called))["relation"]
    assert relation in told.to_pylist()


@pytest.mark.slow
@pytest.mark.usefixtures("no_garbage")
def test_the_real_mentions_are_complete():
    folder = fetch_or_skip("wikidata-small")
    table = pa.Table.from_batches(read_wikidata_small_mentions(folder), schema=MENTIONS)
    assert table.num_rows == 499_934
    assert len(table.column("mention").unique()) == 477_742
    assert len(table.column("entity").unique()) == 449_071
    assert sum(table.column("count").to_pylist()) == 1_022_330


KG = Path(__file__).parents[3] / "shared" / "data" / "kg"
PUBLISHED = {
    "FB15k-237": (("train.tsv", 272_115), ("dev.tsv", 17_535), ("test.tsv", 20_466)),
    "WN18RR": (("train.tsv", 86_835), ("dev.tsv", 3_034), ("test.tsv", 3_134)),
    "CoDEx/triples/codex-m": (("train.txt", 185_584), ("valid.txt", 10_310), ("test.txt", 10_311)),
    "ConceptNet100k": (("train.txt", 100_000), ("test.txt", 1_200)),
}


@pytest.mark.shared
@pytest.mark.parametrize("name", PUBLISHED)
def test_published_graphs_load_unchanged_with_their_published_counts(name):
    if not KG.is_dir():
        pytest.skip(f"no data at {KG}")
    relation_first = name == "ConceptNet100k"
    for file, n in PUBLISHED[name]:
        settings = {"order": "rht"} if relation_first else {}
        _, triples = split(read_facts(KG / name / file, Skipped(strict=True), **settings))
        assert len(triples) == n
        assert len({relation for _, relation, _ in triples}) < 1_000


@pytest.mark.shared
def test_published_labels_load_unchanged():
    if not KG.is_dir():
        pytest.skip(f"no data at {KG}")
    strict = Skipped(strict=True)
    texts, _ = split(read_facts(KG / "FB15k-237" / "entity2text.txt", strict))
    assert len(texts) == 14_951 and texts["/m/06rf7"]["label"] == "Schleswig-Holstein"
    about, _ = split(read_facts(KG / "FB15k-237" / "entity2wikidata.json", strict))
    assert about["/m/010016"]["aliases"] == ["Denton, Texas"]
    merged, _ = split(read_facts(KG / "wikidata_labels_merged.tsv", strict))
    assert len(merged) == 35_882 and "Terra" in merged["Q2"]["aliases"]
    synsets, _ = split(read_facts(KG / "WN18RR" / "entity2text.txt", strict))
    assert len(synsets) == 40_943
    types, _ = split(read_facts(KG / "CoDEx" / "types" / "entity2types.json", strict, columns=("id", "types")))
    assert "Q483501" in types["Q33999"]["types"]
