"""What methods cost: the same BERT-base checkpoint under SDPA and infused, also with KAM written naively.

With --host, another encoder of about that size, beside its own plain path: ModernBERT has SDPA as well, DeBERTa and
MPNet form their scores themselves.

A training step is forward and backward without the optimiser, which costs all the same.
All are timed in turn within each round, on the same batches, and the ratios of their fastest rounds are printed;
machines are noisy, so a slow moment hits all. Peak memory is read in a process of its own for each.

    python benchmarks/attention_cost.py                   # the whole table, some minutes
    python benchmarks/attention_cost.py --rounds 3        # a quick look
    python benchmarks/attention_cost.py --only bias types --no-memory
    python benchmarks/attention_cost.py --host deberta-v2 --only kam --no-memory
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from support.measuring import RESULTS, about, in_new_process, memory_mb, rounds_of, write_result
from torch.nn.functional import conv2d, dropout
from transformers import AutoConfig, AutoModelForSequenceClassification, PreTrainedModel

from infuser import Entities, Kam, Types, Vocabulary
from infuser.methods import kam as kam_module
from infuser.methods.together import Together

TARGETS: dict[tuple[str, int, int], dict[str, float]] = {
    ("inference", 32, 32): {"kam": 1.05},
    ("inference", 16, 64): {},
    ("inference", 8, 128): {"kam": 1.10, "bias": 1.03},
    ("inference", 4, 256): {"kam": 1.25},
    ("inference", 2, 512): {"kam": 1.40},
    ("training", 8, 128): {"kam": 1.20, "bias": 1.03},
}
"""(work, batch, seq) and the ratios to SDPA that we want to stay below; all have 1,024 tokens, so cost grows with n."""
TARGETS_OF_OTHERS: dict[tuple[str, int, int], dict[str, float]] = {
    (work, n_batch, n_tokens): {"kam": most}
    for work in ("inference", "training")
    for n_batch, n_tokens, most in ((8, 128, 1.10), (2, 512, 1.30))
}
"""The same for the other hosts."""
HOSTS: dict[str, dict[str, Any]] = {
    "bert": {},
    "modernbert": {},
    "mpnet": {"max_position_embeddings": 514},
    "deberta-v2": {  # DeBERTa-v3-base
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "intermediate_size": 3072,
        "relative_attention": True,
        "position_biased_input": False,
        "pos_att_type": ["p2c", "c2p"],
        "position_buckets": 256,
        "share_att_key": True,
        "norm_rel_ebd": "layer_norm",
        "type_vocab_size": 0,
    },
}
"""Shapes of real checkpoints: what their configs have beside transformers' defaults."""
METHODS: dict[str, Any] = {
    "kam": Kam(),
    "naive": Kam(),
    "kam by type": Kam(channels="types"),
    "bias": Kam(fusion="bias"),
    "types": Types(),
    "types + bias": Together((Types(), Kam(fusion="bias"))),
}
"""The contestants beside the plain checkpoint; "naive" computes KAM's formula as it is written."""
N_SOURCES = 3
N_TYPES = 8
VOCABULARY = Vocabulary(
    ((*(f"type {number}" for number in range(N_TYPES - 1)), "other"),) * N_SOURCES, (("other",),) * N_SOURCES
)


def build(kind: str, host: str) -> PreTrainedModel:
    """Return a host, plain or infused with weights as after training (no gate or kernel left at its start)."""
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_config(AutoConfig.for_model(host, **HOSTS[host])).eval()
    if kind != "plain":
        METHODS[kind].attach(model, sources=[Entities.tiny()] * N_SOURCES, vocabulary=VOCABULARY)
        with torch.no_grad():
            for name, weight in model.named_parameters():
                if "knowledge" in name:
                    weight.add_(torch.randn_like(weight) * 0.01)
    return model


