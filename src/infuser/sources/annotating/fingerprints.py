"""Fingerprints of sources: their settings, the content behind them, and the code that reads it.

Two sources with the same fingerprint give the same answers. A setting that names a file or a folder counts by content,
not by path; a package that does the work (spaCy, transformers ...) by its version; our own sources by their code, and a
class from elsewhere by the file it is defined in.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import inspect
import json
import logging
import os
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from infuser.assets import ASSETS
from infuser.files import parse_json
from infuser.knowledge.artifact import kind_of
from infuser.sources import KnowledgeBase, Selective
from infuser.sources.annotating.files import canonical, digest
from infuser.sources.storage import save_source
from infuser.types import Source
from infuser.versions import __version__

_log = logging.getLogger(__name__)

_OUR_CODE = ("sources/**/*.py", "knowledge/**/*.py", "words.py", "types.py")
_WORKERS = {
    "spacy": ("spacy", "numpy"),
    "stanza": ("stanza", "torch"),
    "token": ("transformers", "tokenizers", "torch"),
    "gliner": ("gliner", "transformers", "torch"),
}
"""Packages that do the work, by how the name of a source begins."""


def fingerprint(source: Source) -> str | None:
    """Return a digest that differs for sources that annotate differently; None if the source cannot be written down."""
    return fingerprint_of(describe(source))


def fingerprint_of(described: Mapping[str, Any]) -> str | None:
    """Return the fingerprint of a source from its description."""
    return None if "needs" in described else digest(canonical(described))


def describe(source: Source) -> dict[str, Any]:
    """Return the record of a source with the content behind its paths and all versions that matter."""
    inside = _wrapped(source)
    within = None if inside is None else describe(inside)
    if within is not None and "needs" in within:
        return within
    with tempfile.TemporaryDirectory() as folder:
        record = save_source(source, Path(folder))
        if "needs" in record:
            return record
        described: dict[str, Any] = {"name": record["name"], "code": _code_of(type(source))}
        if within is not None:
            described["inside"] = within
        if record.get("files"):
            described["files"] = _content(Path(folder))
    settings = record.get("settings", {})
    if isinstance(settings, Mapping):
        settings = {name: _settled(value) for name, value in settings.items()}
    packages = _WORKERS.get(record["name"].partition("-")[0], ())
    named = [value for value in settings.values() if isinstance(value, str)] if isinstance(settings, dict) else []
    versions = {package: version for package in (*packages, *named) if (version := _version(package))}
    # through JSON, so that a description read back from a file is equal
    plain: dict[str, Any] = json.loads(canonical({**described, "settings": settings, "versions": versions}))
    return plain


def _wrapped(source: Source) -> Source | None:
    """Return the source that answers for this one: what is behind its paths, and its code, count too."""
    if isinstance(source, Selective):
        return source.source
    return source.candidates if isinstance(source, KnowledgeBase) else None


def _settled(value: Any) -> Any:
    """Return a setting by content if it names something on disk: the same folder elsewhere is the same knowledge."""
    if not isinstance(value, str) or not value:
        return value
    path = Path(value).expanduser()
    try:
        exists = path.exists()
    except (OSError, ValueError):  # a long text, or one with a null character
        return value
    if exists:
        return {"content": _content(path)}
    return {"asset": ASSETS[value].digest} if value in ASSETS else value


def _content(path: Path) -> str:
    """Return a digest of a file, or of all files of a folder with their names."""
    if path.is_file():
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    if kind_of(path) is not None:  # one of ours carries its digest
        return str(parse_json(path / "about.json", "it").get("digest"))
    files = sorted(Path(folder) / name for folder, _, names in os.walk(path) for name in names)
    return digest(canonical([[str(file.relative_to(path)), _content(file)] for file in files if file.is_file()]))


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return None


def _code_of(cls: type[Any]) -> str:
    if cls.__module__.startswith("infuser."):
        return _our_code()
    try:
        return digest(inspect.getsource(inspect.getmodule(cls) or cls).encode())
    except (OSError, TypeError):  # typed into a console
        _log.warning("The code of %s cannot be read, so a change of it will not be noticed.", cls.__name__)
        return f"{cls.__module__}.{cls.__qualname__}"


@cache
def _our_code() -> str:
    """Return a digest of the code of all sources: a change anywhere in it may change answers."""
    root = Path(__file__).parents[2]
    files = [file for pattern in _OUR_CODE for file in sorted(root.glob(pattern))]
    found = {str(file.relative_to(root)): _content(file) for file in files}
    return digest(canonical(found)) if found else __version__
