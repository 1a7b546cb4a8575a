"""A probe of relations: how well a linear model reads from an encoder that two spans are related, and by what.

Two classifiers learn from what the heads attend to (or from the states): a gate, "is it a relation?", among as many
triples that are one as triples that are none, and a classifier, "which one?". Both answer for test triples. The same is
done with each layer alone and, as controls, with an encoder of the same form that has learned nothing and with labels
that are shuffled between triples: what the classifiers reach there is not the encoder's knowledge.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModel, PreTrainedModel, PreTrainedTokenizerBase

from infuser.analysis.probe.relation_fits import fit_and_answer, layer_curve
from infuser.analysis.probe.relation_knowledge import RelationKnowledge, score_knowledge
from infuser.analysis.probe.relation_notes import facts_of, notes_of
from infuser.analysis.probe.relation_rows import RowFeatures, TripleRows, choose_rows
from infuser.analysis.probe.result import EncoderReading, ProbeReport
from infuser.errors import InputError
from infuser.hosts import plain_config
from infuser.hosts.checkpoints import short_name
from infuser.hosts.loading import to_fastest_device
from infuser.progress import progress_bar
from infuser.relations.encoders import Encoder
from infuser.relations.examples import RelationText, relation_labels
from infuser.relations.features import FeatureSettings, Kind, Pooling, SpanReader, write_features
from infuser.types import Source
from infuser.versions import installed_versions

_KINDS: tuple[Kind, ...] = ("attention", "embeddings")


@dataclass(frozen=True, slots=True)
class ProbeSettings:
    """What is asked, and how."""

    kind: Kind = "attention"
    """What the classifiers read: "attention" between spans, or "embeddings", the spans' states."""
    pooling: Pooling = "sum"
    """How attention between the tokens of two spans becomes one number."""
    trigger: bool | None = None
    """Read the words that say the relation, too; None does so if all facts that are asked about have some."""
    relations: Collection[str] | None = None
    """Only these relations; None takes all."""
    per_relation: int | None = None
    """At most so many triples of each relation, in training and in test; None takes all."""
    curve: bool = True
    """Also ask each layer alone, attention and embeddings both."""
    curve_rows: int = 4000
    """Each layer alone learns from so many facts at most, and is tested with as many: there are many layers."""
    control: bool = True
    """Also ask an encoder of the same form with random weights."""
    shuffled: bool = True
    """Also learn labels that are shuffled between the training triples."""
    scores: bool = False
    """Also score each relation and entity, by cross-validation over all triples: `ProbedEncoder.knowledge`."""
    by_id: bool = False
    """Entities go by the ids of their spans; otherwise by their words, as ids of some formats count within a text."""
    strength: float = 1.0
    """How freely the classifiers may fit (scikit-learn's C)."""
    seed: int = 0
    """Decides negatives, random weights, shuffled labels and which triples are chosen."""


@dataclass(frozen=True)
class ProbedEncoder:
    """What a probe found out about one encoder."""

    reading: EncoderReading
    knowledge: RelationKnowledge
    """How probable the right relation is to a classifier that has not seen the triple; empty unless asked for."""
    facts: dict[str, str]
    """How it was found out."""
    notes: tuple[str, ...]
    """What to keep in mind."""
    labels: dict[str, str]
    """Relation id to its name."""


def probe_relations(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    train: Sequence[RelationText],
    test: Sequence[RelationText],
    *,
    sources: Sequence[Source] = (),
    name: str = "",
    settings: ProbeSettings | None = None,
    progress: bool = False,
) -> ProbedEncoder:
    """Find out which relations can be read from an encoder; an infused one reads with the knowledge of its `sources`.

    Classifiers learn from the triples of `train` and answer for those of `test`.
    """
    settings = settings or ProbeSettings()
    settings, notes = _with_trigger(settings, [*train, *test])
    chosen = {"relations": settings.relations, "per_relation": settings.per_relation, "seed": settings.seed}
    asked = [choose_rows(texts, **chosen) for texts in (train, test)]  # type: ignore[arg-type]
    _check(asked, settings)
    readers = {kind: SpanReader(model, tokenizer, sources, settings=_features(settings, kind)) for kind in _KINDS}
    random = SpanReader(randomly_initialised(model, settings.seed), tokenizer, settings=_features(settings))
    with tempfile.TemporaryDirectory(prefix="infuser-probe-", ignore_cleanup_errors=True) as folder:
        seen = _read_rows(readers[settings.kind], asked, Path(folder, "own"), progress)
        control = _read_rows(random, asked, Path(folder, "random"), progress) if settings.control else None
        curves: dict[str, Sequence[RowFeatures]] = {}
        if settings.curve:
            few = [rows.first(settings.curve_rows) for rows in asked]
            for kind, reader in readers.items():
                if kind == settings.kind:
                    curves[kind] = [one.part(places) for one, places in zip(seen, few, strict=True)]
                else:
                    some = [rows.kept(places) for rows, places in zip(asked, few, strict=True)]
                    curves[kind] = _read_rows(reader, some, Path(folder, kind), progress)
        labels = relation_labels([*train, *test])
        found = _fit_all(name, settings, labels, seen, control, curves, readers[settings.kind], progress)
        return replace(found, notes=(*notes, *found.notes))


def _with_trigger(settings: ProbeSettings, texts: Sequence[RelationText]) -> tuple[ProbeSettings, list[str]]:
    """Return settings that say whether triggers are read, and a note where some facts have none."""
    if settings.trigger is not None:
        return settings, []
    wanted = settings.relations
    facts = [
        one for text in texts for one in text.triples if one.is_fact and (wanted is None or one.relation in wanted)
    ]
    lacking = sum(one.trigger is None for one in facts)
    notes = []
    if 0 < lacking < len(facts):
        notes.append(
            f"{lacking:,} of {len(facts):,} facts have no words that say the relation, so only head and tail are read."
        )
    return replace(settings, trigger=not lacking), notes


