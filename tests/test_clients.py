"""Real clients of an infused model: Trainer, pipelines, PEFT, bertviz, DataLoader."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from miniatures import HOSTS, N_POSITIONS, Repeats, tiny_host, tiny_tokenizer
from tiny_infusions import KNOWN_TEXT, RepeatsAndTerms, answer, infuse_tiny, plain, shake
from torch import Tensor
from torch.utils.data import DataLoader
from transformers import Trainer, TrainingArguments, pipeline

import infuser
from infuser.errors import InputError
from infuser.hosts import is_new_weight

TEXTS = [KNOWN_TEXT, "buy glipizide tablets", "cheap medicine", "the train of the town runs to the town"]
PAIRS = ["the old pharmacy of the town", "glipizide in a pharmacy near me", "a shop", "a train"]


def new_weights(model: torch.nn.Module) -> dict[str, Tensor]:
    return {name: w.detach().clone() for name, w in model.named_parameters() if is_new_weight(name)}


# transformers.Trainer


def task_rows(n_rows: int) -> list[dict[str, Any]]:
    """Return pairs whose label says whether both sides share a rare word: what `Repeats` knows."""
    words = ["glipizide", "pharmacy", "bridge", "garden", "tablets", "medicine"]
    rows = []
    for i in range(n_rows):
        query, ad = words[i % 6], words[(i if i % 2 else i + 1 + i % 4) % 6]
        rows.append({"text": f"buy {query}", "pair": f"new {ad} near me", "label": int(query == ad)})
    return rows


def training_arguments(folder: Path, **settings: Any) -> TrainingArguments:
    return TrainingArguments(
        output_dir=str(folder),
        remove_unused_columns=False,  # texts become tensors in the collator only
        save_strategy="epoch",
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        seed=0,
        **settings,
    )


def test_trainer_trains_host_and_new_weights_and_its_checkpoint_reloads(tmp_path: Path) -> None:
    host = tiny_host("bert", "sequence-classification", num_labels=2, initializer_range=0.1)
    tokenizer = tiny_tokenizer("bert")
    infused = infuser.infuse(host.float(), sources=[Repeats()], tokenizer=tokenizer)
    before, embeddings = new_weights(infused.model), host.get_input_embeddings().weight.detach().clone()
    arguments = training_arguments(
        tmp_path / "run",
        per_device_train_batch_size=8,
        num_train_epochs=12,
        learning_rate=3e-3,
        logging_steps=4,
        save_total_limit=1,
    )
    trainer = Trainer(
        model=infused.model,
        args=arguments,
        train_dataset=task_rows(48),  # type: ignore[arg-type]
        eval_dataset=task_rows(12),  # type: ignore[arg-type]
        data_collator=infused.collator(),
        processing_class=tokenizer,
    )
    start = trainer.evaluate()["eval_loss"]
    trainer.train()
    assert trainer.evaluate()["eval_loss"] < 0.8 * start
    after = new_weights(infused.model)
    assert all(not torch.equal(after[name], before[name]) for name in before)
    assert not torch.equal(host.get_input_embeddings().weight, embeddings)
    predictions = trainer.predict(task_rows(12)).predictions  # type: ignore[arg-type]
    infused.model.eval()
    with torch.no_grad():
        told = infused.model(**infused.collator()(task_rows(12))).logits
    torch.testing.assert_close(torch.as_tensor(predictions), told, atol=1e-5, rtol=1e-5)

    [checkpoint] = (tmp_path / "run").glob("checkpoint-*")
    assert (checkpoint / "model.safetensors").exists()
    again = infuser.infuse(checkpoint, sources=[Repeats()], task="sequence-classification")
    with torch.no_grad():
        assert torch.equal(again.model(**again.collator()(task_rows(12))).logits, told)


def test_trainer_goes_on_from_its_own_checkpoint(tmp_path: Path) -> None:
    def run(n_epochs: int, resume: bool) -> dict[str, Tensor]:
        infused = infuser.infuse(
            tiny_host("bert", "sequence-classification", num_labels=2).float(),
            sources=[Repeats()],
            tokenizer=tiny_tokenizer("bert"),
        )
        arguments = training_arguments(tmp_path, num_train_epochs=n_epochs, lr_scheduler_type="constant")
        trainer = Trainer(
            model=infused.model,
            args=arguments,
            train_dataset=task_rows(16),  # type: ignore[arg-type]
            data_collator=infused.collator(),
        )
        trainer.train(resume_from_checkpoint=resume)
        return new_weights(infused.model)

    run(1, resume=False)
    resumed = run(2, resume=True)
    straight = run(2, resume=False)
    for name, weight in straight.items():
        torch.testing.assert_close(resumed[name], weight, atol=1e-6, rtol=1e-5, msg=name)


# Pipelines


def expected_scores(infused: infuser.Infused, texts: list[str], pairs: list[str] | None = None) -> Tensor:
    """Return class probabilities, each text read alone through `Infused.batch`."""
    with torch.no_grad():
        logits = [
            infused.model(**infused.batch([text], None if pairs is None else [pairs[i]])).logits[0]
            for i, text in enumerate(texts)
        ]
    return torch.stack(logits).softmax(-1)


def scores(answers: list[list[dict[str, Any]]]) -> Tensor:
    rows = [{one["label"]: one["score"] for one in of_one} for of_one in answers]
    return torch.tensor([[row[f"LABEL_{i}"] for i in range(3)] for row in rows], dtype=torch.float64)


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("terms", [False, True], ids=["", "terms"])
def test_a_pipeline_reads_knowledge_with_the_reading_tokenizer(host: str, terms: bool) -> None:
    infused = infuse_tiny(host, "sequence-classification", terms=terms)
    classify = pipeline("text-classification", model=infused.model, tokenizer=infused.reading_tokenizer(), top_k=None)
    expected = expected_scores(infused, TEXTS)
    torch.testing.assert_close(scores([classify(text)[0] for text in TEXTS]), expected, atol=1e-6, rtol=0)
    torch.testing.assert_close(scores(classify(TEXTS)), expected, atol=1e-6, rtol=0)
    without = pipeline("text-classification", model=infused.model, tokenizer=infused.tokenizer, top_k=None)
    assert (scores(without(TEXTS)) - expected).abs().max() > 1e-3


@pytest.mark.parametrize("host", HOSTS)
def test_a_pipeline_reads_knowledge_in_pairs(host: str) -> None:
    infused = infuse_tiny(host, "sequence-classification")
    classify = pipeline("text-classification", model=infused.model, tokenizer=infused.reading_tokenizer(), top_k=None)
    rows = [{"text": text, "text_pair": pair} for text, pair in zip(TEXTS, PAIRS, strict=True)]
    found = scores(classify(rows))
    torch.testing.assert_close(found, expected_scores(infused, TEXTS, PAIRS), atol=1e-6, rtol=0)
    torch.testing.assert_close(scores([classify(rows[0])]), found[:1], atol=1e-6, rtol=0)


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("batch_size", [2, 4])
def test_a_pipeline_that_batches_gives_each_text_the_same_scores(host: str, batch_size: int) -> None:
    infused = infuse_tiny(host, "sequence-classification")
    batch = infused.batch(TEXTS)
    assert "knowledge_terms" in batch and not batch["attention_mask"].all()
    tokenizer = infused.reading_tokenizer()
    classify = pipeline(
        "text-classification", model=infused.model, tokenizer=tokenizer, top_k=None, batch_size=batch_size
    )
    torch.testing.assert_close(scores(classify(TEXTS)), expected_scores(infused, TEXTS), atol=1e-6, rtol=0)


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_pipeline_that_batches_follows_the_side_of_padding(side: str) -> None:
    infused = infuse_tiny("roberta", "token-classification", padding_side=side)  # its positions ignore padding
    tokenizer = infused.reading_tokenizer()
    alone, together = (
        pipeline("token-classification", model=infused.model, tokenizer=tokenizer, batch_size=size)(TEXTS)
        for size in (1, 4)
    )
    for one, other in zip(alone, together, strict=True):
        assert [(word["start"], word["end"]) for word in one] == [(word["start"], word["end"]) for word in other]
        for word, same in zip(one, other, strict=True):
            assert word["entity"] == same["entity"]
            assert float(word["score"]) == pytest.approx(float(same["score"]), abs=1e-6)
    batch = infused.batch(TEXTS)
    with torch.no_grad():
        told = infused.model(**batch).logits.softmax(-1).amax(-1)[batch["attention_mask"].bool()]
    best = sorted(float(word["score"]) for of_one in together for word in of_one)
    assert all(min(abs(told - score)) < 1e-6 for score in best)


def test_other_pipelines_read_knowledge_too() -> None:
    infused = infuse_tiny("bert")
    extract = pipeline("feature-extraction", model=infused.model, tokenizer=infused.reading_tokenizer())
    for text, states in zip(TEXTS, extract(TEXTS), strict=True):
        torch.testing.assert_close(torch.tensor(states, dtype=torch.float64), infused.encode([text]), atol=1e-6, rtol=0)
    infused = infuse_tiny("bert", "masked-lm")
    text = "the old [MASK] of the old town"
    [best, *_] = pipeline("fill-mask", model=infused.model, tokenizer=infused.reading_tokenizer())(text)
    batch = infused.batch([text])
    with torch.no_grad():
        logits = answer(infused.model, batch)[0, batch["input_ids"][0] == infused.tokenizer.mask_token_id]
    assert best["score"] == pytest.approx(float(logits.softmax(-1).max()), abs=1e-6)
    assert best["token"] == int(logits.argmax())


def test_the_reading_tokenizer_is_the_tokenizer_in_everything_else() -> None:
    infused = infuse_tiny("bert")
    tokenizer = infused.reading_tokenizer()
    assert isinstance(tokenizer, type(infused.tokenizer))
    assert tokenizer(TEXTS) == infused.tokenizer(TEXTS)
    assert tokenizer.decode(tokenizer(TEXTS[0])["input_ids"]) == infused.tokenizer.decode(
        infused.tokenizer(TEXTS[0])["input_ids"]
    )
    options = {"padding": "max_length", "max_length": 24, "truncation": True, "return_tensors": "pt"}
    options |= {"return_special_tokens_mask": True, "return_offsets_mapping": True}
    found, expected = tokenizer(TEXTS, PAIRS, **options), infused.tokenizer(TEXTS, PAIRS, **options)
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    assert set(found) - set(expected) == {
        "knowledge_boxes",
        "knowledge_weights",
        "knowledge_kinds",
        "knowledge_spans",
        "knowledge_terms",
        "knowledge_ties",
        "knowledge_tie_weights",
        "knowledge_length",
    }
    as_pairs = tokenizer(list(zip(TEXTS, PAIRS, strict=True)), return_tensors="pt")
    assert torch.equal(as_pairs["input_ids"], infused.batch(TEXTS, PAIRS)["input_ids"])
    assert torch.equal(as_pairs["knowledge_boxes"], infused.batch(TEXTS, PAIRS)["knowledge_boxes"])


def test_the_reading_tokenizer_cuts_long_texts_and_refuses_lists_of_words() -> None:
    infused = infuse_tiny("bert")
    tokenizer = infused.reading_tokenizer()
    batch = tokenizer(f"{KNOWN_TEXT} " * 40, return_tensors="pt")
    assert batch["input_ids"].shape[1] == N_POSITIONS
    assert infused.model(**batch).last_hidden_state.isfinite().all()
    with pytest.raises(InputError, match="lists of words"):
        tokenizer(["the", "old", "town"], is_split_into_words=True, return_tensors="pt")
    parts = tokenizer(
        f"{KNOWN_TEXT} " * 10, return_tensors="pt", max_length=32, stride=4, return_overflowing_tokens=True
    )
    del parts["overflow_to_sample_mapping"]
    assert len(parts["input_ids"]) == len(parts["knowledge_boxes"]) > 1
    assert infused.model(**parts).last_hidden_state.isfinite().all()


# PEFT


def lora(infused: infuser.Infused, **settings: Any) -> Any:
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(
        r=2, lora_alpha=4, target_modules=["query", "value"], modules_to_save=["knowledge", "classifier"], **settings
    )
    return get_peft_model(infused.model, config)


def test_lora_is_trained_on_top_of_an_infused_model_with_its_new_weights(tmp_path: Path) -> None:
    from peft import PeftModel

    infused = infuse_tiny("bert", "sequence-classification")
    batch = infused.batch(TEXTS, PAIRS)
    with torch.no_grad():
        start = infused.model(**batch).logits
    model = lora(infused).double()
    with torch.no_grad():
        torch.testing.assert_close(model(**batch).logits, start, atol=1e-9, rtol=0)  # LoRA starts at zero
    trained = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
    assert any("lora_A" in name for name in trained) and any("knowledge" in name for name in trained)
    assert all("lora_" in name or "knowledge" in name or "classifier" in name for name in trained)
    before = {name: weight.detach().clone() for name, weight in trained.items()}
    optimizer = torch.optim.Adam(trained.values(), lr=1e-2)
    losses = []
    for _ in range(12):
        optimizer.zero_grad()
        loss = model(**batch, labels=torch.tensor([0, 1, 2, 0])).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]
    still = [name for name, weight in trained.items() if torch.equal(weight.detach(), before[name])]
    # the noise of a tiny infusion closed some gates, and a gate opens only where that lowers the loss
    assert all("term_gates" in name for name in still) and len(still) < len(trained) / 4
    model.eval()
    with torch.no_grad():
        told = model(**batch).logits
        assert (told - model(**plain(batch)).logits).abs().max() > 1e-3

    model.save_pretrained(tmp_path / "adapter")
    assert not list((tmp_path / "adapter").glob("*.bin"))
    again = PeftModel.from_pretrained(infuse_tiny("bert", "sequence-classification").model, tmp_path / "adapter")
    with torch.no_grad():
        torch.testing.assert_close(again.double().eval()(**batch).logits, told, atol=1e-9, rtol=0)

    merged = model.merge_and_unload()
    with torch.no_grad():
        torch.testing.assert_close(merged(**batch).logits, told, atol=1e-9, rtol=0)
    assert set(merged.state_dict()) == set(infuse_tiny("bert", "sequence-classification").model.state_dict())


def test_a_merged_model_is_saved_and_loaded(tmp_path: Path) -> None:
    infused = infuser.infuse(
        tiny_host("bert", "sequence-classification"),
        sources=[infuser.Entities.tiny(), infuser.Correlation.tiny()],
        tokenizer=tiny_tokenizer("bert"),
    )
    shake(infused.model)
    merged = lora(infused, init_lora_weights=False).double().merge_and_unload()
    replace(infused, model=merged).save(tmp_path / "out")
    again = infuser.load(tmp_path / "out")
    batch = again.batch(["Bern lies on the Aare", "buy in New York"])
    with torch.no_grad():
        assert torch.equal(again.model(**batch).logits, merged(**batch).logits)


# bertviz


def test_bertviz_draws_the_attentions() -> None:
    from bertviz import head_view, model_view

    infused = infuse_tiny("bert", terms=False)
    batch = infused.batch(TEXTS[:1], PAIRS[:1])
    tokens = infused.tokenizer.convert_ids_to_tokens(batch["input_ids"][0].tolist())
    pages = []
    with torch.no_grad():
        for given in (batch, plain(batch)):
            attention = infused.model(**given, output_attentions=True).attentions
            for view in (head_view, model_view):
                pages.append(view(attention, tokens, html_action="return").data)
    assert all("bridge" in page and len(page) > 1000 for page in pages)
    with_knowledge, without = pages[0], pages[2]
    first = float(infused.model(**batch, output_attentions=True).attentions[0][0, 0, 0, 0].detach())
    assert str(first)[:8] in with_knowledge
    assert str(first)[:8] not in without


# DataLoader


def test_a_data_loader_with_workers_gives_the_batches_of_one_without() -> None:
    infused = infuser.infuse(
        tiny_host("bert", "sequence-classification"),
        sources=[infuser.Entities.tiny(), RepeatsAndTerms()],
        tokenizer=tiny_tokenizer("bert"),
    )
    rows = [
        {"text": text, "pair": pair, "label": i % 3}
        for i, (text, pair) in enumerate(zip(TEXTS * 3, PAIRS * 3, strict=True))
    ]
    batches = {
        n: list(DataLoader(rows, batch_size=5, collate_fn=infused.collator(), num_workers=n))  # type: ignore[arg-type]
        for n in (0, 2)
    }
    assert len(batches[2]) == 3
    for one, other in zip(batches[0], batches[2], strict=True):
        assert one.keys() == other.keys() and "knowledge_boxes" in one and "labels" in one
        assert all(torch.equal(one[name], other[name]) for name in one)
        assert infused.model(**other).loss.isfinite()
