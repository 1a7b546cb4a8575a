"""Several methods in one host: each switched off alone, taken out, saved, and refused where they do not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from miniatures import TEXTS, Repeats, tiny_host, tiny_tokenizer
from tiny_infusions import answer, examples, infuse_tiny, plain, shake, sources_for, tiny_base
from torch import Tensor

import infuser
from infuser import Arm, Ernie, Kam, Kar, Types
from infuser.errors import HostError, InputError, SourceError
from infuser.experiments.arm import make_method
from infuser.methods import Text, Together
from infuser.methods.together import describe, name_of
from infuser.types import Method

PAIRS: list[tuple[Method, Method]] = [(Types(), Kam()), (Types(), Kar()), (Kam(), Ernie()), (Kar(), Kam())]
both = pytest.mark.parametrize("methods", PAIRS, ids=[name_of(Together(pair)) for pair in PAIRS])
hosts = pytest.mark.parametrize("host", ["bert", "albert", "modernbert"])


def states(infused: infuser.Infused, batch: dict[str, Tensor], **options: Any) -> Tensor:
    with torch.no_grad():
        return answer(infused.model, {**batch, **options})


def infused_by(host: str, method: Method | tuple[Method, ...], like: infuser.Infused) -> infuser.Infused:
    """Return a host of three layers with one method or several, and as many of the weights of another as it has."""
    model = tiny_host(host, num_hidden_layers=3)
    made = infuser.infuse(model, method, sources=like.sources, tokenizer=like.tokenizer)
    weights = like.model.state_dict()
    model.load_state_dict({name: weights[name] for name in model.state_dict()})
    return made


@both
@hosts
def test_a_method_that_is_switched_off_leaves_the_model_with_only_the_other(
    host: str, methods: tuple[Method, Method]
) -> None:
    together = infuse_tiny(host, method=Together(methods), num_hidden_layers=3)
    batch = together.collator()(examples("encoder"))
    whole = states(together, batch)
    for kept, off in (methods, methods[::-1]):
        alone = infused_by(host, kept, together)
        without = states(together, batch, knowledge_off=[name_of(off)])
        assert torch.equal(without, states(alone, batch))
        assert (without - whole).abs().max() > 1e-3
    names = [name_of(method) for method in methods]
    assert torch.equal(states(together, batch, knowledge_off=names), states(together, plain(batch)))


def test_switching_off_a_method_that_is_not_there_is_a_clear_error() -> None:
    infused = infuse_tiny("bert", method="together")
    with pytest.raises(InputError, match="no method 'kar' to switch off: this model has types, kam"):
        infused.model(**infused.batch(TEXTS), knowledge_off=["kar"])


def hooks(model: Any) -> int:
    return sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules())


@both
@hosts
def test_detach_takes_every_method_out(host: str, methods: tuple[Method, Method]) -> None:
    fresh = tiny_host(host)
    infused = infuse_tiny(host, method=Together(methods))
    batch = infused.collator()(examples("encoder"))
    model = infused.detach()
    assert list(model.state_dict()) == list(fresh.state_dict())
    assert hooks(model) == hooks(fresh)
    assert model.config._attn_implementation == fresh.config._attn_implementation
    assert torch.equal(states(infused, plain(batch)), answer(fresh, plain(batch)))


@pytest.mark.parametrize("methods", [*PAIRS, (Types(), Ernie())], ids=lambda pair: name_of(Together(pair)))
@hosts
def test_a_method_takes_out_only_what_it_put_in(host: str, methods: tuple[Method, Method]) -> None:
    like = infuse_tiny(host, method=Together(methods), num_hidden_layers=3)
    for kept, gone in (methods, methods[::-1]):
        together, alone = (infused_by(host, method, like) for method in (methods, kept))
        batch = alone.collator()(examples("encoder"))
        gone.detach(together.model)
        assert hooks(together.model) == hooks(alone.model)
        assert torch.equal(states(together, batch), states(alone, batch))
        assert not torch.equal(states(together, batch), states(together, plain(batch)))
        gone.attach(together.model, sources=together.sources, vocabulary=together.vocabulary)  # there is room again


@pytest.mark.parametrize(
    ("methods", "sources", "error"),
    [
        ((Types(), Kar()), [Repeats()], SourceError),
        ((Kam(), Types(vectors="names")), [Repeats()], SourceError),
        ((Types(), Kam(first_layer=9)), [Repeats()], InputError),
        ((Kar(), Ernie()), [tiny_base()], HostError),
    ],
    ids=["no base", "no terms", "no such layer", "one place"],
)
def test_a_second_method_that_does_not_fit_leaves_the_host_as_it_was(
    methods: tuple[Method, Method], sources: list[Any], error: type[Exception]
) -> None:
    host, fresh = tiny_host("bert"), tiny_host("bert")
    with pytest.raises(error):
        infuser.infuse(host, methods, sources=sources, tokenizer=tiny_tokenizer("bert"))
    assert list(host.state_dict()) == list(fresh.state_dict()) and hooks(host) == hooks(fresh)
    assert host.config._attn_implementation == fresh.config._attn_implementation
    infuser.infuse(host, methods[0], sources=sources, tokenizer=tiny_tokenizer("bert"))


def test_settings_of_all_methods_are_saved_and_loaded(tmp_path: Path) -> None:
    methods = [Types(vectors="both", where="top"), Kam(alpha=0.3, kernel_size=1)]
    source = infuser.Entities({"Bern": "city", "river": "water"}, n_terms=1)
    infused = infuser.infuse(tiny_host("bert"), methods, sources=source, tokenizer=tiny_tokenizer("bert"))
    shake(infused.model)
    infused.save(tmp_path / "saved")
    again = infuser.load(tmp_path / "saved")
    assert again.method == infused.method == Together(tuple(methods))
    assert again.vocabulary == infused.vocabulary
    batch = infused.batch(["Bern lies on the river"])
    assert torch.equal(states(again, batch), states(infused, batch))


WITH_TEXT = [(Text(share=0.5), Kam()), (Types(), Text(share=0.5))]


@pytest.mark.parametrize("methods", WITH_TEXT, ids=lambda pair: name_of(Together(pair)))
@hosts
def test_knowledge_as_text_beside_another_method_is_saved_and_taken_out(
    host: str, methods: tuple[Method, Method], tmp_path: Path
) -> None:
    source, texts = infuser.Entities({"Bern": "city", "river": "water"}), ["Bern lies on the river", "the old town"]
    tokenizer, fresh = tiny_tokenizer(host), tiny_host(host)
    infused = infuser.infuse(tiny_host(host), methods, sources=source, tokenizer=tokenizer)
    shake(infused.model)
    batch = infused.batch(texts)
    assert batch["input_ids"].shape[1] > tokenizer(texts, padding=True, return_tensors="pt")["input_ids"].shape[1]
    assert (states(infused, batch) - states(infused, plain(batch))).abs().max() > 1e-3
    infused.save(tmp_path / "saved")
    again = infuser.load(tmp_path / "saved")
    assert again.method == Together(methods)
    repeated = again.batch(texts)
    assert repeated.keys() == batch.keys() and all(torch.equal(repeated[name], batch[name]) for name in batch)
    assert torch.equal(states(again, repeated), states(infused, batch))
    model = infused.detach()
    assert list(model.state_dict()) == list(fresh.state_dict()) and hooks(model) == hooks(fresh)
    assert model.config._attn_implementation == fresh.config._attn_implementation
    assert torch.equal(states(infused, plain(batch)), answer(fresh, plain(batch)))


@pytest.mark.parametrize("methods", WITH_TEXT, ids=lambda pair: name_of(Together(pair)))
def test_knowledge_as_text_is_taken_out_alone_and_leaves_the_other_method(methods: tuple[Method, Method]) -> None:
    infused = infuse_tiny("bert", method=Together(methods))
    batch = infused.collator(writer=None)(examples("encoder"))
    [text] = [one for one in methods if isinstance(one, Text)]
    [other] = [one for one in methods if one is not text]
    before = states(infused, batch)
    text.detach(infused.model)
    assert torch.equal(states(infused, batch), before)
    text.attach(infused.model, sources=infused.sources, vocabulary=infused.vocabulary)
    other.detach(infused.model)
    assert torch.equal(states(infused, batch), states(infused, plain(batch)))


@pytest.mark.parametrize("methods", [(), (Kam(),), (Kam(), Kam(alpha=0.5)), (Types(), Together((Types(), Kam())))])
def test_only_two_or_more_different_methods_go_together(methods: tuple[Method, ...]) -> None:
    with pytest.raises(InputError, match="two or more different methods"):
        Together(methods)


def test_a_list_of_one_method_is_that_method() -> None:
    sources = sources_for("kam")
    infused = infuser.infuse(tiny_host("bert"), [Kam()], sources=sources, tokenizer=tiny_tokenizer("bert"))
    assert infused.method == Kam()


def test_an_arm_names_its_methods_in_one_word_or_as_a_list() -> None:
    sources = [infuser.Entities.tiny()]
    named, listed = Arm("types+kam", sources), Arm([Types(), Kam()], sources)
    assert named.method == listed.method == Together((Types(), Kam()))
    assert (named.name, named.kind) == ("types+kam", "types+kam")
    assert named.describe() == listed.describe()
    assert named.describe()["method"] == {"kind": "together", "methods": [describe(Types()), describe(Kam())]}
    assert Arm("types+kar", sources).method.methods[1].threshold == -100.0  # a linker that was never trained


def test_settings_stand_behind_the_name_of_their_method() -> None:
    sources = [infuser.Entities.tiny()]
    arm = Arm("types,vectors=learned,step=1e+2+kam,channels=types", sources)
    assert arm.method == Together((Types(vectors="learned", step=100.0), Kam(channels="types")))
    assert Arm("kam,limit=2.5", sources).method == Kam(limit=2.5)
    with pytest.raises(InputError, match=r"types has no setting 'vector'\. Did you mean 'vectors'"):
        Arm("types,vector=names", sources)
    assert Arm("types + kam", sources).method == Together((Types(), Kam()))
    with pytest.raises(InputError, match="kam takes true or false for bypass_empty, not 'yes'"):
        Arm("kam,bypass_empty=yes", sources)
    with pytest.raises(InputError, match=r"'alpha' could belong to each of types\+kam"):
        make_method("types+kam", {"alpha": 0.1})


def test_a_base_is_frozen_through_the_method_that_holds_it() -> None:
    infused = infuse_tiny("bert", method=Together((Types(), Kar())))
    infused.freeze("places")
    assert not any(weight.requires_grad for weight in infused.model.knowledge["places"].parameters())


def test_one_knowledge_base_of_several_methods_cannot_be_taken_out() -> None:
    infused = infuser.infuse(
        tiny_host("bert"), [Types(), Kar()], sources=sources_for("kar"), tokenizer=tiny_tokenizer("bert")
    )
    with pytest.raises(InputError, match="types\\+kar cannot give up one source"):
        infused.without("places")


def test_a_method_is_switched_off_by_its_name_alone() -> None:
    infused = infuse_tiny("bert", method=Together((Types(), Kam())))
    batch = infused.batch(TEXTS)
    with torch.no_grad():
        listed, alone = (infused.model(**batch, knowledge_off=off).last_hidden_state for off in (["kam"], "kam"))
    assert torch.equal(listed, alone)
