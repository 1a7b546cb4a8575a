"""The model card: README.md of a saved model, made of what the folder itself says.

README.md       written again by every save; people may edit it, so no digest covers it
comparison.md   the table of the comparison that the model comes from, if there was one
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from huggingface_hub import ModelCardData

from infuser.errors import InputError, did_you_mean
from infuser.files import parse_json, write_whole
from infuser.hosts.checkpoints import CARD, CLASSIFIER, TAGGER
from infuser.registry import METHODS
from infuser.seals import README
from infuser.versions import installed_versions

COMPARISON = "comparison.md"
UNKNOWN = "unknown"
_PIPELINES = {
    CLASSIFIER: "text-classification",
    TAGGER: "token-classification",
    "ForQuestionAnswering": "question-answering",
    "ForMaskedLM": "fill-mask",
    "Model": "feature-extraction",
}
"""What the hub calls the tasks of heads, by how the names of model classes end."""
_HUB_ID = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")


def check_licenses(licenses: Mapping[str, str], sources: Sequence[str]) -> dict[str, str]:
    """Return the licences of a model, its host and its sources, by these names; raise for another name."""
    known = ("model", "host", *sources)
    for name, license in licenses.items():
        if name not in known:
            raise InputError(
                f"There is a licence for {name!r}, which the model does not have.{did_you_mean(name, known)} It has "
                f"{', '.join(known)}."
            )
        if not isinstance(license, str) or not license.strip():
            raise InputError(f"The licence of {name!r} is {license!r}; give its identifier, such as 'apache-2.0'.")
    return dict(licenses)


def write_model_card(folder: Path, *, name: str | None = None, comparison: str | None = None) -> None:
    """Write the card of a saved model; `name` is its id on the hub, `comparison` a table in Markdown to add to it."""
    if comparison is not None:
        write_whole(folder / COMPARISON, comparison)
    card = parse_json(folder / CARD)
    config = parse_json(folder / "config.json")
    table = read_comparison(folder)
    parts = [
        _front_matter(card),
        f"# {_title(card)}",
        _about(card, config),
        _use(card, name or "path/to/this/folder"),
        _sources(card),
        _labels(card, config),
        f"## Does the knowledge help?\n\n{table or 'Not measured: no comparison came with this model.'}",
        _licenses(card),
        _versions(card),
    ]
    write_whole(folder / README, "\n\n".join(part.strip() for part in parts if part) + "\n")


def read_comparison(folder: Path) -> str | None:
    """Return the table of the comparison that a saved model comes from."""
    path = folder / COMPARISON
    return path.read_text(encoding="utf-8") if path.is_file() else None


def hub_id(base: str | None) -> str | None:
    """Return the id of a base checkpoint on the hub; None for a folder."""
    return base if base and _HUB_ID.fullmatch(base) and not Path(base).exists() else None


def _front_matter(card: Mapping[str, Any]) -> str:
    kinds = [ending for ending in _PIPELINES if card["model"].endswith(ending)]
    data = ModelCardData(
        library_name="infuser",
        license=card.get("licenses", {}).get("model", UNKNOWN),
        base_model=hub_id(card["base"].get("id")),
        pipeline_tag=_PIPELINES[kinds[0]] if kinds else None,
        tags=["infuser", "knowledge", *_method_names(card)],
    )
    return f"---\n{data.to_yaml()}\n---"


def _method_names(card: Mapping[str, Any]) -> list[str]:
    method = card["method"]
    several = method["settings"].get("methods") if method["name"] == "together" else None
    return [one["kind"] for one in several] if several else [method["name"]]


def _title(card: Mapping[str, Any]) -> str:
    sources = ", ".join(one["name"] for one in card["sources"])
    return f"{card['model']} that reads knowledge ({'+'.join(_method_names(card))}: {sources})"


def _about(card: Mapping[str, Any], config: Mapping[str, Any]) -> str:
    base = card["base"].get("id") or card["base"].get("name")
    host = f"`{Path(base).name if Path(base).exists() else base}`" if base else "a model that was made in memory"
    size = [f"{config[key]} {what}" for key, what in _SIZES.items() if isinstance(config.get(key), int)]
    methods = "\n".join(f"- `{name}`: {_first_line(METHODS[name])}" for name in _method_names(card))
    settings = json.dumps(card["method"]["settings"], indent=1, ensure_ascii=False)
    small = " Only the new weights are in this folder; the host is fetched from there." * (card["form"] != "whole")
    return (
        f"A text encoder ({config.get('model_type')}, {', '.join(size)}) from {host} that reads what its sources know "
        f"about a text, made with Infuser.{small}\n\n{methods}\n\n"
        f"<details><summary>Settings of the method</summary>\n\n```json\n{settings}\n```\n\n</details>"
    )


_SIZES = {"num_hidden_layers": "layers", "n_layers": "layers", "hidden_size": "hidden", "dim": "hidden"}


def _first_line(method: type[Any]) -> str:
    return (method.__doc__ or "").strip().splitlines()[0]


def _use(card: Mapping[str, Any], name: str) -> str:
    given = ", sources=[...]" if any("needs" in one for one in card["sources"]) else ""
    lines = [
        "import infuser",
        "",
        f'infused = infuser.from_pretrained("{name}"{given})',
        'outputs = infused.model(**infused.batch(["A text."]))  # with knowledge',
        "with infused.disabled():",
        '    outputs = infused.model(**infused.batch(["A text."]))  # without',
    ]
    plain = ""
    if card["form"] == "whole":
        auto = next((f"AutoModel{one}" for one in _HEADS if card["model"].endswith(one)), "AutoModel")
        plain = f'\n\nWithout Infuser the same files are the plain host: `{auto}.from_pretrained("{name}")`.'
    return "## Use\n\n```python\n" + "\n".join(lines) + f"\n```{plain}"


_HEADS = (CLASSIFIER, TAGGER, "ForQuestionAnswering", "ForMaskedLM", "ForMultipleChoice", "ForPreTraining")


def _sources(card: Mapping[str, Any]) -> str:
    facts = card.get("knowledge") or [{} for _ in card["sources"]]
    licenses = card.get("licenses", {})
    lines = ["| source | digest | size | licence | comes along |", "|---|---|---|---|---|"]
    for record, one in zip(card["sources"], facts, strict=True):
        name = one.get("name", record["name"])
        digest, size = one.get("digest"), one.get("bytes")
        shown = f"`{digest[:16]}`" if digest else UNKNOWN
        cells = [name, shown, UNKNOWN if size is None else _readable(size), licenses.get(name, UNKNOWN)]
        lines.append(f"| {' | '.join(cells)} | {_comes_along(record, one)} |")
    return "## Knowledge\n\n" + "\n".join(lines)


def _comes_along(record: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    if "needs" in record:
        return "no, it must be passed to `from_pretrained`"
    return "yes" if facts.get("inside", True) else "no, it is named by its path"


def _readable(n_bytes: int) -> str:
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if n_bytes >= size:
            return f"{n_bytes / size:.1f} {unit}"
    return f"{n_bytes} bytes"


def _labels(card: Mapping[str, Any], config: Mapping[str, Any]) -> str:
    if not card["model"].endswith((CLASSIFIER, TAGGER)):
        return ""
    labels = sorted((config.get("id2label") or {}).items(), key=lambda one: int(one[0]))
    return "## Labels\n\n" + "\n".join(f"- {number}: {label}" for number, label in labels) if labels else ""


def _licenses(card: Mapping[str, Any]) -> str:
    licenses = card.get("licenses", {})
    lines = [f"- {name}: {licenses.get(name, UNKNOWN)}" for name in ("model", "host")]
    return "## Licences\n\n" + "\n".join(lines) + "\n- sources: see the table above"


def _versions(card: Mapping[str, Any]) -> str:
    versions = card.get("versions") or {"infuser": card["infuser"]}
    return "## Versions\n\n" + ", ".join(f"{name} {version}" for name, version in versions.items())


def versions_of_packages() -> dict[str, str]:
    """Return the versions that a card names: those of packages, without the machine's."""
    return {name: version for name, version in installed_versions().items() if name != "machine"}
