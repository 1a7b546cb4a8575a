"""The examples run, and the docs keep step with them and with the code they describe."""

from __future__ import annotations

import dataclasses
import importlib.util
import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import infuser
from infuser import errors
from infuser.methods.spectral import Spectral
from infuser.registry import METHODS
from infuser.relations.model import AttentionRelations
from infuser.sources import Sampling

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md")])
SAID = {
    "view": ["left out: ['graph']", "answer without knowledge and with what is left:"],
    "bench": ["| ads | plain | accuracy |", "| ads | placebo | accuracy |", "cells computed the second time: 0"],
    "annotate": ["240 texts; the first:", "15 steps without asking a source", "it is looked up:"],
    "attention_view": ["2 layers, each (1, 2, 16, 16); tokens: 16", "page written: True"],
    "compare": ["| placebo |", "No evidence that kam differs from plain", "steps trained the second time: 0"],
    "correlation": [
        "9 words in 9 sentences, 20 pairs, 10 of them tied",
        "pharmacy - tablets  1.00, 4 times together, 4 times seen",
        "PMI of pharmacy and tablets, shrunk: 0.98",
        "who asks for roses finds a florist",
        "term 'pharmacy', tied to [('tablets', 1.0)]",
    ],
    "ernie": ["guessing entities: loss", "with entities: accuracy", "without: accuracy"],
    "export": [
        "answers as in torch: True",
        "it knows: drug",
        "digests.json, export.json, model.onnx, tokenizer",
    ],
    "explain": ["maps: {'graph': (16, 16)}", "answer with knowledge:", "files: explanation.html, explanation.png"],
    "infuse": [
        "knowledge_boxes: (2, 2, 5)",
        "answers as before: True",
        "the same logits: True",
        "saved files: README.md, config.json, digests.json, infuser.json, knowledge.safetensors, model.safetensors",
        "small form: README.md, config.json, digests.json, infuser.json, knowledge.safetensors, tokenizer.json",
        "detached, it has new weights: False",
    ],
    "knowledge": [
        "skipped 1: triples.tsv, line 4",
        "metformin and Fred Meyer are 3 apart",
        "medicine D1 - disease C1  1.00  treats",
    ],
    "link": ["F1 ", "at most 1.00 can be found", "loaded, it links as before: True"],
    "lora": ["learning: ['bias', 'gate', 'lora', 'maps', 'scores', 'weight']", "the same logits: True"],
    "ner": ["| types |", "dictionary alone 0.9", "found in it: [[4, "],
    "new_entity": [
        "before, the text is linked to a rival: True",
        "it is linked to the new entity: True",
        "the new entity was the least probable one: True",
        "where the rivals are meant, they are chosen as before: True",
        "all old answers are unchanged: True",
        "less than half: True",
    ],
    "new_host": [
        "Cannot infuse a 'data2vec-text' encoder: its anatomy is not described yet. Nearest is 'roberta'",
        "attention modules found: 2",
        "a fresh infusion answers as before: True",
        "knowledge changes the answer: True",
        "the encoder's own answer: True",
        "company does not matter: True",
        "loaded, it answers the same: True",
    ],
    "own_method": ["answers as before: True", "changes the answer: True", "AddMaps(first_layer=0)", "new weights: 0"],
    "own_source": [
        "'Natural language processing' abbreviated as 'NLP'",
        "boxes: [[[0, 1, 4, 5, 8]]]",
        "loaded with: ['Acronyms']",
    ],
    "pipeline": ["the pipeline says what the model says: True"],
    "relations": ["learned: near, sold by", "because of layer", "strict F1", "loaded, it finds the same: True"],
    "rerank": ["right first with knowledge: "],
    "sentence_vectors": [
        "loaded, it gives the same vectors: True",
        "embed gives the same vectors: True",
        "without the graph, others: True",
    ],
    "sources": ["'glipizide' - 'Drug Store'  0.90  sold by", "term 'pharmacy', tied to ['tablets']"],
    "selective": [
        "frequent ones are dropped more often: True",
        "every epoch draws its own links: True",
        "what the encoder knows is left out: True",
    ],
    "serve": ["version of the knowledge: 2", "found: glipizide, pharmacy"],
    "spectral": ["the penalty shrank them: True", "Trainer logs the penalty: True"],
    "train": ["best auc on dev", "asked again, it trained for 0 steps"],
    "trainer": ["test AUC"],
    "typed_names": ["types: ['bakery', 'florist', 'garage', 'other', 'pharmacy']"],
}
"""What each example says when all goes well."""
EXTRAS = {
    "attention_view": "bertviz",
    "lora": "peft",
    "rerank": "sentence_transformers",
    "sentence_vectors": "sentence_transformers",
    "export": "onnxscript",
}

