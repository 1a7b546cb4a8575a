"""Give MiniLM a head for masked words: no package here holds one, so it is trained, and LAMA is asked with it.

The head is BERT's own (a dense layer, layer norm, the tied embeddings and a bias); the encoder learns along with it.
Texts: WikiText-2's training part and other open corpora of shared/data. Left out are `trex_evidence_sentences.txt`,
which states the facts that LAMA's T-REx asks for, and WikiText-2's valid and test parts, on which the head is judged.
Written: a checkpoint for `from_pretrained`, and how often the right word piece comes first, on text never trained on,
with the number of steps: what an hour is worth depends on the machine and on what else it does.

    python benchmarks/masked_head.py --minutes 60
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import time
from pathlib import Path
from typing import Any

import torch
from support.measuring import about, write_result
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import AutoTokenizer, BertForMaskedLM

from infuser import assets
from infuser.files import whole_folder

RESULT = Path(__file__).parent / "results" / "masked_head.json"
CORPORA = Path(__file__).resolve().parents[2] / "shared" / "data" / "corpora"
N_TOKENS, BATCH, MASKED, SEED = 96, 32, 0.15, 0


def read_wikitext(part: str) -> list[str]:
    """Return the paragraphs of a raw part of WikiText-2, with hyphens, commas and points as people write them."""
    raw = gzip.decompress((assets.fetch("wikitext-2") / f"{part}.raw.gz").read_bytes()).decode("utf-8")
    lines = re.sub(r" @([-,.])@ ", r"\1", raw).splitlines()
    return [" ".join(line.split()) for line in lines if not line.startswith(" =")]


def read_corpora() -> list[str]:
    """Return the texts that the head learns from, one per paragraph."""
    texts = read_wikitext("train")
    for folder in ("abc", "inaugural", "state_union", "webtext"):
        for file in sorted((CORPORA / folder).glob("*.txt")):
            texts += re.split(r"\n\s*\n", file.read_text(encoding="utf-8", errors="replace"))
    return [" ".join(text.split()) for text in texts if len(text.split()) > 8]


def packed(tokenizer: Any, texts: list[str]) -> Tensor:
    """Return rows (rows, N_TOKENS) of running text, each between [CLS] and [SEP]."""
    ids: list[int] = []
    for first in range(0, len(texts), 1000):
        for row in tokenizer(texts[first : first + 1000], add_special_tokens=False)["input_ids"]:
            ids += row
    size = N_TOKENS - 2
    body = torch.tensor(ids[: len(ids) // size * size]).view(-1, size)
    ends = (torch.full((len(body), 1), one) for one in (tokenizer.cls_token_id, tokenizer.sep_token_id))
    return torch.cat([next(ends), body, next(ends)], dim=1)


def masked(rows: Tensor, tokenizer: Any, random: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return rows with words hidden as BERT hides them, and where: 80 % masks, 10 % other pieces, 10 % as they were."""
    chosen = torch.rand(rows.shape, generator=random) < MASKED
    chosen[:, 0] = chosen[:, -1] = False
    how = torch.rand(rows.shape, generator=random)
    hidden = rows.masked_fill(chosen & (how < 0.8), tokenizer.mask_token_id)
    other = torch.randint(len(tokenizer), rows.shape, generator=random)
    return torch.where(chosen & (how >= 0.9), other, hidden), chosen


def answers(model: Any, rows: Tensor, chosen: Tensor) -> Tensor:
    """Return logits (pieces, vocabulary) at the chosen places alone: the vocabulary is what costs."""
    return model.cls(model.bert(input_ids=rows).last_hidden_state[chosen])  # type: ignore[no-any-return]


@torch.no_grad()
def judge(model: Any, tokenizer: Any, rows: Tensor) -> dict[str, float]:
    """Return how often the right piece is the first or among the first ten, and the loss, always on the same masks."""
    random = torch.Generator().manual_seed(SEED)
    model.eval()
    sums = torch.zeros(4)
    for part in rows.split(BATCH):
        hidden, chosen = masked(part, tokenizer, random)
        logits, right = answers(model, hidden, chosen), part[chosen]
        rank = (logits > logits.gather(1, right[:, None])).sum(dim=1)
        loss = cross_entropy(logits, right, reduction="sum")
        sums += torch.tensor([len(right), (rank < 1).sum(), (rank < 10).sum(), loss])
    model.train()
    n, first, ten, loss = sums.tolist()
    return {"pieces": n, "top-1": first / n, "top-10": ten / n, "loss": loss / n}


def main() -> None:
    """Train the head for so many minutes, judge it and write the checkpoint."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).resolve().parents[1] / "runs" / "minilm-masked")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--learning-rate", type=float, default=4e-4)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    given = parser.parse_args()
    torch.manual_seed(SEED)
    torch.set_num_threads(given.threads)
    folder = str(assets.fetch("minilm"))
    tokenizer, model = AutoTokenizer.from_pretrained(folder), BertForMaskedLM.from_pretrained(folder)
    rows = packed(tokenizer, read_corpora())
    dev = packed(tokenizer, read_wikitext("valid"))[:200]
    print(f"{rows.numel():,} tokens to learn from, {dev.numel():,} to be judged by", flush=True)

    head = [*model.cls.predictions.transform.parameters(), model.cls.predictions.bias]
    own = {id(weight) for weight in head}
    rest = [weight for weight in model.parameters() if id(weight) not in own]
    groups = [{"params": rest, "lr": given.learning_rate}, {"params": head, "lr": 2 * given.learning_rate}]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.01, betas=(0.9, 0.98), fused=True)
    highest = [group["lr"] for group in optimizer.param_groups]
    random = torch.Generator().manual_seed(SEED)
    model.train()
    started, told, step, seen = time.monotonic(), 0.0, 0, 0
    history: list[dict[str, float]] = []
    while (share := (time.monotonic() - started) / (60 * given.minutes)) < 1:
        order = torch.randperm(len(rows), generator=random)
        for places in order.split(BATCH):
            share = (time.monotonic() - started) / (60 * given.minutes)
            if share >= 1:
                break
            for group, high in zip(optimizer.param_groups, highest, strict=True):
                group["lr"] = high * min(1.0, (step + 1) / 100) * max(0.02, 1 - share)
            hidden, chosen = masked(rows[places], tokenizer, random)
            loss = cross_entropy(answers(model, hidden, chosen), rows[places][chosen])
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            step, seen = step + 1, seen + places.numel() * N_TOKENS
            if share - told > 0.05:
                told = share
                history.append(
                    {"minutes": share * given.minutes, "step": step, "tokens": seen} | judge(model, tokenizer, dev)
                )
                print(json.dumps(history[-1]), flush=True)
    final = {"minutes": given.minutes, "step": step, "tokens": seen} | judge(model, tokenizer, dev)
    print(json.dumps(final), flush=True)
    with whole_folder(given.out) as part:
        model.save_pretrained(part)
        tokenizer.save_pretrained(part)
    write_result(RESULT, {"about": about("torch", threads=given.threads), "final": final, "history": history})


if __name__ == "__main__":
    main()
