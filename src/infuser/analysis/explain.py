"""What knowledge does to one text: what was found, its maps, attention and the answer, without and with it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel

from infuser.analysis.answers import Answer, answers_texts, read_answers
from infuser.analysis.explain_inputs import TextBatch, batch_of, collator_of, n_shared
from infuser.analysis.explained import Explained, Switches
from infuser.analysis.explanation import ROUNDING, Explanation
from infuser.analysis.head_changes import mean_share, runaway_heads, share_moved, words_without_knowledge
from infuser.analysis.token_labels import token_labels, token_maps
from infuser.errors import InputError
from infuser.hosts import showing_weights
from infuser.hosts.watching import answering
from infuser.infused import Infused
from infuser.linking.mentions import Mention
from infuser.methods.entity_reader import Trace
from infuser.methods.kar import KarLayer
from infuser.methods.together import methods_of, name_of
from infuser.methods.types import watching_gates
from infuser.signals.candidates import bases_among
from infuser.types import Annotations, HasBases

Layer = int | Literal["strongest"]
"""A layer by its number, negative ones counted from the last; or the one where knowledge changes most."""


@dataclass(frozen=True, eq=False)
class TextReading:
    """One text or pair, read without knowledge and with it; `at` shows one layer and head."""

    about: Explanation
    """All that does not depend on layer and head; its attention is that of the last layer, mean over heads."""
    plain: Sequence[Tensor]
    """Attention of every layer without knowledge, (heads, seq, seq) each."""
    infused: Sequence[Tensor]

    def at(self, layer: Layer = -1, head: int | None = None) -> Explanation:
        """Return what knowledge changed, seen at one layer and one head (None: the mean over heads)."""
        assert self.about.changes is not None
        place, which = _choose(layer, head, self.about.changes)
        plain, infused = (_attention(layers, place, which) for layers in (self.plain, self.infused))
        return replace(self.about, layer=place, head=which, plain=plain, infused=infused)


def explain(
    infused: Explained,
    text: str,
    pair: str | None = None,
    *,
    layer: Layer = -1,
    head: int | None = None,
    off: Collection[str] = (),
    found: Sequence[Annotations] | None = None,
) -> Explanation:
    """Return what knowledge changed in one text or pair, seen at one layer and one head (None: the mean over heads).

    layer: a negative one counts from the last; "strongest" takes the head that knowledge changes most, of all layers.
    off: names of sources (see `source_names`) that are left out, as if they had found nothing; and, of a model with
        several methods, of methods ("kam"; "method:kam" where a source is called "kam").
    found: what the sources found in this text, from `annotations_of`; None asks them.

    The maps are drawn as the sources gave them, without the row and column that a method may add for [CLS]. Of an
    encoder without sources only the attention is returned: with knowledge and without are the same. Of a model that
    reads its knowledge as text, "without" is the input without what is written, and attention is shown between the
    tokens that both inputs share; what each token pays to the written ones is missing in its row.
    """
    return read(infused, text, pair, off=off, found=found).at(layer, head)


def read(
    infused: Explained,
    text: str,
    pair: str | None = None,
    *,
    off: Collection[str] = (),
    found: Sequence[Annotations] | None = None,
    before: TextReading | None = None,
) -> TextReading:
    """Return what knowledge changed in one text or pair, for every layer and head; see `explain`.

    before: an earlier reading by the same model; if it is of the same text, its part without knowledge is used again.
    """
    switches = Switches.of(infused)
    off = switches.read(off)
    names, methods_off = switches.sources, switches.methods_among(off)
    if found is None:
        found = annotations_of(infused, text, pair)
    on = tuple(_silent(one) if name in off else one for name, one in zip(names, found, strict=True))
    batch = batch_of(infused, text, pair, [on], off=methods_off)
    bare = batch_of(infused, text, pair, [on], bare=True)
    bases = _bases_read(infused, methods_off)
    trace = Trace() if bases else None
    plain, answer_plain = _read_plain(infused.model, bare, before, (text, pair))
    changed, answer_infused = plain, answer_plain
    without: dict[str, Answer] = {}
    gates: dict[str, list[float | None]] = {}
    if names:
        options = {} if trace is None else {"knowledge_trace": trace}
        with watching_gates(infused.model) as gates:
            changed, answer_infused = _run(infused.model, batch, **options)
        without = _answers_without(infused, text, pair, on, switches, off)
    # what is written stands behind the text: the tokens before it are the same with knowledge and without
    n_tokens = n_shared(bare.ids, batch.ids)
    plain, changed = ([layer[:, :n_tokens, :n_tokens] for layer in layers] for layers in (plain, changed))
    maps = dict(zip(names, token_maps(bare.tensors, len(names), n_tokens), strict=True)) if names else {}
    terms = bare.tensors.get("knowledge_terms")
    moved = share_moved(plain, changed)
    (written,) = batch.written
    about = Explanation(
        words=token_labels(infused.tokenizer, text, pair, bare.ids)[:n_tokens],
        terms=[] if terms is None else list(infused.tokenizer.convert_ids_to_tokens(terms[0].tolist())),
        maps={name: drawn for name, drawn in maps.items() if name not in off},
        plain=_attention(plain, -1, None),
        infused=_attention(changed, -1, None),
        layer=len(plain) - 1,
        text=text,
        pair=pair,
        answer_plain=answer_plain.shares,
        answer_infused=answer_infused.shares,
        answers_without={name: one.shares for name, one in without.items() if one.shares is not None},
        entities_plain=answer_plain.entities,
        entities_infused=answer_infused.entities,
        entities_without={name: one.entities for name, one in without.items() if one.entities is not None},
        found=dict(zip(names, found, strict=True)),
        written=written,
        off=off,
        changes=mean_share(moved),
        # attention to written tokens is not a runaway head
        runaway=() if written else runaway_heads(moved, words_without_knowledge(bare.tensors, infused.tokenizer)),
        gates={place: shares[:n_tokens] for place, shares in gates.items()},
        mentions=() if trace is None else _mentions(bases, on, batch.tensors, trace),
    )
    return TextReading(about, plain, changed)


def annotations_of(infused: Explained, text: str, pair: str | None = None) -> tuple[Annotations, ...]:
    """Return what each source finds in one text or pair."""
    return collator_of(infused).annotate([text], None if pair is None else [pair])[0]


def _silent(found: Annotations) -> Annotations:
    """Return the annotations of a source that found nothing."""
    return Annotations(found.text)


def _read_plain(
    model: PreTrainedModel,
    bare: TextBatch,
    before: TextReading | None,
    sides: tuple[str, str | None],
) -> tuple[Sequence[Tensor], Answer]:
    """Return attention and answer without knowledge, from an earlier reading of the same text if there is one."""
    # a truncated reading cannot be reused
    whole = before is not None and before.plain[0].shape[-1] == len(bare.ids)
    if before is not None and whole and (before.about.text, before.about.pair) == sides:
        known = before.about.answer_plain
        return before.plain, Answer(None if known is None else dict(known), before.about.entities_plain)
    tokens = {name: tensor for name, tensor in bare.tensors.items() if not name.startswith("knowledge_")}
    return _run(model, replace(bare, tensors=tokens))


def _run(model: PreTrainedModel, batch: TextBatch, **options: Any) -> tuple[Sequence[Tensor], Answer]:
    """Return the attention of every layer, (heads, seq, seq) each, and the answer."""
    with answering(model), showing_weights(model):  # dropout would blur what is compared
        out = model(**batch.tensors, output_attentions=True, **batch.options, **options)
        said = read_answers(model, out.logits, batch.words)[0] if answers_texts(model) else Answer()
    return [of_layer[0] for of_layer in out.attentions], said


def _choose(layer: Layer, head: int | None, changes: NDArray[np.float64]) -> tuple[int, int | None]:
    """Return the layer and the head that were asked for, counted from 0."""
    n_layers, n_heads = changes.shape
    if layer == "strongest":
        if changes.max() <= ROUNDING:
            return n_layers - 1, None
        strongest = int(changes.argmax())
        return strongest // n_heads, strongest % n_heads
    return _within(layer, n_layers, "layer"), None if head is None else _within(head, n_heads, "head")


def _within(number: int, n: int, what: str) -> int:
    if not -n <= number < n:
        raise InputError(f"There is no {what} {number}: this model has {n} of them, 0 to {n - 1}.")
    return number % n


def _attention(layers: Sequence[Tensor], layer: int, head: int | None) -> NDArray[np.float64]:
    heads = layers[layer].double()  # (heads, seq, seq)
    chosen: NDArray[np.float64] = (heads.mean(dim=0) if head is None else heads[head]).cpu().numpy()
    return chosen


def _answers_without(
    infused: Explained,
    text: str,
    pair: str | None,
    found: Sequence[Annotations],
    switches: Switches,
    off: Collection[str],
) -> dict[str, Answer]:
    """Return the answer without each source that is on, all in one batch, and without each method that is on."""
    if not answers_texts(infused.model):
        return {}
    left_out = [place for place, name in enumerate(switches.sources) if name not in off]
    rows = [[_silent(one) if place == out else one for place, one in enumerate(found)] for out in left_out]
    calls = [([switches.sources[place] for place in left_out], rows, off)] if left_out else []
    calls += [([name], [list(found)], (*off, name)) for name in switches.methods if name not in off]
    answers: dict[str, Answer] = {}
    with answering(infused.model):
        for names, of_call, without in calls:
            batch = batch_of(infused, text, pair, of_call, off=switches.methods_among(without))
            out = infused.model(**batch.tensors, **batch.options)
            answers |= zip(names, read_answers(infused.model, out.logits, batch.words), strict=True)
    return answers


def _bases_read(infused: Explained, methods_off: Collection[str]) -> dict[int, tuple[str, Any]]:
    """Return name and new weights of each knowledge base whose entities a method reads, by the source's place."""
    weights: dict[str, Any] = {}
    for method in methods_of(infused.method) if isinstance(infused, Infused) else ():
        if isinstance(method, HasBases) and name_of(method) not in methods_off:
            weights |= method.bases(infused.model)
    bases = {place: base.name for place, base in bases_among(infused.sources).items()}
    return {place: (name, weights[name]) for place, name in bases.items() if name in weights}


def _mentions(
    bases: Mapping[int, tuple[str, Any]], found: Sequence[Annotations], batch: dict[str, Tensor], trace: Trace
) -> tuple[Mention, ...]:
    """Return what each knowledge base's mentions may mean, and what the model made of it."""
    from infuser.linking.inference import mentions_in
    from infuser.linking.mentions import chosen_by_weight, without_overlaps

    mentions: list[Mention] = []
    for place, (name, layer) in bases.items():
        threshold = layer.threshold if isinstance(layer, KarLayer) else None
        of_base = mentions_in(name, 0, found[place], batch, trace, -np.inf if threshold is None else threshold)
        # a linker decides by its threshold; without one, what was put into the text says what was chosen
        of_base = without_overlaps(of_base) if threshold is not None else [chosen_by_weight(one) for one in of_base]
        mentions += sorted(of_base, key=lambda one: (one.start, one.end))
    return tuple(mentions)