def make_batch(n_batch: int, n_tokens: int, kind: str) -> dict[str, torch.Tensor]:
    """Return random tokens and, for infused models, about one link and half a mention per four tokens and source."""
    torch.manual_seed(1)
    batch = {
        "input_ids": torch.randint(1000, 30000, (n_batch, n_tokens)),
        "attention_mask": torch.ones(n_batch, n_tokens, dtype=torch.long),
        "labels": torch.zeros(n_batch, dtype=torch.long),
    }
    batch["attention_mask"][-1, -n_tokens // 8 :] = 0  # real batches have padding
    if kind != "plain":
        n_links = N_SOURCES * n_tokens // 4
        start = torch.randint(1, n_tokens - 4, (n_batch, n_links, 2))
        length = torch.randint(1, 4, (n_batch, n_links, 2))
        channel = torch.arange(n_links).expand(n_batch, -1)[..., None] % N_SOURCES
        rows, cols = (torch.stack([start[..., i], (start + length)[..., i]], -1) for i in (0, 1))
        kinds = torch.randint(N_TYPES + 1, (n_batch, n_links))
        batch["knowledge_boxes"] = torch.cat([channel, rows, cols], -1)
        batch["knowledge_weights"] = torch.rand(n_batch, n_links)
        batch["knowledge_kinds"] = kinds
        spans = torch.cat([channel, kinds[..., None] % N_TYPES, rows], -1)
        batch["knowledge_spans"] = spans[:, : n_links // 2]
    return batch


def attend_naively(query: Any, key: Any, value: Any, mask: Any, knowledge: Any, **given: Any) -> Any:
    """Compute KAM's formula as it is written, operation by operation, over whole (batch, heads, n, n) tensors."""
    rows, columns = knowledge.rows[:, None, :, None], knowledge.rows[:, None, None, :]
    scores = query @ key.transpose(2, 3) * given["scaling"]
    if given["below"] is not None:
        scores = scores + given["gate"] * given["below"]
    scores = scores * rows * columns
    fused = conv2d(torch.cat([scores, knowledge.maps], dim=1), given["kernel"], given["bias"], padding=1)
    added = torch.zeros_like(mask, dtype=fused.dtype).masked_fill(~mask, -1e4)
    weights = dropout(torch.softmax(fused + added, dim=-1), given["dropout"])
    return (weights @ value).transpose(1, 2).contiguous(), fused * rows * columns, None


class NaiveMixer(kam_module.MapMixer):
    """The same weights, used by the naive formula."""

    def forward(self, *args: Any, **options: Any) -> Any:
        def naive(*inner: Any, **given: Any) -> Any:
            return attend_naively(*inner, **given)

        with patch.object(kam_module, "attend", naive):
            return super().forward(*args, **options)


def runner(kind: str, work: str, n_batch: int, n_tokens: int, model: Any) -> Callable[[], None]:
    """Return a function that does one forward, or one training step, of one contestant."""
    batch = make_batch(n_batch, n_tokens, kind)
    if work == "inference":

        def infer() -> None:
            model.eval()
            with torch.inference_mode():
                model(**batch)

        return infer

    def step() -> None:
        model.train()
        model(**batch).loss.backward()
        model.zero_grad(set_to_none=True)

    return step


def build_contestant(kind: str, host: str) -> PreTrainedModel:
    """Return one of the contestants."""
    model = build(kind, host)
    if kind == "naive":
        for module in model.modules():
            if isinstance(module, kam_module.MapMixer):
                module.__class__ = NaiveMixer
    return model


def peak_megabytes(kind: str, host: str, work: str, n_batch: int, n_tokens: int) -> float:
    """Return the peak memory of a fresh process while it does the work a second time."""
    return float(in_new_process(__file__, "--child", kind, host, work, n_batch, n_tokens))


def main() -> None:
    """Time the contestants in turn and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--host", choices=HOSTS, default="bert")
    parser.add_argument("--out", type=Path, help="results; by default beside the others, under the host's name")
    parser.add_argument("--only", nargs="*", choices=METHODS, help="contestants beside the plain checkpoint")
    parser.add_argument("--no-memory", action="store_true")
    parser.add_argument("--child", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.child:
        kind, host, work, n_batch, n_tokens = options.child
        run = runner(kind, work, int(n_batch), int(n_tokens), build_contestant(kind, host))
        run()
        Path("/proc/self/clear_refs").write_text("5")  # forget the peak of building the model (Linux)
        run()
        print(memory_mb())
        return

    host = options.host
    # naive KAM knows no scores but products
    kinds = ["plain", *(options.only or [kind for kind in METHODS if host == "bert" or kind != "naive"])]
    models = {kind: build_contestant(kind, host) for kind in kinds}
    results = []
    print(f"{host}, {N_SOURCES} sources, {options.threads} threads, fastest of {options.rounds} rounds; x: of plain")
    print(f"{'work':<10}{'(b, n)':<11}{'plain ms':>9}" + "".join(f"{kind:>14}" for kind in kinds[1:]) + "   peak MB")
    for (work, n_batch, n_tokens), targets in (TARGETS if host == "bert" else TARGETS_OF_OTHERS).items():
        runs = {kind: runner(kind, work, n_batch, n_tokens, model) for kind, model in models.items()}
        seconds = rounds_of(runs, options.rounds, warm_up=1)
        times = {kind: [1e3 * one for one in values] for kind, values in seconds.items()}
        best = {kind: min(values) for kind, values in times.items()}
        median = {kind: statistics.median(values) for kind, values in times.items()}
        memory = {}
        if not options.no_memory and (work == "training" or n_tokens == 512):  # elsewhere the weights are all there is
            memory = {kind: peak_megabytes(kind, host, work, n_batch, n_tokens) for kind in runs}
        row = {
            "work": work,
            "batch": n_batch,
            "seq": n_tokens,
            "fastest_ms": best,
            "median_ms": median,
            "ratio": {kind: best[kind] / best["plain"] for kind in kinds[1:]},
            "ratio_of_medians": {kind: median[kind] / median["plain"] for kind in kinds[1:]},
            "targets": targets,
            "peak_mb": memory,
        }
        results.append(row)
        cells = [
            f"{best[kind] / best['plain']:.2f}x" + (f" <={targets[kind]:.2f}" if kind in targets else "")
            for kind in kinds[1:]
        ]
        print(
            f"{work:<10}{f'({n_batch}, {n_tokens})':<11}{best['plain']:>9.0f}"
            + "".join(f"{cell:>14}" for cell in cells)
            + "   "
            + " / ".join(f"{value:.0f}" for value in memory.values()),
            flush=True,
        )
    if options.out is None or options.out.name:  # --out "" writes nothing
        facts = about("torch", threads=options.threads)
        name = "attention_cost.json" if host == "bert" else f"attention_cost_{host}.json"
        write_result(options.out or RESULTS / name, {"about": facts, "rounds": options.rounds, "rows": results})


if __name__ == "__main__":
    main()