def _fit_all(
    name: str,
    settings: ProbeSettings,
    labels: Mapping[str, str],
    seen: Sequence[RowFeatures],
    control: Sequence[RowFeatures] | None,
    curves: Mapping[str, Sequence[RowFeatures]],
    reader: SpanReader,
    progress: bool,
) -> ProbedEncoder:
    """Fit all classifiers on what was read, and report."""
    how: dict[str, Any] = {"strength": settings.strength}
    random = shuffled = None
    knowledge = RelationKnowledge()
    n_layers = sum(one[0].n_layers for one in curves.values())
    n_fits = 1 + (control is not None) + settings.shuffled + n_layers + settings.scores
    with progress_bar("fitting classifiers", n_fits, shown=None if progress else False) as bar:
        own = fit_and_answer(*seen, **how)
        bar.advance()
        if control is not None:
            random = fit_and_answer(*control, **how)
            bar.advance()
        if settings.shuffled:
            shuffled = fit_and_answer(*seen, shuffling=settings.seed, **how)
            bar.advance()
        layers = {kind: layer_curve(*of_kind, advance=bar.advance, **how) for kind, of_kind in curves.items()}
        if settings.scores:
            knowledge = score_knowledge(seen, seed=settings.seed, by_id=settings.by_id, **how)
            bar.advance()
    reading = own.reading(
        name,
        reader,
        labels,
        control=None if random is None else random.scores,
        shuffled=None if shuffled is None else shuffled.scores,
        layers=layers,
    )
    facts = facts_of(settings, seen, curves, reader.shape)
    notes = notes_of(name, settings, seen, own, reading.control, knowledge)
    named = {relation: labels[relation] for relation in own.which.classes}
    return ProbedEncoder(reading, knowledge, facts, tuple(notes), named)


def probe_report(
    probed: Sequence[ProbedEncoder], *, facts: Mapping[str, str] | None = None, notes: Iterable[str] = ()
) -> ProbeReport:
    """Return the report about one encoder, or the comparison of two; the first is the one compared with."""
    labels = {relation: label for one in reversed(probed) for relation, label in one.labels.items()}
    all_facts = dict(facts or {})
    for fact in dict.fromkeys(fact for one in probed for fact in one.facts):
        values = {one.reading.name: one.facts[fact] for one in probed if fact in one.facts}
        if len(set(values.values())) == 1:
            all_facts[fact] = next(iter(values.values()))
        else:
            all_facts |= {f"{fact}, {name}": value for name, value in values.items()}
    kept = dict.fromkeys([*notes, *(note for one in probed for note in one.notes)])
    versions = {**installed_versions(), "scikit-learn": version("scikit-learn")}
    return ProbeReport(tuple(one.reading for one in probed), labels, tuple(kept), all_facts, versions)


def probe_encoders(
    encoders: Sequence[Encoder],
    train: Sequence[RelationText],
    test: Sequence[RelationText],
    *,
    settings: ProbeSettings | None = None,
    progress: bool = False,
) -> list[ProbedEncoder]:
    """Probe encoders with the same texts, each on the fastest device; entities are scored for the first one alone."""
    settings = settings or ProbeSettings()
    return [
        probe_relations(
            to_fastest_device(encoder.model),
            encoder.tokenizer,
            train,
            test,
            sources=encoder.sources,
            name=short_name(encoder.base or "encoder"),
            settings=replace(settings, scores=settings.scores and not place),
            progress=progress,
        )
        for place, encoder in enumerate(encoders)
    ]


def randomly_initialised(model: PreTrainedModel, seed: int = 0) -> PreTrainedModel:
    """Return an encoder of the same form with random weights; that of an infused one is plain."""
    with plain_config(model):
        config = copy.deepcopy(model.config)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        random: Any = AutoModel.from_config(config, trust_remote_code=False)  # type: ignore[no-untyped-call]
    encoder: PreTrainedModel = random.to(model.device, model.dtype).train(False)
    return encoder


def _features(settings: ProbeSettings, kind: Kind | None = None) -> FeatureSettings:
    return FeatureSettings(kind or settings.kind, settings.pooling, bool(settings.trigger))


def _check(asked: Sequence[TripleRows], settings: ProbeSettings) -> None:
    train, test = (sorted(set(rows.truth[rows.facts])) for rows in asked)
    wanted = "" if settings.relations is None else f" (of {', '.join(sorted(settings.relations)[:5])} ...)"
    if len(train) < 2:
        raise InputError(
            f"The training texts state {len(train)} different relations{wanted}; telling them apart takes 2 or more. "
            "Give texts with other relations, too."
        )
    if not set(train) & set(test):
        raise InputError(
            f"The test texts state no relation of the training texts{wanted}: they state {test[:5]}, training states "
            f"{train[:5]}. Give test texts with the same relations."
        )
    missing = sorted(set(settings.relations or ()) - {*train, *test})
    if missing:
        raise InputError(f"The texts do not state the relations {', '.join(missing)}. They state {train[:10]} ...")


def _read_rows(reader: SpanReader, asked: Sequence[TripleRows], stem: Path, progress: bool) -> list[RowFeatures]:
    """Return what one encoder gives for the rows of training and test, in files: all layers are too much for memory."""
    return [
        RowFeatures.whole(rows, write_features(reader, rows.texts, Path(f"{stem}-{number}.npy"), progress=progress))
        for number, rows in enumerate(asked)
    ]
