"""The front door: what `import infuser` costs and which names it opens. And the house's own paperwork: its pins."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import infuser

ROOT = Path(__file__).parent.parent

PUBLIC_NAMES = [
    "Annotated",
    "Annotations",
    "AttentionRelations",
    "Candidates",
    "Collator",
    "Correlation",
    "Entities",
    "EntityVectors",
    "Ernie",
    "Graph",
    "Infused",
    "InfuserError",
    "Kam",
    "Kar",
    "KnowledgeBase",
    "Known",
    "Link",
    "METHODS",
    "Mention",
    "Phrases",
    "RelationText",
    "SOURCES",
    "Sampling",
    "Selective",
    "Source",
    "Span",
    "Spectral",
    "Term",
    "TrainSettings",
    "Triple",
    "__version__",
    "annotate",
    "evaluate",
    "find_mentions",
    "infuse",
    "load",
    "train",
]
"""What people's programs rely on: a change here is a line in CHANGELOG.md."""

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