RUN_ALL = """
import contextlib, io, json, runpy, sys, traceback
folder, out, *names = sys.argv[1:]
sys.path.insert(0, folder)
told = {}
for name in names:
    sys.argv = [f"{folder}/{name}.py"]
    said, problem = io.StringIO(), ""
    try:
        with contextlib.redirect_stdout(said):
            runpy.run_path(sys.argv[0], run_name="__main__")
    except BaseException:
        problem = traceback.format_exc()
    told[name] = {"said": said.getvalue(), "problem": problem}
with open(out, "w", encoding="utf-8") as file:
    json.dump(told, file)
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """Run all examples in one child, so that torch is loaded once and nothing of them stays in this process."""
    out = tmp_path_factory.mktemp("examples") / "told.json"
    names = [name for name in SAID if name not in EXTRAS or importlib.util.find_spec(EXTRAS[name])]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1"}
    command = [sys.executable, "-c", RUN_ALL, str(ROOT / "examples"), str(out), *names]
    child = subprocess.run(command, cwd=out.parent, env=env, capture_output=True, text=True, timeout=500)
    assert child.returncode == 0, child.stderr
    result: dict[str, dict[str, str]] = json.loads(out.read_text(encoding="utf-8"))
    return result


def said_by(told: dict[str, dict[str, str]], name: str) -> str:
    if name not in told:
        pytest.skip(f"{EXTRAS[name]} is not installed; it comes with the extra 'clients'.")
    assert not told[name]["problem"], told[name]["problem"]
    return told[name]["said"]


def number_in(pattern: str, said: str) -> float:
    match = re.search(pattern, said)
    assert match, f"{pattern} is not in:\n{said}"
    return float(match.group(1))


@pytest.mark.slow
@pytest.mark.parametrize("name", SAID)
def test_example_runs_and_says_what_it_promises(told: dict[str, dict[str, str]], name: str) -> None:
    said = said_by(told, name)
    for expected in SAID[name]:
        assert expected in said


@pytest.mark.slow
def test_examples_learn_from_the_graph_what_no_text_tells(told: dict[str, dict[str, str]]) -> None:
    # without the graph, half of all guesses about unseen products are wrong
    assert number_in(r"test: \{'auc': ([\d.]+)", said_by(told, "train")) > 0.75
    assert number_in(r"test AUC ([\d.]+)", said_by(told, "trainer")) > 0.75
    compared = said_by(told, "compare")
    plain, kam, placebo = (number_in(rf"\| {arm} \| ([\d.]+)", compared) for arm in ("plain", "kam", "placebo"))
    assert kam > plain + 0.15 and kam > placebo + 0.15


@pytest.mark.slow
def test_a_reranker_knows_products_that_no_text_has_shown(told: dict[str, dict[str, str]]) -> None:
    said = said_by(told, "rerank")
    assert number_in(r"with knowledge: ([\d.]+)", said) > number_in(r"without: ([\d.]+)", said) + 0.3


@pytest.mark.slow
def test_types_say_what_products_are_that_no_text_has_shown(told: dict[str, dict[str, str]]) -> None:
    said = said_by(told, "typed_names")
    assert number_in(r"with types: accuracy ([\d.]+)", said) > number_in(r"without: accuracy ([\d.]+)", said) + 0.3


@pytest.mark.slow
def test_a_tagger_learns_from_a_list_which_names_are_which(told: dict[str, dict[str, str]]) -> None:
    said = said_by(told, "ner")
    plain, types, placebo = (number_in(rf"\| {arm} \| ([\d.]+)", said) for arm in ("plain", "types", "placebo"))
    # nothing but the list tells medicines from towns that training has not seen
    assert types > plain + 0.2 and types > placebo + 0.2
    assert types > number_in(r"dictionary alone ([\d.]+)", said) - 0.05


@pytest.mark.slow
def test_the_linker_reads_which_of_two_goods_is_meant(told: dict[str, dict[str, str]]) -> None:
    said = said_by(told, "link")
    assert number_in(r"F1 ([\d.]+)", said) > number_in(r"priors alone ([\d.]+)", said) + 0.1


@pytest.mark.slow
def test_a_server_knows_an_entity_as_soon_as_it_is_added(told: dict[str, dict[str, str]]) -> None:
    said = said_by(told, "serve")
    before, after, without = (
        number_in(rf"relevant {when}: ([\d.]+)", said) for when in ("before", "after", "without the graph")
    )
    assert after > before + 0.3 and abs(without - before) < 0.2


@pytest.mark.slow
def test_pipeline_answers_differently_with_knowledge(told: dict[str, dict[str, str]]) -> None:
    answers = re.findall(r"with knowledge (\S+ [\d.]+), without (\S+ [\d.]+)", said_by(told, "pipeline"))
    assert len(answers) == 4
    assert any(with_knowledge != without for with_knowledge, without in answers)


def test_every_example_is_run() -> None:
    assert {path.stem for path in (ROOT / "examples").glob("*.py")} - {"miniature"} == set(SAID)


def python_blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", [page for page in PAGES if python_blocks(page)], ids=lambda page: page.stem)
def test_code_on_a_page_stands_in_the_file_it_names(page: Path) -> None:
    """A block names its file first; its paragraphs stand there word by word, in this order."""
    for block in python_blocks(page):
        mark, code = block.split("\n", 1)
        named = re.fullmatch(r"# ((?:examples|src)/[\w/]+\.py)", mark)
        assert named, f"the first line of a block names a file of examples/ or src/, not {mark!r}"
        assert code.strip(), f"the block of {named.group(1)} is empty"
        rest = "\n" + (ROOT / named.group(1)).read_text(encoding="utf-8")
        for paragraph in re.split(r"\n{2,}", code.strip("\n")):
            _, found, rest = rest.partition(f"\n{paragraph}\n")
            assert found, f"{named.group(1)} does not hold, at this place:\n{paragraph}"
            rest = "\n" + rest


def rows_under(page: str, heading: str) -> Iterator[list[str]]:
    """Yield the cells of the first table that has this first heading."""
    lines = iter((DOCS / page).read_text(encoding="utf-8").splitlines())
    assert any(line.startswith(f"| {heading} |") for line in lines), f"{page} has no table that begins with {heading}"
    next(lines)  # the rule below the headings
    for line in lines:
        if not line.startswith("|"):
            return
        yield [cell.strip() for cell in line.strip("|").split(" | ")]


def test_the_reference_lists_the_public_names() -> None:
    rows = list(rows_under("reference/index.md", "name"))
    assert [row[0].strip("`") for row in rows] == infuser.__all__
    assert all(row[1].endswith(".") for row in rows)


def test_the_reference_lists_the_errors_and_what_they_resemble() -> None:
    listed = {row[0].strip("`"): row[1].strip("`") for row in rows_under("reference/errors.md", "error")}
    classes = [cls for _, cls in inspect.getmembers(errors, inspect.isclass) if cls.__module__ == errors.__name__]
    assert listed == {cls.__name__: cls.__bases__[-1].__name__ for cls in classes}


def test_the_reference_lists_the_members_of_infused() -> None:
    listed = {name for row in rows_under("reference/index.md", "member") for name in re.findall(r"`(\w+)", row[0])}
    assert listed == {name for name in dir(infuser.Infused) if not name.startswith("_")}


@pytest.mark.parametrize(
    ("page", "settings"),
    [
        ("methods/ernie.md", infuser.Ernie),
        ("methods/kam.md", infuser.Kam),
        ("methods/kar.md", infuser.Kar),
        ("methods/selective.md", Sampling),
        ("methods/spectral.md", Spectral),
        ("methods/types.md", infuser.Types),
        ("guides/training.md", infuser.TrainSettings),
    ],
    ids=["ernie", "kam", "kar", "selective", "spectral", "types", "training"],
)
def test_a_page_lists_all_settings_with_their_defaults(page: str, settings: Any) -> None:
    listed = [(row[0].strip("`"), row[1].strip("`").replace('"', "'")) for row in rows_under(page, "setting")]
    expected = [(field.name, repr(field.default)) for field in dataclasses.fields(settings) if field.init]
    assert [(name, default.replace("5e-5", "5e-05")) for name, default in listed] == expected


def test_the_page_of_attention_relations_lists_its_settings() -> None:
    listed = [
        (row[0].strip("`"), row[1].strip("`").replace('"', "'"))
        for row in rows_under("methods/attention-relations.md", "setting")
    ]
    expected = inspect.signature(AttentionRelations).parameters
    assert listed == [(name, repr(parameter.default)) for name, parameter in expected.items()]


def test_methods_share_their_headings() -> None:
    expected = ["What it does", "Paper", "When to use it", "What it needs", "Settings", "Example", "How it compares"]
    pages = [page for page in (DOCS / "methods").glob("*.md") if page.name != "index.md"]
    methods = {name for name in METHODS if METHODS[name].__module__.startswith("infuser.")} - {"together"}
    assert {page.stem for page in pages} == methods | {
        "selective",
        "spectral",
        "attention-relations",
    }  # they go with any method
    for page in pages:
        assert re.findall(r"^## (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE) == expected


def test_the_reference_lists_every_command_and_option() -> None:
    import typer

    from infuser.cli import app

    written = (DOCS / "reference" / "commands.md").read_text(encoding="utf-8")
    group: Any = typer.main.get_command(app)
    for name, command in group.commands.items():
        assert f"\n## infuser {name}\n" in written
        for below in getattr(command, "commands", {}):
            assert f"`infuser {name} {below}" in written
        for parameter in command.params:
            for option in parameter.opts if parameter.param_type_name == "option" else ():
                assert f"`{option}`" in written, f"infuser {name} {option} is not in docs/reference/commands.md"


def links_of(page: Path) -> list[str]:
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if not re.match(r"\w+:", link)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for link in links_of(page):
        target = (page.parent / link.partition("#")[0]).resolve() if not link.startswith("#") else page
        assert target.exists(), f"{link} leads nowhere"
        # `make docs` builds docs/ alone, so its pages cannot link to files beside it
        assert DOCS not in page.parents or DOCS in target.parents, f"{link} leads out of docs/"


def test_every_guide_and_reference_page_is_linked_from_the_index() -> None:
    linked = {(DOCS / link.partition("#")[0]).resolve() for link in links_of(DOCS / "index.md")}
    rooms = ("start", "guides", "reference")
    assert {page for room in rooms for page in (DOCS / room).glob("*.md")} <= linked


def test_pages_that_the_code_points_to_exist() -> None:
    named = {
        page
        for file in (ROOT / "src").rglob("*.py")
        for page in re.findall(r"docs/[\w/-]+\.md", file.read_text(encoding="utf-8"))
    }
    assert "docs/guides/new-host.md" in named
    assert all((ROOT / page).exists() for page in named), sorted(named)
