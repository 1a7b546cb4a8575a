from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from miniatures import HOSTS, TEXTS, every_host_and_head, tiny_host, tiny_tokenizer
from tiny_infusions import KNOWN_TEXT, infuse_tiny

from infuser import Spectral
from infuser.errors import HostError
from infuser.signals import Collator
from infuser.signals.examples import IGNORED
from infuser.tasks.base import Training
from infuser.tasks.masked_words import MaskedTexts, check_masked_head, head_only_at, logits_at, train_on_masked_words
from infuser.training import TrainSettings
from infuser.training.checkpoints import cpu_state_dict
from infuser.training.steps import StepReport

EXAMPLES = [{"text": text} for text in (*TEXTS, KNOWN_TEXT)]
MASKING_HOSTS = [host for host in HOSTS if (host, "masked-lm") in every_host_and_head()]


def masked(batch: dict[str, Any]) -> torch.Tensor:
    return batch["labels"] != IGNORED


@pytest.mark.parametrize("host", MASKING_HOSTS)
def test_the_head_answers_where_it_is_asked_as_it_would_everywhere(host: str):
    model, batch = tiny_host(host, "masked-lm"), MaskedTexts(Collator(tiny_tokenizer(host)))(EXAMPLES)
    whole = model(**batch)
    whole.loss.backward()
    gradients = {name: weight.grad for name, weight in model.named_parameters()}
    model.zero_grad()
    with head_only_at(model, masked):
        out = model(**batch)
    out.loss.backward()
    torch.testing.assert_close(out.loss, whole.loss)
    torch.testing.assert_close(out.logits[0], whole.logits[masked(batch)])
    for name, weight in model.named_parameters():
        torch.testing.assert_close(weight.grad, gradients[name], msg=name)
    torch.testing.assert_close(model(**batch).logits, whole.logits)  # afterwards all is as before


def test_a_call_that_fails_leaves_no_hook_behind():
    model, batch = tiny_host("bert", "masked-lm"), Collator(tiny_tokenizer("bert"))(EXAMPLES)
    whole, where = model(**batch).logits, batch["input_ids"] == 1
    with pytest.raises(IndexError):
        logits_at(model, {**batch, "input_ids": batch["input_ids"] + 10_000}, where)
    torch.testing.assert_close(model(**batch).logits, whole)
    torch.testing.assert_close(logits_at(model, batch, where), whole[where])


def test_a_model_without_the_head_is_refused():
    with pytest.raises(HostError, match="BertModel has no head for masked words"):
        check_masked_head(tiny_host("bert"), tiny_tokenizer("bert"))


@pytest.mark.parametrize("host", ["bert", "roberta"])
def test_one_word_in_seven_is_masked_and_no_special_token(host: str):
    tokenizer = tiny_tokenizer(host)
    collator = Collator(tokenizer)
    plain, special = collator(EXAMPLES)["input_ids"], torch.tensor(tokenizer.all_special_ids)
    n_words = (~torch.isin(plain, special)).sum(dim=1)
    fates = torch.zeros(3)
    for epoch in range(40):
        batch = MaskedTexts(collator).for_epoch(epoch)(EXAMPLES)
        chosen, ids = masked(batch), batch["input_ids"]
        assert chosen.sum(dim=1).tolist() == [max(1, round(0.15 * n)) for n in n_words.tolist()]
        assert not torch.isin(plain[chosen], special).any()
        assert torch.equal(batch["labels"][chosen], plain[chosen])
        assert torch.equal(ids[~chosen], plain[~chosen])
        is_mask, is_kept = ids[chosen] == tokenizer.mask_token_id, ids[chosen] == plain[chosen]
        fates += torch.tensor([is_mask.sum(), is_kept.sum(), (~is_mask & ~is_kept).sum()])
    assert (fates / fates.sum()).tolist() == pytest.approx([0.8, 0.1, 0.1], abs=0.05)


