"""KAR works where transformers works: checkpointing, mixed precision, compile, Trainer, PEFT, pipelines."""

from __future__ import annotations

from multiprocessing.reduction import ForkingPickler  # how a process hands a model to another
from pathlib import Path
from typing import Any

import pytest
import torch
from gradients import assert_bf16_is_close_and_trains, assert_compiled_model_learns_alike, gradients, without_dropout
from miniatures import CAN_AUTOCAST, CAN_CHECKPOINT, HOSTS
from tiny_infusions import KNOWN_TEXT, answer, examples, infuse_tiny, plain, real_part, shake
from torch import Tensor
from transformers import Trainer, TrainingArguments, pipeline

import infuser
from infuser.errors import InputError
from infuser.hosts import is_new_weight
from infuser.methods.entity_reader import Trace

TEXTS = [KNOWN_TEXT, "buy glipizide tablets", "cheap medicine", "the town lies on the old bridge of the city of Bern"]
PAIRS = ["the old pharmacy of the town", "glipizide in a pharmacy near me", "a shop", "a train"]


def trainable(host: str, head: str) -> infuser.Infused:
    return without_dropout(infuse_tiny(host, head, "kar", num_hidden_layers=3, attn_implementation="eager"))


@pytest.mark.parametrize(
    ("host", "reentrant"),
    [
        (host, reentrant)
        for host in CAN_CHECKPOINT
        for reentrant in (False, True)
        if not (reentrant and host == "deberta-v2")  # its blocks share normed positions
    ],
)
def test_gradient_checkpointing_gives_the_same_gradients(host: str, reentrant: bool) -> None:
    head = "sequence-classification"
    infused = trainable(host, head)
    batch = infused.batch([KNOWN_TEXT])  # ModernBERT's own eager attention turns float64 with padding into NaN
    expected = gradients(infused.model, batch, head)
    infused.model.gradient_checkpointing_enable({"use_reentrant": reentrant})
    found = gradients(infused.model, batch, head)
    assert found.keys() == expected.keys()
    assert sum(is_new_weight(name) for name in found) == len(list(infused.model.base_model.knowledge.parameters()))
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, atol=1e-12, rtol=1e-9, msg=name)


def test_a_linkers_loss_reaches_its_weights_through_checkpoints_or_says_that_it_cannot() -> None:
    infused = trainable("bert", "encoder")
    batch = infused.batch(TEXTS)

    def learn() -> Tensor:
        trace = Trace()
        infused.model.zero_grad()
        infused.model(**batch, knowledge_trace=trace)
        trace.scores["places"][batch["knowledge_places_priors"] > 0].sum().backward()
        return infused.model.knowledge["places"].linker.pooling.weight.grad

    expected = learn().clone()
    infused.model.gradient_checkpointing_enable({"use_reentrant": False})
    torch.testing.assert_close(learn(), expected, atol=1e-12, rtol=1e-9)
    infused.model.gradient_checkpointing_enable({"use_reentrant": True})
    with pytest.raises(InputError, match="use_reentrant"):
        learn()
    with torch.no_grad():  # where nothing is learned, nothing is lost
        infused.model(**batch, knowledge_trace=Trace())


def test_torch_compile_gives_the_same_gradients() -> None:
    head = "encoder"
    infused = trainable("bert", head)
    batch = infused.collator()(examples(head))
    assert_compiled_model_learns_alike(infused, batch, head)


@pytest.mark.parametrize("host", CAN_AUTOCAST)
def test_bf16_autocast_is_close_and_trains(host: str) -> None:
    assert_bf16_is_close_and_trains(infuse_tiny(host, "sequence-classification", "kar", initializer_range=0.1))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_model_in_half_precision_reads_knowledge(dtype: torch.dtype) -> None:
    infused = infuse_tiny("bert", "encoder", "kar", initializer_range=0.1)
    batch = infused.batch([KNOWN_TEXT, "cheap medicine"])
    batch["knowledge_places_priors"][0, 0] = 1e-9  # nothing in float16, but no padding
    trace = Trace()
    with torch.no_grad():
        exact = real_part(answer(infused.model, batch), batch, "encoder")
        found = real_part(answer(infused.model.to(dtype), {**batch, "knowledge_trace": trace}), batch, "encoder")
    assert found.dtype == dtype
    assert (found.double() - exact).norm() < 0.05 * exact.norm()
    assert torch.equal(trace.scores["places"].isfinite(), batch["knowledge_places_priors"] > 0)


@pytest.mark.parametrize("host", HOSTS)
def test_hidden_states_and_attentions_come_out_for_every_layer(host: str) -> None:
    infused = infuse_tiny(host, "encoder", "kar", num_hidden_layers=4, attn_implementation="eager")
    batch = infused.batch([KNOWN_TEXT])
    with torch.no_grad():
        out = infused.model(**batch, output_hidden_states=True, output_attentions=True)
        before = infused.model(**plain(batch), output_hidden_states=True, output_attentions=True)
    changed = [not torch.equal(one, other) for one, other in zip(out.hidden_states, before.hidden_states, strict=True)]
    assert changed == [False, False, True, True, True]  # the bases stand behind blocks 1 and 2
    assert torch.equal(out.hidden_states[-1], out.last_hidden_state)
    assert len(out.attentions) == 4
    assert [torch.equal(a, b) for a, b in zip(out.attentions, before.attentions, strict=True)] == [
        True,
        True,
        False,
        False,
    ]


