"""A kind of encoder that Infuser does not know yet, described in ten lines: data2vec-text.

python examples/new_host.py
"""

from __future__ import annotations

import miniature
import torch
from transformers import AutoTokenizer, Data2VecTextConfig, Data2VecTextForSequenceClassification

import infuser
from infuser import Graph
from infuser.errors import HostError
from infuser.hosts import HOSTS, Anatomy, attentions

tokenizer = AutoTokenizer.from_pretrained(miniature.checkpoint())
config = Data2VecTextConfig(
    vocab_size=len(tokenizer),
    pad_token_id=tokenizer.pad_token_id,
    max_position_embeddings=66,
    **dict.fromkeys(("hidden_size", "intermediate_size"), 32),
    **dict.fromkeys(("num_hidden_layers", "num_attention_heads"), 2),
    initializer_range=0.3,  # wide, so that a change is seen
)
torch.manual_seed(0)
host = Data2VecTextForSequenceClassification(config).eval().double()
train_set, known = miniature.query_ads(16, seed=0)
sources = [Graph(known), Graph(known, n_terms=2)]

try:
    infuser.infuse(host, infuser.Kam(), sources=sources, tokenizer=tokenizer)
except HostError as error:
    print(error)

HOSTS["data2vec-text"] = Anatomy(
    blocks=lambda base: list(base.encoder.layer),
    attention=lambda block: block.attention.self,
    project=lambda attention, states: (attention.key(states), attention.value(states)),
    counts_from_padding=True,
)

ids = tokenizer(train_set[0]["text"], return_tensors="pt")
with torch.inference_mode():
    plain = host(**ids).logits
infused = infuser.infuse(host, infuser.Kam(), sources=sources, tokenizer=tokenizer)
print("attention modules found:", len(attentions(infused.model)))


def differs(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Tell a change from rounding, which is small in float64."""
    return bool((one - other).abs().max() > 1e-9)


def logits(rows: list[dict[str, object]], *, knowledge: bool = True) -> torch.Tensor:
    """Return what the model answers to a batch of these rows."""
    batch = infused.collator()(rows)
    if not knowledge:
        batch = {name: tensor for name, tensor in batch.items() if not name.startswith("knowledge_")}
    with torch.inference_mode():
        return infused.model(**batch).logits


rows = [{"text": row["text"], "pair": row["pair"]} for row in train_set]
print("a fresh infusion answers as before:", not differs(logits(rows), logits(rows, knowledge=False)))
generator = torch.Generator().manual_seed(0)
with torch.no_grad():  # in place of training: move all new weights away from where they change nothing
    for name, weight in infused.model.named_parameters():
        if "knowledge" in name.split("."):
            weight += 0.1 * torch.rand(weight.shape, generator=generator, dtype=weight.dtype)
print("knowledge changes the answer:", differs(logits(rows), logits(rows, knowledge=False)))
with torch.inference_mode():
    print("without it, the encoder's own answer:", torch.equal(infused.model(**ids).logits, plain))
alone = torch.cat([logits([row]) for row in rows])
print("company does not matter:", not differs(logits(rows), alone))

out = miniature.scratch() / "saved"
infused.save(out)
again = infuser.load(out)  # in another program: after the entry was made there
with torch.inference_mode():
    same = torch.equal(again.model(**again.collator()(rows)).logits, logits(rows))
print("loaded, it answers the same:", same)
