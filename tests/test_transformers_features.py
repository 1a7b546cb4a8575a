"""An infused model works where transformers works: checkpointing, mixed precision, compile, attentions, embeddings."""

from __future__ import annotations

import shutil
import subprocess
import sys
from multiprocessing.reduction import ForkingPickler  # how a process hands a model to another
from typing import Any

import pytest
import torch
from gradients import assert_bf16_is_close_and_trains, assert_compiled_model_learns_alike, gradients, without_dropout
from miniatures import CAN_AUTOCAST, CAN_CHECKPOINT, COUNT_FROM_PADDING, HEADS, HOSTS, every_host_and_head, tiny_host
from tiny_infusions import KNOWN_TEXT, answer, examples, infuse_tiny, plain, real_part

import infuser
from infuser.errors import HostError, InputError
from infuser.hosts import is_new_weight


def trainable(host: str, head: str, **changes: Any) -> infuser.Infused:
    return without_dropout(infuse_tiny(host, head, **changes))


@pytest.mark.parametrize("host", CAN_CHECKPOINT)
def test_gradient_checkpointing_gives_the_same_gradients(host: str) -> None:
    infused = trainable(host, "token-classification", num_hidden_layers=3)
    batch = infused.collator()(examples("token-classification"))
    assert "knowledge_terms" in batch
    expected = gradients(infused.model, batch, "token-classification")
    infused.model.gradient_checkpointing_enable()
    assert infused.model.is_gradient_checkpointing
    found = gradients(infused.model, batch, "token-classification")
    assert found.keys() == expected.keys()
    assert any(name.endswith("gate") for name in found)  # the residual link leads from layer to layer
    assert any(name.endswith("knowledge.term_gates") for name in found)
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, atol=1e-12, rtol=1e-9, msg=name)


def test_reentrant_checkpointing_is_refused_where_it_would_lose_the_residual_link() -> None:
    infused = trainable("bert", "token-classification", num_hidden_layers=3)
    batch = infused.collator()(examples("token-classification"))
    infused.model.gradient_checkpointing_enable({"use_reentrant": True})
    with pytest.raises(InputError, match="use_reentrant"):
        gradients(infused.model, batch, "token-classification")


def test_dropout_is_applied_in_training_only() -> None:
    infused = infuse_tiny("bert", attention_probs_dropout_prob=0.5, hidden_dropout_prob=0.0)
    batch = infused.batch([KNOWN_TEXT])
    assert not any(module.training for module in infused.model.modules())
    assert torch.equal(answer(infused.model, batch), answer(infused.model, batch))
    infused.model.train()
    assert not torch.equal(answer(infused.model, batch), answer(infused.model, batch))


@pytest.mark.parametrize("host", CAN_AUTOCAST)
def test_bf16_autocast_is_close_and_trains(host: str) -> None:
    assert_bf16_is_close_and_trains(infuse_tiny(host, "sequence-classification", initializer_range=0.1))


@pytest.mark.parametrize("host", CAN_AUTOCAST)
def test_bf16_autocast_reads_long_texts_without_gradients(host: str) -> None:
    infused = infuse_tiny(host, initializer_range=0.1, max_position_embeddings=130)
    infused.tokenizer.model_max_length = 120
    infused.model.float()
    batch = infused.batch([f"{KNOWN_TEXT} " * 20, KNOWN_TEXT])
    assert batch["input_ids"].shape[1] > 100  # long enough to be read in tiles
    with torch.no_grad():
        exact = real_part(answer(infused.model, batch), batch, "encoder")
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found = real_part(answer(infused.model, batch), batch, "encoder")
    assert (found - exact).norm() < 0.1 * exact.norm()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_model_in_half_precision_reads_knowledge(dtype: torch.dtype) -> None:
    infused = infuse_tiny("bert", initializer_range=0.1)
    batch = infused.batch([KNOWN_TEXT, "cheap medicine"])
    with torch.no_grad():
        exact = real_part(answer(infused.model, batch), batch, "encoder")
        found = real_part(answer(infused.model.to(dtype), batch), batch, "encoder")
    assert found.dtype == dtype
    assert (found.double() - exact).norm() < 0.05 * exact.norm()


def test_torch_compile_gives_the_same_answer_and_gradients() -> None:
    infused = trainable("bert", "sequence-classification")
    batch = infused.collator()(examples("sequence-classification"))
    told = answer(infused.model, batch)
    compiled = assert_compiled_model_learns_alike(infused, batch, "sequence-classification")
    torch.testing.assert_close(answer(compiled, batch), told, atol=1e-10, rtol=1e-7)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile's own backend needs a C++ compiler")