def test_a_model_can_be_handed_to_another_process() -> None:
    infused = infuse_tiny("bert", "encoder", "kar")
    batch = infused.batch(TEXTS)
    arrived = ForkingPickler.loads(bytes(ForkingPickler.dumps(infused.model)))
    with torch.no_grad():
        assert torch.equal(answer(arrived, batch), answer(infused.model, batch))


def test_trainer_trains_new_weights(tmp_path: Path) -> None:
    infused = infuse_tiny("bert", "sequence-classification", "kar", shaken=False, num_hidden_layers=3)
    infused.model.float()
    new = {name: w.detach().clone() for name, w in infused.model.named_parameters() if is_new_weight(name)}
    arguments = TrainingArguments(
        output_dir=str(tmp_path),
        remove_unused_columns=False,  # texts become tensors in the collator only
        max_steps=2,  # `back` starts at zero: behind it, weights learn from the second step on
        learning_rate=1e-2,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
    )
    rows: Any = [
        {"text": text, "pair": pair, "label": i % 3} for i, (text, pair) in enumerate(zip(TEXTS, PAIRS, strict=True))
    ]
    trainer = Trainer(model=infused.model, args=arguments, train_dataset=rows, data_collator=infused.collator())
    trainer.train()
    stayed = [name for name, w in infused.model.named_parameters() if name in new and torch.equal(w, new[name])]
    assert not stayed


def test_lora_is_trained_on_top_with_the_new_weights(tmp_path: Path) -> None:
    from peft import LoraConfig, PeftModel, get_peft_model

    infused = infuse_tiny("bert", "sequence-classification", "kar")
    batch = infused.batch(TEXTS, PAIRS)
    with torch.no_grad():
        start = infused.model(**batch).logits
    config = LoraConfig(r=2, target_modules=["query", "value"], modules_to_save=["knowledge", "classifier"])
    model: Any = get_peft_model(infused.model, config).double()
    with torch.no_grad():
        torch.testing.assert_close(model(**batch).logits, start, atol=1e-9, rtol=0)  # LoRA starts at zero
    trained = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
    assert any("knowledge.modules_to_save" in name and ".things.linker" in name for name in trained)
    before = {name: weight.detach().clone() for name, weight in trained.items()}
    optimizer = torch.optim.Adam(trained.values(), lr=1e-2)
    for _ in range(2):
        optimizer.zero_grad()
        model(**batch, labels=torch.tensor([0, 1, 2, 0])).loss.backward()
        optimizer.step()
    assert all(not torch.equal(weight, before[name]) for name, weight in trained.items() if "lora" in name)
    assert any(not torch.equal(weight, before[name]) for name, weight in trained.items() if "knowledge" in name)
    model.eval()
    with torch.no_grad():
        told = model(**batch).logits
    model.save_pretrained(tmp_path)
    again: Any = PeftModel.from_pretrained(infuse_tiny("bert", "sequence-classification", "kar").model, tmp_path)
    merged = model.merge_and_unload()
    with torch.no_grad():
        torch.testing.assert_close(again.double().eval()(**batch).logits, told, atol=1e-9, rtol=0)
        torch.testing.assert_close(merged(**batch).logits, told, atol=1e-9, rtol=0)
    assert set(merged.state_dict()) == set(infuse_tiny("bert", "sequence-classification", "kar").model.state_dict())


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("pairs", [None, PAIRS], ids=["", "pairs"])
def test_a_pipeline_reads_knowledge_however_it_batches(host: str, pairs: list[str] | None) -> None:
    infused = infuse_tiny(host, "sequence-classification", "kar")
    with torch.no_grad():
        expected = answer(infused.model, infused.batch(TEXTS, pairs)).softmax(-1)
        without = answer(infused.model, plain(infused.batch(TEXTS, pairs))).softmax(-1)
    assert (expected - without).abs().max() > 1e-3
    rows: Any = TEXTS if pairs is None else [{"text": t, "text_pair": p} for t, p in zip(TEXTS, pairs, strict=True)]
    for batch_size in (1, 2):
        classify = pipeline(
            "text-classification",
            model=infused.model,
            tokenizer=infused.reading_tokenizer(),
            top_k=None,
            batch_size=batch_size,
        )
        told = [{one["label"]: one["score"] for one in of_one} for of_one in classify(rows)]
        found = torch.tensor([[row[f"LABEL_{i}"] for i in range(3)] for row in told], dtype=torch.float64)
        torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_pipeline_that_batches_follows_the_side_of_padding(side: str) -> None:
    infused = infuse_tiny("roberta", "token-classification", "kar", padding_side=side)  # its positions ignore padding
    tokenizer = infused.reading_tokenizer()
    alone, together = (
        pipeline("token-classification", model=infused.model, tokenizer=tokenizer, batch_size=size)(TEXTS)
        for size in (1, 4)
    )
    for one, other in zip(alone, together, strict=True):
        assert [(word["start"], word["entity"]) for word in one] == [(word["start"], word["entity"]) for word in other]
        assert [float(word["score"]) for word in one] == pytest.approx([float(word["score"]) for word in other])
    shake(infused.model, seed=2)
    changed = pipeline("token-classification", model=infused.model, tokenizer=tokenizer, batch_size=4)(TEXTS)
    assert [w["score"] for w in changed[0]] != pytest.approx([w["score"] for w in together[0]])
