"""What every registered method keeps, on every host and with every head: the invariants of all methods.

Float64 and wide weights: a real change is large here, and rounding is below 1e-12.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from miniatures import FIRST_HOSTS, HEADS, HOSTS, N_POSITIONS, ROTARY, every_host_and_head, tiny_host, tiny_tokenizer
from safetensors.torch import save_file
from tiny_infusions import (
    KNOWN_TEXT,
    VARIANTS,
    answer,
    examples,
    holds_knowledge,
    infuse_tiny,
    loss,
    method_called,
    per_token,
    plain,
    reads_entities,
    real_part,
    shake,
)
from torch import Tensor
from transformers import PreTrainedModel

import infuser
from infuser.errors import InputError
from infuser.hosts import is_new_weight
from infuser.methods import kam, kam_scores
from infuser.methods.together import name_of
from infuser.registry import METHODS
from infuser.signals.candidates import bases_among
from infuser.types import GivesUpBases, HasBases, HasLinkers, Method

CLAIMS: dict[str, set[type]] = {
    "types": set(),
    "kam": set(),
    "kar": {HasBases, HasLinkers, GivesUpBases},
    "ernie": {HasBases},
    "text": set(),
    "together": set(),
}
"""What each method offers beyond `attach` and `detach`."""

VARIED_HOSTS = ("bert", "albert", "modernbert", "deberta-v2")
"""Where the variants are tried: one of each kind of block, and one that makes its scores itself."""

INSIDE = [name for name in METHODS if name != "text"]
"""Methods with weights inside the encoder; `Text` has none, and its knowledge is part of the text."""


def on_hosts(places: Iterable[tuple[str, ...]], methods: Sequence[str]) -> list[tuple[str, ...]]:
    """Return every place with every method and, on a few hosts, with every variant.

    Of the hosts that came later, every head and every method is taken, but not every pair of them.
    """
    places = list(places)
    first = [place for place in places if place[0] in FIRST_HOSTS]
    pairs = list(itertools.product(first, methods))
    pairs += [(place, method) for place in first for method in VARIANTS if place[0] in VARIED_HOSTS]
    for host in HOSTS[len(FIRST_HOSTS) :]:
        of_host = [place for place in places if place[0] == host]
        n, turn = max(len(of_host), len(methods)), HOSTS.index(host)
        pairs += [(of_host[i % len(of_host)], methods[(i + turn) % len(methods)]) for i in range(n)]
        pairs += [(of_host[0], method) for method in VARIANTS if host in VARIED_HOSTS]
    return [(*place, method) for place, method in pairs]


every_method = pytest.mark.parametrize("method", [*INSIDE, *VARIANTS])
every_registered_method = pytest.mark.parametrize("method", list(METHODS))
PLACES = every_host_and_head()
everywhere = pytest.mark.parametrize(("host", "head", "method"), on_hosts(PLACES, INSIDE))
everywhere_with_text = pytest.mark.parametrize(("host", "head", "method"), on_hosts(PLACES, list(METHODS)))
on_every_host = pytest.mark.parametrize(("host", "method"), on_hosts([(host,) for host in HOSTS], INSIDE))


def test_the_methods_are_registered() -> None:
    assert {"ernie", "kam", "kar", "text", "together", "types"} <= set(METHODS)


@every_registered_method
def test_a_method_offers_what_it_claims_and_the_rest_is_a_clear_error(method: str) -> None:
    infused = infuse_tiny("bert", method=method)
    offered = {protocol for protocol in (HasBases, HasLinkers, GivesUpBases) if isinstance(infused.method, protocol)}
    assert isinstance(infused.method, Method)
    assert offered == CLAIMS[method]
    names = [base.name for base in bases_among(infused.sources).values()]
    if isinstance(infused.method, HasBases):
        assert list(infused.method.bases(infused.model)) == names
    if isinstance(infused.method, HasLinkers):
        assert all(layer.linker is not None for layer in infused.method.linkers(infused.model).values())
    if isinstance(infused.method, GivesUpBases):
        left = infused.without(names[0])
        assert [base.name for base in bases_among(left.sources).values()] == names[1:]
    else:
        with pytest.raises(InputError, match=rf"{re.escape(name_of(infused.method))} cannot give up one source"):
            infused.without("base")
    with pytest.raises(InputError, match="There is no knowledge base 'nobody'"):
        infused.freeze("nobody")


# 1. No knowledge, no change.


@everywhere
def test_text_without_knowledge_is_read_as_before_whatever_the_new_weights_are(
    host: str, head: str, method: str
) -> None:
    infused = infuse_tiny(host, head, method)
    batch = infused.collator()(examples(head))
    with torch.no_grad():
        before = answer(tiny_host(host, head), plain(batch))
        assert (answer(infused.model, plain(batch)) - before).abs().max() <= 1e-12
        changed = (answer(infused.model, batch) - before).abs()
    assert changed.max() > 1e-2  # and knowledge does change the answer


@every_method
def test_text_without_knowledge_is_read_as_before_in_float32(method: str) -> None:
    infused = infuse_tiny("bert", "sequence-classification", method)
    batch = infused.collator()(examples("sequence-classification"))
    infused.model.float()
    host = tiny_host("bert", "sequence-classification").float()
    with torch.no_grad():
        assert (answer(infused.model, plain(batch)) - answer(host, plain(batch))).abs().max() <= 1e-6
        assert (answer(infused.model, batch) - answer(host, plain(batch))).abs().max() > 1e-2


def anatomy(model: PreTrainedModel) -> dict[str, Any]:
    """Return everything about a model that an infusion could leave behind."""
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_forward_pre_hooks_with_kwargs", "_forward_hooks_with_kwargs")
    return {
        "modules": [(name, type(module)) for name, module in model.named_modules()],
        "state": {name: tensor.clone() for name, tensor in model.state_dict().items()},
        "hooks": [(name, hook, len(getattr(m, hook))) for name, m in model.named_modules() for hook in hooks],
        "attributes": {name: sorted(module.__dict__) for name, module in model.named_modules()},
        "attention": [m.config._attn_implementation for m in model.modules() if isinstance(m, PreTrainedModel)],
        "config": model.config.to_dict(),
        "trains": [(name, weight.requires_grad) for name, weight in model.named_parameters()],
    }


@everywhere_with_text
def test_detach_gives_the_host_back(host: str, head: str, method: str) -> None:
    # ModernBERT's own eager attention turns float64 with much padding into NaN
    attention = "eager" if HEADS.index(head) % 2 and host != "modernbert" else "sdpa"
    before = anatomy(tiny_host(host, head, attn_implementation=attention))
    infused = infuse_tiny(host, head, method, attn_implementation=attention)
    batch = infused.collator()(examples(head))
    with torch.no_grad():
        answer(infused.model, batch)
        model = infused.detach()
        after = anatomy(model)
        state, old_state = after.pop("state"), before.pop("state")
        assert after == before
        assert list(state) == list(old_state)
        assert all(torch.equal(state[name], old_state[name]) for name in state)
        fresh = tiny_host(host, head, attn_implementation=attention)
        assert torch.equal(answer(model, plain(batch)), answer(fresh, plain(batch)))


@every_method
def test_a_host_can_be_infused_again_after_detach(method: str) -> None:
    infused = infuse_tiny("bert", "encoder", method)
    batch = infused.collator()(examples("encoder"))
    first = answer(infused.model, batch)
    torch.manual_seed(0)  # as infuse_tiny did
    again = infuser.infuse(
        infused.detach(), method_called(method), sources=infused.sources, tokenizer=infused.tokenizer
    )
    shake(again.model)
    torch.testing.assert_close(answer(again.model, batch), first, atol=0, rtol=0)


# 2. A fresh infusion answers as before.


@everywhere
def test_fresh_infusion_answers_as_before(host: str, head: str, method: str) -> None:
    infused = infuse_tiny(host, head, method, shaken=False)
    batch = infused.collator()(examples(head))
    assert holds_knowledge(batch)
    with torch.no_grad():
        change = real_part(answer(infused.model, batch) - answer(tiny_host(host, head), plain(batch)), batch, head)
    assert change.abs().max() <= 1e-9


# 3. Company does not matter.

ABSOLUTE = ("bert", "electra", "distilbert", "albert", "ernie", "mobilebert", "megatron-bert", "rembert")
"""Hosts whose own positions count padding on the left; the RoBERTa family does not count it."""


def lay_out(
    infused: infuser.Infused, rows: list[dict[str, Any]], *, widest: bool = False, positioned: Sequence[str] = ABSOLUTE
) -> dict[str, Tensor]:
    """Return a batch; with padding on the left, words of `positioned` hosts keep the positions they have alone."""
    batch = infused.collator(pad_to_multiple_of=N_POSITIONS if widest else None)(rows)
    if infused.tokenizer.padding_side == "left" and infused.model.config.model_type in positioned:
        batch["position_ids"] = (batch["attention_mask"].cumsum(-1) - 1).clamp(min=0)
    return batch


def alone_and_in_company(infused: infuser.Infused, head: str) -> float:
    """Return the largest difference that company makes to any example's answer."""
    rows = examples(head)
    largest = 0.0
    with torch.no_grad():
        for order, widest in ((range(len(rows)), False), (range(len(rows) - 1, -1, -1), True)):
            places = list(order)
            batch = lay_out(infused, [rows[i] for i in places], widest=widest)
            assert not batch["attention_mask"].all()
            together = answer(infused.model, batch)
            for place, i in enumerate(places):
                single = lay_out(infused, [rows[i]])
                alone, among = answer(infused.model, single)[0], together[place]
                if per_token(head):
                    alone = alone[single["attention_mask"][0].bool()]
                    among = among[batch["attention_mask"][place].bool()]
                largest = max(largest, float((alone - among).abs().max()))
    return largest


