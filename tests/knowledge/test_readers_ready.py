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
from infuser.knowledge.facts import ENTITIES, MENTIONS, OTHER_IDS, TRIPLES
from infuser.knowledge.readers import FORMATS, READY, guess_format, read_facts, read_ready
from infuser.knowledge.readers.wikidata_small import read_wikidata_small, read_wikidata_small_mentions
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
