"""The front door: what `import infuser` costs and which names it opens. And the house's own paperwork: its pins."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import infuser

ROOT = Path(__file__).parent.parent

PUBLIC_NAMES = [
    "Annotations",
    "Arm",
    "Candidate",
    "Candidates",
    "Collator",
    "Comparison",
    "Correlation",
    "Data",
    "Entities",
    "EntityVectors",
    "Ernie",
    "Evaluation",
    "Graph",
    "Infused",
    "InfuserError",
    "Kam",
    "Kar",
    "KnowledgeBase",
    "Link",
    "Mention",
    "Method",
    "ScoredCandidate",
    "Scores",
    "Source",
    "Span",
    "Spectral",
    "StepReport",
    "Task",
    "Term",
    "TrainResult",
    "TrainSettings",
    "Types",
    "Vocabulary",
    "__version__",
    "compare",
    "evaluate",
    "find_mentions",
    "from_pretrained",
    "infuse",
    "load",
    "train",
]
"""What people's programs rely on: a change here is a line in CHANGELOG.md."""

CLASSES = {
    name
    for file in Path(infuser.__file__).parent.rglob("*.py")
    for name in re.findall(r"^class ([A-Z]\w+)", file.read_text(encoding="utf-8"), re.M)
}
"""The names of all classes of the package."""

IMPORT_AND_REPORT = """
import json, sys, time
started = time.perf_counter()
import infuser
seconds = time.perf_counter() - started
print(json.dumps({"seconds": seconds, "modules": sorted(sys.modules)}))
"""


def import_in_a_new_process() -> tuple[float, list[str], str]:
    """Return seconds, loaded modules and what the import itself wrote."""
    child = subprocess.run([sys.executable, "-c", IMPORT_AND_REPORT], capture_output=True, text=True, check=True)
    *said, report = child.stdout.splitlines()
    measured = json.loads(report)
    return measured["seconds"], measured["modules"], "\n".join(said) + child.stderr


def test_importing_is_instant():
    fastest = min(import_in_a_new_process()[0] for _ in range(5))  # the others wait for a busy machine, not for us
    assert fastest < 0.2


def test_importing_loads_nothing_heavy_and_says_nothing():
    _, modules, said = import_in_a_new_process()
    loaded = {name.partition(".")[0] for name in modules}
    assert "infuser" in loaded
    assert loaded.isdisjoint(
        {"torch", "transformers", "accelerate", "matplotlib", "numpy", "scipy", "sklearn", "typer", "rich"}
    )
    assert said == ""


def test_the_public_names_are_these():
    assert infuser.__all__ == PUBLIC_NAMES
    assert dir(infuser) == PUBLIC_NAMES


@pytest.mark.parametrize("name", PUBLIC_NAMES)
def test_every_public_name_opens(name: str):
    assert getattr(infuser, name) is not None


def test_there_are_at_most_forty_public_names():
    assert len([name for name in infuser.__all__ if not name.startswith("_")]) <= 40


def test_type_checkers_see_the_same_names_from_the_same_modules():
    tree = ast.parse(Path(infuser.__file__).read_text(encoding="utf-8"))
    [block] = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {alias.name: node.module for node in block.body for alias in node.names}  # type: ignore[attr-defined]
    assert seen == infuser._HOMES


def types_in_signatures(thing: Any) -> Iterator[tuple[str, str]]:
    """Yield our classes in the type hints of a function, or of a class's fields and `__init__`, with their place."""
    hints = {}
    if inspect.isclass(thing):
        for cls in filter(dataclasses.is_dataclass, thing.__mro__):
            own = vars(cls).get("__annotations__", {})
            hints |= {(cls, name): hint for name, hint in own.items() if not name.startswith("_")}
    functions = [thing] if inspect.isfunction(thing) else [getattr(thing, "__init__", None)]
    if thing is infuser.Infused:  # the facade: what its methods take and return, too
        functions += [method for name, method in vars(thing).items() if not name.startswith("_")]
    for function in functions:
        hints |= {(function, name): hint for name, hint in getattr(function, "__annotations__", {}).items()}
    for (owner, name), hint in hints.items():
        known = vars(sys.modules[owner.__module__])
        for word in re.findall(r"\w+", str(hint)):
            # what is imported for type checkers only is not known there
            is_ours = known[word].__module__.startswith("infuser.") if inspect.isclass(known.get(word)) else None
            if is_ours or (word not in known and word in CLASSES):
                yield f"{owner.__qualname__}, {name}", word


def test_every_type_that_the_front_door_takes_or_returns_is_on_it():
    found = {at for name in PUBLIC_NAMES for at in types_in_signatures(getattr(infuser, name))}
    assert ("infuse, method", "Method") in found and ("find_mentions, return", "Mention") in found
    assert {f"{where}: {name}" for where, name in found if name not in PUBLIC_NAMES} == set()


def test_a_name_that_moved_says_where_it_is():
    for name, home in infuser._MOVED.items():
        with pytest.raises(AttributeError, match=f"'{name}'; it is in {home}"):
            getattr(infuser, name)
        assert hasattr(importlib.import_module(home), name)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'infuze'"):
        _ = infuser.infuze


def read_pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    for pin in pins:
        assert re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", pin), f"not a plain exact pin: {pin}"
    return {canonicalize_name(name): version for name, version in (pin.split("==") for pin in pins)}


def test_every_dependency_is_pinned_inside_its_range():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = settings["project"]["optional-dependencies"].values()
    declared = [
        *settings["build-system"]["requires"],
        *settings["project"]["dependencies"],
        *chain.from_iterable(extras),
    ]
    pins = read_pins()
    for requirement in map(Requirement, declared):
        version = pins.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement.name} has no pin in constraints.txt"
        assert requirement.specifier.contains(version), f"{requirement} does not allow the pinned {version}"