@everywhere_with_text
def test_company_does_not_matter(host: str, head: str, method: str) -> None:
    assert alone_and_in_company(infuse_tiny(host, head, method), head) <= 1e-9


# transformers' sentence heads read the first position, which is padding if that stands on the left
@pytest.mark.parametrize(
    ("host", "head", "method"),
    on_hosts([(h, head) for h in HOSTS for head in ("encoder", "question-answering") if (h, head) in PLACES], INSIDE),
)
def test_company_does_not_matter_with_padding_on_the_left(host: str, head: str, method: str) -> None:
    # rotations are float32 whatever the host's own type is, EuroBERT's norms too; at other places they round otherwise
    tolerance = 1e-6 if host == "modernbert" else 1e-5 if host in ROTARY else 1e-9
    assert alone_and_in_company(infuse_tiny(host, head, method, padding_side="left"), head) <= tolerance


@on_every_host
def test_the_side_of_padding_does_not_matter(host: str, method: str) -> None:
    answers = []
    for side in ("left", "right"):
        infused = infuse_tiny(host, "encoder", method, padding_side=side)
        batch = lay_out(infused, examples("encoder"), positioned=(*ABSOLUTE, *ROTARY))
        with torch.no_grad():
            answers.append(answer(infused.model, batch)[batch["attention_mask"].bool()])
    assert (answers[0] - answers[1]).abs().max() <= 1e-9