def test_torch_compile_with_its_own_backend_gives_the_same_answer() -> None:
    infused = infuse_tiny("bert")
    infused.model.float()
    batch = infused.batch([KNOWN_TEXT, "cheap medicine"])
    torch._dynamo.reset()
    compiled: Any = torch.compile(infused.model)
    with torch.no_grad():
        expected = real_part(answer(infused.model, batch), batch, "encoder")
        found = real_part(answer(compiled, batch), batch, "encoder")
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("host", HOSTS)
def test_attentions_come_out_for_every_layer_and_head(host: str) -> None:
    infused = infuse_tiny(host, "sequence-classification", terms=False)
    batch = infused.collator()(examples("sequence-classification"))
    n_rows, n_tokens = batch["input_ids"].shape
    with torch.no_grad():
        out = infused.model(**batch, output_attentions=True)
        without = infused.model(**plain(batch), output_attentions=True)
        assert torch.equal(out.logits, infused.model(**batch).logits)
    assert len(out.attentions) == infused.model.config.num_hidden_layers
    real = batch["attention_mask"].bool()
    for attention, before in zip(out.attentions, without.attentions, strict=True):
        assert attention.shape == before.shape == (n_rows, 2, n_tokens, n_tokens)
        sums = attention.sum(-1).transpose(1, 2)[real]
        torch.testing.assert_close(sums, torch.ones_like(sums))
        on_padding = attention.transpose(1, 3)[~real]  # (padding, query, heads)
        assert (on_padding.transpose(1, 2)[..., 0] < 1e-12).all()
        assert (attention - before).abs().max() > 1e-3


@pytest.mark.parametrize("host", HOSTS)
def test_attentions_without_knowledge_are_those_of_the_plain_host(host: str) -> None:
    infused = infuse_tiny(host, attn_implementation="sdpa")
    batch = plain(infused.batch([KNOWN_TEXT, "the old town"]))
    eager = tiny_host(host, attn_implementation="eager")
    with torch.no_grad():
        found = infused.model(**batch, output_attentions=True).attentions
        if host == "modernbert":  # its own eager attention turns float64 with padding into NaN
            batch = {name: tensor[:1] for name, tensor in batch.items()}
        expected = eager(**batch, output_attentions=True).attentions
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours[: len(theirs)], theirs, atol=1e-12, rtol=0)
        assert ours.isfinite().all()


@pytest.mark.parametrize("host", HOSTS)
def test_attentions_come_out_when_the_config_asks_for_them(host: str) -> None:
    infused = infuse_tiny(host, attn_implementation="eager")
    infused.model.config._output_attentions = True
    batch = infused.batch([KNOWN_TEXT])
    with torch.no_grad():
        out = infused.model(**batch)
        asked = infused.model(**batch, output_attentions=True)
    assert len(out.attentions) == infused.model.config.num_hidden_layers
    assert all(torch.equal(one, other) for one, other in zip(out.attentions, asked.attentions, strict=True))


@pytest.mark.parametrize("host", HOSTS)
def test_hidden_states_come_out_for_every_layer(host: str) -> None:
    infused = infuse_tiny(host)
    batch = infused.batch([KNOWN_TEXT])
    with torch.no_grad():
        states = infused.model(**batch, output_hidden_states=True).hidden_states
        before = infused.model(**plain(batch), output_hidden_states=True).hidden_states
    assert len(states) == infused.model.config.num_hidden_layers + 1
    assert torch.equal(states[0], before[0])
    assert (states[1] - before[1]).abs().max() > 1e-3


@pytest.mark.parametrize("host", HOSTS)
def test_embeddings_in_place_of_ids_give_the_same_answer(host: str) -> None:
    infused = infuse_tiny(host)
    batch = infused.batch([KNOWN_TEXT, "the old bridge of the city"])
    embedded = dict(batch)
    ids = embedded.pop("input_ids")
    embedded["inputs_embeds"] = infused.model.get_input_embeddings()(ids)
    if host == "esm":  # it takes them for all that its embeddings do
        embedded["inputs_embeds"] = infused.model.embeddings(ids, batch["attention_mask"])
    elif host in COUNT_FROM_PADDING:
        n_before = ids.ne(infused.tokenizer.pad_token_id).long()
        embedded["position_ids"] = n_before.cumsum(1) * n_before + infused.tokenizer.pad_token_id
    with torch.no_grad():
        expected, found = answer(infused.model, batch), answer(infused.model, embedded)
    assert (real_part(found, batch, "encoder") - real_part(expected, batch, "encoder")).abs().max() < 1e-12