def test_what_is_masked_depends_on_seed_epoch_and_text_alone():
    texts = MaskedTexts(Collator(tiny_tokenizer("bert")))

    def chosen(epoch: int, seed: int, order: int = 1) -> list[list[int]]:
        batch = texts.for_epoch(epoch, seed=seed)(EXAMPLES[::order])
        return [row[row != IGNORED].tolist() for row in batch["labels"]][::order]

    assert chosen(0, 0) == chosen(0, 0, order=-1)
    assert len({str(chosen(epoch, seed)) for epoch in range(3) for seed in range(3)}) == 9


def test_knowledge_about_a_masked_word_goes_with_it():
    infused = infuse_tiny("bert", "masked-lm", "kam")
    collator = infused.collator()
    known = collator(EXAMPLES)
    forgotten = {"boxes": 0, "spans": 0, "ties": 0}
    for epoch in range(10):
        batch = MaskedTexts(collator).for_epoch(epoch)(EXAMPLES)
        for row, chosen in enumerate(masked(batch)):
            for (box, weight), (before, its_weight) in zip(
                weighed(batch, "boxes", row), weighed(known, "boxes", row), strict=True
            ):
                _, top, bottom, left, right = before
                if chosen[top:bottom].any() or chosen[left:right].any():
                    assert (box[0], weight) == (-1, 0.0)
                    forgotten["boxes"] += 1
                else:
                    assert (box, weight) == (before, its_weight)
            for part in ("spans", "ties"):
                for (left, weight), (before, its_weight) in zip(
                    weighed(batch, part, row), weighed(known, part, row), strict=True
                ):
                    _, _, start, end, *_ = before
                    if chosen[start:end].any():
                        assert (set(left), weight) == ({0}, 0.0)
                        forgotten[part] += 1
                    else:
                        assert (left, weight) == (before, its_weight)
    assert min(forgotten.values()) > 10, forgotten


def weighed(batch: dict[str, torch.Tensor], part: str, row: int) -> list[tuple[list[int], float]]:
    """Return the boxes, spans or ties of one text with their weights; spans have none."""
    weights = {"boxes": "knowledge_weights", "ties": "knowledge_tie_weights"}
    found = batch[f"knowledge_{part}"][row].tolist()
    return list(zip(found, batch[weights[part]][row].tolist() if part in weights else [0.0] * len(found), strict=True))


def weights_after(
    tmp_path: Path | None = None, *, stop_at: int | None = None, seed: int = 0
) -> dict[str, torch.Tensor]:
    infused = infuse_tiny("bert", "masked-lm", "kam")
    settings = TrainSettings(epochs=2, batch_size=2, learning_rate=1e-3, checkpoint_every=2, seed=seed)

    def stop(report: StepReport) -> None:
        if report.step == stop_at:
            raise KeyboardInterrupt

    training = Training(infused.model, infused.collator(), settings, progress=stop, checkpoints=tmp_path)
    train_on_masked_words(training, EXAMPLES)
    return cpu_state_dict(infused.model)


def test_a_run_that_was_stopped_goes_on_alike(tmp_path: Path):
    with pytest.raises(KeyboardInterrupt):
        weights_after(tmp_path, stop_at=5)
    resumed, at_once = weights_after(tmp_path), weights_after()
    assert [name for name in at_once if not torch.equal(at_once[name], resumed[name])] == []
    other = weights_after(seed=1)
    assert any(not torch.equal(at_once[name], other[name]) for name in at_once)


def test_spectral_sees_the_whole_text():
    model, told = tiny_host("bert", "masked-lm"), []
    settings = TrainSettings(epochs=1, batch_size=5, learning_rate=1e-3)
    collator = Collator(tiny_tokenizer("bert"))
    training = Training(model, collator, settings, lambda report: told.append(report.parts), Spectral())
    train_on_masked_words(training, EXAMPLES)
    [parts] = told
    assert parts["spectral"] > 0
    assert parts["task"] > 0