@pytest.mark.parametrize("host", ["bert", "albert", "modernbert"])
def test_company_does_not_matter_when_kam_works_in_tiles(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    infused = infuse_tiny(host)
    batch = infused.collator()(examples("encoder"))
    with torch.no_grad():
        whole = real_part(answer(infused.model, batch), batch, "encoder")
        monkeypatch.setattr(kam_scores, "_WHOLE", 0)
        monkeypatch.setattr(kam_scores, "_TILE_BYTES", 0)
        assert (real_part(answer(infused.model, batch), batch, "encoder") - whole).abs().max() <= 1e-9
    assert alone_and_in_company(infused, "encoder") <= 1e-9


def test_the_check_of_company_would_notice_kam_forgetting_to_zero_padding(monkeypatch: pytest.MonkeyPatch) -> None:
    attend = kam.attend

    def careless(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, knowledge: Any, **options: Any) -> Any:
        everything = torch.ones_like(knowledge.rows)
        return attend(query, key, value, mask, dataclasses.replace(knowledge, rows=everything), **options)

    infused = infuse_tiny("bert")
    assert alone_and_in_company(infused, "encoder") <= 1e-9
    monkeypatch.setattr(kam, "attend", careless)
    assert alone_and_in_company(infused, "encoder") > 1e-4


# 4. Every new weight learns.


def learning_weights(infused: infuser.Infused, head: str, *, sign: int) -> set[str]:
    """Return the names of the new weights that two steps of training, down the loss or up it, move."""
    model = infused.model.train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    new = {name: weight for name, weight in model.named_parameters() if is_new_weight(name)}
    rows = [{"text": KNOWN_TEXT, "pair": "the old pharmacy of the town"}]
    if head == "multiple-choice":
        # the mean over mentions of two texts that are nearly alike would tell them apart by rounding only
        rows = [{"text": [KNOWN_TEXT, "the old town"], "pair": ["the old pharmacy of the town", "the glipizide"]}]
    batch = infused.collator()(rows)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    start = {name: weight.detach().clone() for name, weight in new.items()}
    for _ in range(2):  # gates that start at zero let others learn from the second step on
        optimizer.zero_grad()
        (sign * loss(model, batch, head)).backward()
        optimizer.step()
    return {
        name
        for name, weight in new.items()
        if weight.grad is not None and weight.grad.abs().max() > 1e-12 and not torch.equal(weight, start[name])
    }


@everywhere
def test_every_new_weight_learns(host: str, head: str, method: str) -> None:
    # behind the last block, what is the same for all words says nothing to a head that chooses one of them
    layers = {"num_hidden_layers": 3} if reads_entities(method) else {}
    infused = infuse_tiny(host, head, method, shaken=False, **layers)
    new = {name for name, _ in infused.model.named_parameters() if is_new_weight(name)}
    learn = learning_weights(infused, head, sign=1)
    if any(name.endswith(("name_gates", "term_gates")) for name in new):  # what cannot be negative moves one way only
        learn |= learning_weights(infuse_tiny(host, head, method, shaken=False, **layers), head, sign=-1)
    assert new and learn == new


@pytest.mark.parametrize("host", VARIED_HOSTS)
def test_a_map_of_one_type_learns_from_the_texts_that_hold_this_type_and_from_no_other(host: str) -> None:
    infused = infuse_tiny(host, method="kam-types", shaken=False)
    batch = infused.collator()([{"text": KNOWN_TEXT}])
    loss(infused.model, batch, "encoder").backward()
    n_kinds = len(infused.vocabulary.types[0]) + len(infused.vocabulary.relations[0])  # of the first of two sources
    places = batch["knowledge_boxes"][..., 0] * n_kinds + batch["knowledge_kinds"]
    drawn = set(places[batch["knowledge_weights"] > 0].tolist())
    for name, weight in infused.model.named_parameters():
        if name.endswith("knowledge.maps"):
            assert weight.grad is not None
            moved = weight.grad.abs().amax(dim=(0, 2, 3)) > 1e-12
            assert set(moved.nonzero().flatten().tolist()) == drawn and not moved.all()


# 5. Save, load, same answer.

CHILD = """
import json, sys, torch, infuser
from safetensors.torch import load_file
texts, pairs = json.loads(sys.argv[2])
same = {}
with torch.no_grad():
    for name in json.loads(sys.argv[3]):
        infused = infuser.load(f"{sys.argv[1]}/{name}")
        out = infused.model(**infused.batch(texts, pairs))
        same[name] = all(torch.equal(out[key], told) for key, told in load_file(f"{sys.argv[1]}/{name}.told").items())
print(json.dumps(same))
"""


MAPS = [infuser.Entities.tiny(), infuser.Correlation.tiny(), infuser.Graph.tiny()]
SAVED = {name: [infuser.KnowledgeBase.tiny()] if reads_entities(name) else MAPS for name in [*METHODS, *VARIANTS]}

LATER_SAVED = {
    host: {INSIDE[place % len(INSIDE)], INSIDE[(place + 2) % len(INSIDE)]}
    for place, host in enumerate(HOSTS)
    if host not in FIRST_HOSTS
}
"""Of the hosts that came later, which methods are saved."""


def test_saved_model_gives_the_same_answer_bit_for_bit_in_a_new_process(tmp_path: Path) -> None:
    texts = ["buy glipizide near me", KNOWN_TEXT, "New York lies on the shop"]
    pairs = ["Fred Meyer pharmacy near me", "Bern on the Aare", "a shop"]
    heads = [head for head in HEADS if head != "multiple-choice"]
    names = []
    for host, method in on_hosts([(host,) for host in HOSTS], list(METHODS)):
        if host in LATER_SAVED and method not in LATER_SAVED[host]:
            continue
        number = HOSTS.index(host)
        of_host = [head for head in heads if (host, head) in PLACES]
        head, side = of_host[number % len(of_host)], ("left", "right")[number % 2]
        infused = infuser.infuse(
            tiny_host(host, head),
            method_called(method),
            sources=SAVED[method],
            tokenizer=tiny_tokenizer(host, padding_side=side),
        )
        shake(infused.model)
        if number % 2:
            infused.model.float()
        name = f"{method}-{host}"
        infused.save(tmp_path / name)
        with torch.no_grad():
            out = infused.model(**infused.batch(texts, pairs))
        told = {key: value.contiguous().clone() for key, value in out.items() if isinstance(value, Tensor)}
        assert told
        save_file(told, tmp_path / f"{name}.told")
        names.append(name)
    arguments = [str(tmp_path), json.dumps([texts, pairs]), json.dumps(names)]
    child = subprocess.run([sys.executable, "-c", CHILD, *arguments], capture_output=True, text=True, check=False)
    assert child.returncode == 0, child.stderr
    assert json.loads(child.stdout.splitlines()[-1]) == dict.fromkeys(names, True)
    n_varied = len(set(VARIED_HOSTS) & set(FIRST_HOSTS))
    assert len(names) == len(list(METHODS)) * len(FIRST_HOSTS) + len(VARIANTS) * n_varied + 2 * len(LATER_SAVED)


@on_every_host
def test_a_deep_copy_is_a_model_of_its_own(host: str, method: str) -> None:
    infused = infuse_tiny(host, "encoder", method)
    batch = infused.collator()(examples("encoder"))
    with torch.no_grad():
        before = answer(infused.model, batch)
        twin = copy.deepcopy(infused.model)
        assert torch.equal(answer(twin, batch), before)
        shake(twin, seed=2)
        assert torch.equal(answer(infused.model, batch), before)
        assert not torch.equal(answer(twin, batch), before)