@pytest.mark.parametrize("host", [host for host, head in every_host_and_head() if head == "multiple-choice"])
def test_multiple_choice_reads_each_choice_as_if_it_came_alone(host: str) -> None:
    infused = infuse_tiny(host, "multiple-choice")
    rows = examples("multiple-choice")
    batch = infused.collator()(rows)
    assert batch["knowledge_boxes"].dim() == 4
    with torch.no_grad():
        together = answer(infused.model, batch)
        assert together.shape == (len(rows), 2)
        for i, row in enumerate(rows):
            for j in range(2):
                one = infused.collator()([{"text": [row["text"][j]], "pair": [row["pair"][j]]}])
                assert (answer(infused.model, one)[0, 0] - together[i, j]).abs() < 1e-9


@pytest.mark.parametrize("head", HEADS)
def test_inputs_may_be_given_by_position(head: str) -> None:
    infused = infuse_tiny("bert", head)
    batch = infused.collator()(examples(head))
    with torch.no_grad():
        expected = infused.model(**batch)[0]
        rest = {name: tensor for name, tensor in batch.items() if name not in ("input_ids", "attention_mask")}
        found = infused.model(batch["input_ids"], batch["attention_mask"], **rest)[0]
    assert torch.equal(found, expected)


def test_a_batch_without_mask_is_a_batch_without_padding() -> None:
    infused = infuse_tiny("bert")
    batch = infused.batch([KNOWN_TEXT])
    with torch.no_grad():
        expected = answer(infused.model, batch)
        del batch["attention_mask"]
        assert (answer(infused.model, batch) - expected).abs().max() < 1e-12


def test_a_mask_of_other_shape_is_refused() -> None:
    infused = infuse_tiny("bert")
    batch = infused.batch([KNOWN_TEXT])
    batch["attention_mask"] = batch["attention_mask"][:, None, None]
    with pytest.raises(InputError, match=r"shape \(batch, seq\)"):
        infused.model(**batch)


def test_attention_that_was_exchanged_later_does_not_ignore_knowledge_silently() -> None:
    infused = infuse_tiny("bert")
    batch = infused.batch([KNOWN_TEXT])
    infused.model.set_attn_implementation("eager")
    with pytest.raises(HostError, match="'eager', which cannot read it"):
        infused.model(**batch)
    infused.model.set_attn_implementation("infuser_sdpa")
    assert (answer(infused.model, batch) - answer(infused.model, plain(batch))).abs().max() > 1e-3


@pytest.mark.parametrize("host", HOSTS)
def test_a_direct_call_of_forward_does_not_ignore_knowledge_silently(host: str) -> None:
    infused = infuse_tiny(host)
    batch = infused.batch([KNOWN_TEXT])
    with pytest.raises(HostError, match=r"model\(\*\*batch\)"):
        infused.model.forward(**batch)
    old = {**plain(batch), "knowledge_maps": batch["knowledge_boxes"]}  # the key of earlier versions
    with pytest.raises(HostError, match=r"model\(\*\*batch\)"):
        infused.model.forward(**old)
    infused.model.forward(**plain(batch))
    classifier = infuse_tiny(host, "sequence-classification").model  # its encoder is called by its own forward
    assert torch.equal(classifier.forward(**batch).logits, classifier(**batch).logits)


@pytest.mark.parametrize("host", HOSTS)
def test_a_model_can_be_handed_to_another_process(host: str) -> None:
    infused = infuse_tiny(host)
    batch = infused.batch([KNOWN_TEXT, "the old town"])
    arrived = ForkingPickler.loads(bytes(ForkingPickler.dumps(infused.model)))
    with torch.no_grad():
        assert torch.equal(answer(arrived, batch), answer(infused.model, batch))


def test_the_attention_functions_are_there_as_soon_as_hosts_are_imported() -> None:
    code = (
        "import infuser.hosts\n"
        "from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS as masks\n"
        "from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS as attentions\n"
        "print([f'infuser_{plain}' in table for table in (masks, attentions) for plain in ('sdpa', 'eager')])"
    )
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert child.stdout == "[True, True, True, True]\n"


def test_new_weights_follow_the_model_to_another_type() -> None:
    infused = infuse_tiny("bert")
    infused.model.to(torch.float32)
    assert {w.dtype for name, w in infused.model.named_parameters() if is_new_weight(name)} == {torch.float32}
