"""A probe of types: an entity is known if a linear classifier reads its type from the encoder's states.

For encoders without a head for masked words. The states of a plain encoder are averaged over the tokens of a mention,
and logistic regression learns the type from that vector. Each entity is scored by a classifier that has not seen it,
nor any entity that shares a name with it: the score is the probability of the right type, averaged over mentions.

Each type has the same weight, and so has each entity of a type: to guess the most common type is no knowledge, and
guessing gives 1 / number of types. As a control the same probe learns types that are shuffled between entities. What
it reaches there is the probe's own doing; a probe that reads the real types no better says nothing (selectivity:
Hewitt and Liang, 2019).
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from infuser.analysis.probe.mentions import Example, ProbedMention, find_probed_mentions, text_batches
from infuser.errors import InputError
from infuser.hosts import answering
from infuser.knowledge.entity_scores import EntityScore
from infuser.types import Source

_log = logging.getLogger(__name__)
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TypedScores:
    """What a probe of types found, and whether to believe it."""

    scores: list[EntityScore]
    """Sorted by key; entities without a type, or of a type that is too rare, have none."""
    types: tuple[str, ...]
    """The types that were distinguished."""
    accuracy: float
    """Share of held-out mentions whose most probable type is right; each type, and each entity of it, counts alike."""
    control: float
    """The same for types that were shuffled between entities."""

    @property
    def chance(self) -> float:
        """The accuracy of guessing."""
        return 1 / len(self.types)

    @property
    def selectivity(self) -> float:
        """How much better the probe reads the real types than shuffled ones."""
        return self.accuracy - self.control


def typed_scores(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    examples: Sequence[Example],
    sources: Sequence[Source] = (),
    *,
    types: Mapping[str, str] | None = None,
    folds: int = 5,
    seed: int = 0,
    strength: float = 0.01,
    max_mentions: int = 8,
    batch_size: int = 32,
    progress: bool = False,
) -> TypedScores:
    """Return how well the type of each entity can be read from a plain encoder's states, by cross-validation.

    `types` maps keys of entities to types, such as the tail of an "is a" edge; without it the labels of spans are the
    types. Examples come with annotations, or the sources are asked; `name_examples` makes examples of bare names.
    `strength` is scikit-learn's C: smaller makes the probe simpler. An infused model is read without its knowledge.
    """
    if folds < 2:
        raise InputError(f"folds={folds}: cross-validation needs at least 2.")
    mentions = find_probed_mentions(model, tokenizer, examples, sources, max_mentions=max_mentions, progress=progress)
    mentions, type_of = _with_types(mentions, types, folds)
    keys = list(type_of)
    names = tuple(sorted(set(type_of.values())))
    vectors = pool(model, tokenizer, mentions, batch_size=batch_size, progress=progress)
    number = {key: place for place, key in enumerate(keys)}
    entities = np.array([number[one.key] for one in mentions])  # (mentions,)
    groups = share_a_name(entities, [one.name for one in mentions])
    truth = np.array([names.index(type_of[key]) for key in keys])  # (entities,)
    answers = _held_out(vectors, entities, groups, truth, folds, seed, strength)  # (mentions, types)
    shuffled = np.random.default_rng(seed).permutation(truth)
    control = _held_out(vectors, entities, groups, shuffled, folds, seed, strength)
    n_mentions = np.bincount(entities)
    score = np.bincount(entities, answers[np.arange(len(answers)), truth[entities]]) / n_mentions
    scores = [
        EntityScore(key, min(1.0, float(score[place])), int(n_mentions[place]), "type-probe")
        for place, key in enumerate(keys)
    ]
    result = TypedScores(scores, names, _accuracy(answers, entities, truth), _accuracy(control, entities, shuffled))
    _log.info(
        "The probe tells %d types apart with accuracy %.3f; shuffled types %.3f, guessing %.3f.",
        len(names),
        result.accuracy,
        result.control,
        result.chance,
    )
    return result


def pool(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    mentions: Sequence[ProbedMention],
    *,
    batch_size: int = 32,
    progress: bool = False,
) -> Floats:
    """Return the average of the plain encoder's last states over each mention, (mentions, hidden)."""
    vectors = np.zeros((len(mentions), model.config.hidden_size))
    of_text: dict[tuple[str, str | None], list[int]] = {}  # each text is read once, however many mentions it has
    for place, one in enumerate(mentions):
        of_text.setdefault((one.row.text, one.row.pair), []).append(place)
    shared = list(of_text.values())
    firsts = [mentions[places[0]] for places in shared]
    with answering(model):
        for texts, batch in text_batches(model, tokenizer, firsts, batch_size=batch_size, progress=progress):
            states = model.base_model(**batch).last_hidden_state.double().cpu().numpy()  # (batch, seq, hidden)
            for row, text in enumerate(texts):
                for place in shared[text]:
                    vectors[place] = states[row, mentions[place].start : mentions[place].end].mean(axis=0)
    return vectors


