"""Knowledge named on the command line: every kind of file, one sources file, and lines that are broken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cli.commands import write_lines

from infuser.cli.knowledge_options import SourceOptions
from infuser.errors import InputError, UnknownNameError
from infuser.knowledge.candidates.store import build_candidates, mentions_of
from infuser.knowledge.graph.build import build_graph, facts_of
from infuser.knowledge.graph.store import save_graph
from infuser.knowledge.names.store import NameStore
from infuser.registry import SOURCES
from infuser.sources import Correlation, Entities, Graph, Phrases
from infuser.types import Source


def read_sources(sources: Path | None = None, *, named: list[str] | None = None, **options: Any) -> list[Source]:
    return SourceOptions(source=named, sources=sources, **options).read()


def test_each_flag_reads_its_kind_of_list(tmp_path: Path) -> None:
    named = read_sources(
        entities=[write_lines(tmp_path / "e.txt", "Bern\tcity", "", "New York")],
        phrases=[write_lines(tmp_path / "p.txt", "near me", "lies on")],
        correlation=[write_lines(tmp_path / "c.tsv", "buy\tshop\t2", "Sell\tshop\t1.5")],
        graph=[write_lines(tmp_path / "g.tsv", "a_b\tpart of\tc", "c\tnear\td\t0.5")],
        aliases=[write_lines(tmp_path / "n.tsv", "c\tcee", "c\tsea", "unheard\tof")],
        terms=3,
    )
    assert named == [
        Entities({"Bern": "city", "New York": "entity"}, n_terms=3),
        Phrases(["near me", "lies on"]),
        Correlation({("buy", "shop"): 2.0, ("sell", "shop"): 1.5}, n_terms=3),
        Graph([("a_b", "part of", "c"), ("c", "near", "d", 0.5)], aliases={"c": ("cee", "sea")}, n_terms=3),
    ]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("e.csv", 'name,label\n"Bern, old",city\nAare,river\n'),
        ("e.tsv", "Name\tLabel\nBern, old\tcity\nAare\triver\n"),
        ("e.json", '{"Bern, old": "city", "Aare": "river"}'),
        ("list.json", '[["Bern, old", "city"], ["Aare", "river"]]'),
        ("e.txt", "\ufeffBern, old\tcity\r\n\r\nAare\triver"),
    ],
)
def test_a_list_may_be_csv_tsv_json_or_lines(name: str, content: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8", newline="")
    assert read_sources(entities=[tmp_path / name]) == [Entities({"Bern, old": "city", "Aare": "river"})]


def test_a_flag_given_twice_makes_two_sources(tmp_path: Path) -> None:
    one, two = write_lines(tmp_path / "1.txt", "Bern"), write_lines(tmp_path / "2.txt", "Aare")
    assert read_sources(entities=[one, two]) == [Entities(["Bern"]), Entities(["Aare"])]


def test_a_sources_file_holds_settings_too(tmp_path: Path) -> None:
    (tmp_path / "lists").mkdir()
    write_lines(tmp_path / "lists" / "g.tsv", "a\tr\tb")
    write_lines(tmp_path / "lists" / "n.tsv", "a\tay")
    toml = write_lines(
        tmp_path / "lists" / "sources.toml",
        *("[[source]]", "kind = 'graph'", "file = 'g.tsv'", "aliases = 'n.tsv'", "hops = 2"),
        *("[[source]]", "kind = 'entities'", "fold_accents = true", "[source.names]", "'Zürich' = 'city'"),
    )
    expected = [
        Graph([("a", "r", "b")], aliases={"a": ("ay",)}, hops=2),
        Entities({"Zürich": "city"}, fold_accents=True),
    ]
    assert read_sources(toml) == expected
    listed = [
        {"kind": "graph", "file": "g.tsv", "aliases": {"a": ["ay"]}, "hops": 2},
        {"kind": "entities", "names": {"Zürich": "city"}, "fold_accents": True},
    ]
    (tmp_path / "lists" / "sources.json").write_text(json.dumps(listed))
    assert read_sources(tmp_path / "lists" / "sources.json") == expected
    phrases = write_lines(tmp_path / "p.txt", "near me")
    assert read_sources(toml, phrases=[phrases]) == [*expected, Phrases(["near me"])]


@pytest.mark.parametrize(
    ("kind", "lines", "words"),
    [
        ("entities", ["Bern\tcity", "Aare\triver\tlong"], ["line 2", "3 cells", "name (, label)"]),
        ("entities", ["Bern\tcity\tQ70"], ["line 1", "Ids need", "infuser gazetteer build", "list.tsv --out DIR"]),
        ("entities", ["Bern\tcity", "\triver"], ["line 2", "none of it empty"]),
        ("phrases", ["near me", "a\tb"], ["line 2", "2 cells"]),
        ("correlation", ["a\tb\t1", "a\tb"], ["line 2", "word, word, score"]),
        ("correlation", ["a\tb\t1", "", "a\tb\tmuch"], ["line 3", "'much'", "not a number"]),
        ("correlation", ["a\tb\t1", "new york\tbig\t1"], ["line 2", "'new york'", "not one word"]),
        ("correlation", ["a\tb\tnan"], ["line 1", "finite"]),
        ("graph", ["a\tr\tb", "a\tr"], ["line 2", "head, relation, tail (, weight)"]),
        ("graph", ["a\tr\tb", "a\tr\tc\t7"], ["line 2", "at most 1"]),
        ("graph", [], ["empty"]),
    ],
)
def test_a_broken_line_is_named(kind: str, lines: list[str], words: list[str], tmp_path: Path) -> None:
    path = write_lines(tmp_path / "list.tsv", *lines)
    with pytest.raises(InputError) as caught:
        read_sources(**{kind: [path]})
    assert all(word in str(caught.value) for word in [str(path), *words]), str(caught.value)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["[[source]]", "kind = 'entities'", "folds = true"], ["source 1", "'folds'", "fold_case"]),
        (["[[source]]", "file = 'x'"], ["source 1", "no kind", "entities"]),
        (["[[source]]", "kind = 'entities'"], ["source 1", "names"]),
        (["[[source]"], ["not TOML"]),
        (["kind = 'graph'"], ["lists no sources"]),
    ],
)
def test_a_broken_sources_file_is_explained(lines: list[str], words: list[str], tmp_path: Path) -> None:
    path = write_lines(tmp_path / "sources.toml", *lines)
    with pytest.raises(InputError) as caught:
        read_sources(path)
    assert all(word in str(caught.value) for word in [str(path), *words]), str(caught.value)


def test_an_unknown_kind_gets_a_hint(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "sources.toml", "[[source]]", "kind = 'entites'")
    with pytest.raises(UnknownNameError, match="Did you mean 'entities'"):
        read_sources(path)


def test_flags_that_need_another_one_say_so(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "n.tsv", "a\tay")
    with pytest.raises(InputError, match="--graph"):
        read_sources(aliases=[path])
    with pytest.raises(InputError, match="--correlation"):
        read_sources(terms=2)
    with pytest.raises(InputError, match=r"No file at .*missing\.txt"):
        read_sources(entities=[tmp_path / "missing.txt"])
    with pytest.raises(InputError, match="folder"):
        read_sources(entities=[tmp_path])


def test_source_names_a_kind_a_place_and_settings(tmp_path: Path) -> None:
    triples = write_lines(tmp_path / "g, old.tsv", "a\tr\tb")
    aliases = write_lines(tmp_path / "n.tsv", "a\tay")
    names = write_lines(tmp_path / "e.txt", "Zürich")
    trees = write_lines(tmp_path / "trees.txt", "(S (NP (DT the) (NN cat)) (VP (VBD slept)))")
    named = [
        f"graph={triples},hops=2,aliases={aliases}",
        f"entities={names},overlaps=keep,fold_accents=true",
        "phrases,phrases=['near me, please', \"a=b,c=d\"],fold_case=false",
        "spacy-entities",
        "spacy-entities=en_core_web_sm,labels=['GPE', 'ORG'],batch_size=8",
        f"bracketed-phrases={trees},levels=[1,2]",
        f"bracketed-phrases,file={trees}",
    ]
    assert read_sources(named=named) == [
        Graph([("a", "r", "b")], aliases={"a": ("ay",)}, hops=2),
        Entities(["Zürich"], overlaps="keep", fold_accents=True),
        Phrases(["near me, please", "a=b,c=d"], fold_case=False),
        SOURCES["spacy-entities"](),
        SOURCES["spacy-entities"]("en_core_web_sm", labels=("GPE", "ORG"), batch_size=8),
        SOURCES["bracketed-phrases"](str(trees), levels=(1, 2)),
        SOURCES["bracketed-phrases"](str(trees)),
    ]


def test_a_built_folder_says_itself_what_it_is(tmp_path: Path) -> None:
    NameStore.build(["Bern"], ["city"], ["Q70"]).save(tmp_path / "names")
    build_candidates(mentions_of({"Bern": {"Q70": 3}})).save(tmp_path / "meant")
    save_graph(build_graph(facts_of([("Bern", "on", "Aare")])), tmp_path / "graph")
    entities, candidates, graph = (Path(tmp_path / name) for name in ("names", "meant", "graph"))
    expected = [Entities(entities), SOURCES["candidates"](candidates), Graph(graph, hops=2)]
    assert read_sources(named=[str(entities), str(candidates), f"{graph},hops=2"]) == expected
    assert read_sources(named=[f"entities={entities}", f"candidates={candidates}"]) == expected[:2]
    assert read_sources(entities=[entities], graph=[graph]) == [Entities(entities), Graph(graph)]
    toml = write_lines(tmp_path / "s.toml", "[[source]]", "kind = 'graph'", "file = 'graph'", "hops = 2")
    assert read_sources(named=[str(toml)]) == read_sources(toml) == expected[2:]
    found = read_sources(named=[str(entities)])[0].annotate(["in Bern"])[0]
    assert [(span.label, span.id) for span in found.spans] == [("city", "Q70")]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("graph", ["graph needs triples", "--source graph=triples.tsv", "built folder"]),
        ("correlation", ["correlation needs scores", "--source correlation="]),
        ("candidates", ["candidates needs mentions", "--source candidates="]),
        ("bracketed-phrases,levels=[1]", ["bracketed-phrases needs file", "--source bracketed-phrases="]),
        ("stanza-entities", ["stanza-entities needs pipeline", "--source stanza-entities="]),
        ("token-classifier", ["token-classifier needs model"]),
        ("gliner", ["gliner needs checkpoint and labels", "--source gliner=", ",labels="]),
        ("gliner=some/model", ["gliner needs labels", ",labels="]),
        ("graph={folder}/g.tsv,hops=two", ["hops is 'two'; give a whole number"]),
        ("graph={folder}/g.tsv,hops=true", ["hops is True; give a whole number"]),
        ("graph={folder}/g.tsv,hops=1.5", ["hops is 1.5; give a whole number"]),
        ("graph={folder}/g.tsv,decay=half", ["decay is 'half'; give a number"]),
        ("graph={folder}/g.tsv,aliases=7", ["aliases is 7; give", "file"]),
        ("graph={folder}/g.tsv,fold_case=7", ["fold_case is 7; give true or false"]),
        ("entities,names=['Bern'],overlaps=all", ["overlaps is 'all'; give 'longest' or 'keep'"]),
        ("phrases,chunker=mine", ["chunker is 'mine'; give a function", "Python"]),
        ("phrases,phrases=7", ["phrases is 7; give a list of texts"]),
        ("spacy-entities,labels=GPE", ["labels is 'GPE'; give a list of texts, as in ['GPE']"]),
        ("spacy-entities,labels=[1]", ["labels is [1]; give a list of texts"]),
        ("spacy-phrases,levels=['1']", ["levels is ['1']; give a list of whole numbers"]),
        ("graph=missing.tsv", ["missing.tsv"]),
        ("entities=missing.txt,fold=true", ["'fold'", "fold_case"]),
        ("no/such/folder", ["no/such/folder", "graph="]),
        ("missing.toml", ["missing.toml"]),
        ("missing.toml,hops=2", ["stand in the file"]),
        ("{folder}", ["no folder that infuser built", "KIND="]),
        ("graph={folder}", ["none that infuser built"]),
        ("spacy-entities,batch_size=0", ["batch_size"]),
    ],
)
def test_a_source_that_cannot_be_read_is_explained(given: str, words: list[str], tmp_path: Path) -> None:
    write_lines(tmp_path / "g.tsv", "a\tr\tb")
    with pytest.raises(InputError) as caught:
        read_sources(named=[given.replace("{folder}", str(tmp_path))])
    told = str(caught.value)
    assert all(word in told for word in words), told
    assert not any(word in told for word in ("__init__", "not supported", "object is not")), told  # Python's own words


def test_settings_of_every_simple_type_are_taken(tmp_path: Path) -> None:
    triples = write_lines(tmp_path / "g.tsv", "a\tr\tb")
    aliases = write_lines(tmp_path / "n.tsv", "a\tay")
    named = [f"graph={triples},decay=1,hops=3,fold_case=false", f"graph,triples=[['a', 'r', 'b']],aliases={aliases}"]
    assert read_sources(named=named) == [
        Graph([("a", "r", "b")], decay=1, hops=3, fold_case=False),
        Graph([("a", "r", "b")], aliases={"a": ("ay",)}),
    ]


def test_a_source_of_ones_own_is_checked_as_far_as_its_types_are_known() -> None:
    class Own:
        def __init__(self, place: str) -> None:
            self.place = place

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(SOURCES._classes, "own", Own)
        assert [vars(one) for one in read_sources(named=["own,place=here"])] == [{"place": "here"}]
        with pytest.raises(InputError, match=r"--source own.*place"):
            read_sources(named=["own"])


@pytest.mark.parametrize("given", ["entites", "entites=names.txt"])
def test_an_unknown_kind_of_source_gets_a_hint(given: str) -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'entities'"):
        read_sources(named=[given])
