"""A sweep and an ablation are methods that differ in one thing; both take over what was tuned for the whole method.

    [sweep]                                  [ablate]
    method = "kam"                           method = "kam"
    alpha = [0.0, 0.1, 0.2, 0.4]             parts = ["pmi", "phrase", "convolution"]

makes "kam alpha=0.1", ...                   makes "kam without pmi", ...

A part is one of the method's sources, or a part of the method itself: see `PARTS`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from infuser.errors import InputError
from infuser.experiments.settings import ArmEntry, Bench, only
from infuser.files import parse_json

PARTS: dict[str, dict[str, dict[str, Any]]] = {
    "kam": {
        "convolution": {"fusion": "mean"},
        "residual": {"residual": "off"},
        "cls_row": {"cls_row": False},
    },
}
"""Of each method the parts that can be left out, and the settings without them."""


def expand(bench: Bench, said: Mapping[str, Any], where: str) -> Bench:
    """Add the methods that the tables [sweep] and [ablate] of a settings file ask for."""
    if "sweep" in said:
        table = dict(said["sweep"])
        method = table.pop("method", None)
        if len(table) != 1 or not isinstance(next(iter(table.values())), list):
            raise InputError(f"{where}: [sweep] takes a method and one setting with a list of values; got {table}.")
        [(setting, values)] = table.items()
        bench = sweep(bench, method, setting, values)
    if "ablate" in said:
        table = dict(said["ablate"])
        bench = ablate(bench, table.pop("method", None), table.pop("parts", None))
        if table:
            raise InputError(f"{where}: [ablate] has no setting {next(iter(table))!r}. Known: method, parts.")
    return bench


def sweep(bench: Bench, method: str | None, setting: str, values: Sequence[Any]) -> Bench:
    """Return the bench with one more method for each value of a setting."""
    arm = _chosen(bench, method)
    names = [sweep_name(arm.name, setting, value) for value in values]
    if len(set(names)) != len(names) or not names:
        raise InputError(f"A sweep needs different values of {setting}; got {list(values)}.")
    made = {}
    for name, value in zip(names, values, strict=True):
        if setting in ("spectral", "select"):
            made[name] = replace(arm, name=name, tuned_as=arm.name, **{setting: value})
        else:
            made[name] = replace(arm, name=name, tuned_as=arm.name, settings={**arm.settings, setting: value})
    return replace(bench, arms={**bench.arms, **made})


def ablate(bench: Bench, method: str | None, parts: Sequence[str] | None = None) -> Bench:
    """Return the bench with one more method for each part that is left out; None leaves out each source, and all else.

    The last source cannot be left out: nothing would be put inside.
    """
    arm = _chosen(bench, method)
    own = PARTS.get(arm.kind or "", {})
    sources = arm.sources if len(arm.sources) > 1 else ()
    made = {}
    for part in [*sources, *own] if parts is None else parts:
        name = ablation_name(arm.name, part)
        if part in sources:
            made[name] = replace(arm, name=name, tuned_as=arm.name, sources=tuple(s for s in sources if s != part))
        elif part in own:
            made[name] = replace(arm, name=name, tuned_as=arm.name, settings={**arm.settings, **own[part]})
        else:
            known = ", ".join([*sources, *own]) or "nothing"
            raise InputError(f"{part!r} cannot be left out of the method {arm.name!r}. What can: {known}.")
    if not made:
        raise InputError(f"Nothing can be left out of the method {arm.name!r}: it has one source and no other parts.")
    return replace(bench, arms={**bench.arms, **made})


def sweep_name(method: str, setting: str, value: Any) -> str:
    """Return what a method of a sweep is called."""
    return f"{method} {setting}={value:g}" if isinstance(value, float) else f"{method} {setting}={value}"


def ablation_name(method: str, part: str) -> str:
    """Return what a method without one part is called."""
    return f"{method} without {part}"


def _chosen(bench: Bench, method: str | None) -> ArmEntry:
    """Return the named method, or the only one that puts knowledge inside, is no placebo and no variation."""
    if method is not None:
        if method not in bench.arms:
            raise InputError(f"There is no method {method!r} in this bench. Known: {', '.join(bench.arms)}.")
        if bench.arms[method].kind is None:
            raise InputError(f"The method {method!r} is the plain encoder: there is nothing to vary or to leave out.")
        return bench.arms[method]
    able = [arm for arm in bench.arms.values() if arm.kind is not None and not arm.placebo and arm.tuned_as is None]
    if len(able) != 1:
        raise InputError(f"Say which method: {', '.join(arm.name for arm in able) or 'this bench has none'}.")
    return able[0]


def parse_sweep(over: str) -> tuple[str, list[Any]]:
    """Return the setting and the values of "alpha=0,0.1,0.2"; values are numbers, true, false or words."""
    setting, equals, values = over.partition("=")
    if not equals or not values:
        raise InputError(f"--over {over}: name a setting and its values, as in alpha=0,0.1,0.2,0.4.")
    return setting, [_value(value) for value in values.split(",")]


def _value(written: str) -> Any:
    try:
        return parse_json(written)
    except ValueError:
        return written


def sweep_only(bench: Bench, method: str | None, setting: str, values: Sequence[Any]) -> Bench:
    """Return the baseline and the methods of a sweep."""
    chosen = _chosen(bench, method).name
    return only(sweep(bench, chosen, setting, values), methods=[sweep_name(chosen, setting, value) for value in values])


def ablate_only(bench: Bench, method: str | None, parts: Sequence[str] | None) -> Bench:
    """Return the baseline, the whole method and the methods of an ablation."""
    chosen = _chosen(bench, method).name
    ablated = ablate(bench, chosen, parts)
    return only(
        ablated, methods=[chosen, *(name for name in ablated.arms if name.startswith(ablation_name(chosen, "")))]
    )