def share_a_name(entities: Ints, names: Sequence[str]) -> Ints:
    """Return a group for each entity; those that are called the same, or were through others, are in one group.

    Otherwise a probe would know one Springfield, never seen, by the thirty that it has seen.
    """
    return connected_groups(entities, np.unique(np.array(names, dtype=object), return_inverse=True)[1])


def connected_groups(one: Ints, other: Ints) -> Ints:
    """Return a group for each number of `one`; numbers that share one of `other`, also through others, are together."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    n_one = int(one.max()) + 1
    size = n_one + int(other.max()) + 1
    ties = coo_array((np.ones(len(one)), (one, n_one + other)), shape=(size, size))
    groups: Ints = connected_components(ties, directed=False)[1][:n_one]
    return groups


def _with_types(
    mentions: Sequence[ProbedMention], types: Mapping[str, str] | None, folds: int
) -> tuple[list[ProbedMention], dict[str, str]]:
    """Return the mentions of entities that can be probed, and the type of each such entity, sorted by key."""
    type_of: dict[str, str] = {}
    labels: dict[str, Counter[str]] = {}
    for one in mentions:
        labels.setdefault(one.key, Counter())[one.label] += 1
    for key, counted in labels.items():
        # of labels that are equally common the first in the alphabet: the data's order must not decide
        label = min(counted, key=lambda label: (-counted[label], label)) if types is None else types.get(key, "")
        if label:
            type_of[key] = label
    n_entities = Counter(type_of.values())
    rare = sorted(label for label, n in n_entities.items() if n < folds)
    if rare:
        _log.warning(
            "%d types have fewer than %d entities, so their entities get no score: %s%s.",
            len(rare),
            folds,
            ", ".join(rare[:5]),
            " ..." if len(rare) > 5 else "",
        )
    if len(n_entities) - len(rare) < 2:
        raise InputError(
            f"A probe of types needs at least 2 types with {folds} entities each; of {len(labels)} entities in these "
            f"texts {len(type_of)} have a type, most often {n_entities.most_common(3)}. Give more texts, labels that "
            "tell kinds apart, or types={key: type} such as the tails of an 'is a' relation; or fewer folds."
        )
    type_of = {key: label for key, label in type_of.items() if n_entities[label] >= folds}
    return [one for one in mentions if one.key in type_of], type_of


def _held_out(
    vectors: Floats, entities: Ints, groups: Ints, truth: Ints, folds: int, seed: int, strength: float
) -> Floats:
    """Return the probability of each type for each mention, by a probe that has not seen its entity."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedGroupKFold
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    answers = np.zeros((len(entities), int(truth.max()) + 1))
    weights = _weights(entities, truth)
    splitter = StratifiedGroupKFold(folds, shuffle=True, random_state=seed)
    for _, held in splitter.split(truth, truth, groups):
        tested = np.isin(entities, held)
        seen = ~tested
        if len(np.unique(truth[entities[seen]])) < 2:  # almost all share a name: nothing to learn from, score 0
            continue
        probe = make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=1000))
        probe.fit(vectors[seen], truth[entities[seen]], logisticregression__sample_weight=weights[seen])
        # a type that was not seen keeps probability 0
        answers[np.ix_(tested, probe.classes_)] = probe.predict_proba(vectors[tested])
    return answers


def _weights(entities: Ints, truth: Ints) -> Floats:
    """Return a weight for each mention: types weigh the same, and the entities of a type, and their mentions."""
    per_entity = 1 / np.bincount(entities)
    weights = per_entity[entities] / np.bincount(truth)[truth[entities]]
    scaled: Floats = weights / weights.mean()
    return scaled


def _accuracy(answers: Floats, entities: Ints, truth: Ints) -> float:
    right = (answers.argmax(axis=1) == truth[entities]) & answers.any(axis=1)  # without an answer, nothing is right
    return float(np.average(right, weights=_weights(entities, truth)))
