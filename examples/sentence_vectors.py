"""Sentence vectors with knowledge: trained under sentence-transformers, saved, loaded, with and without a source.

python examples/sentence_vectors.py [CHECKPOINT]
"""

from __future__ import annotations

import sys

import miniature
import numpy as np
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from sentence_transformers.sentence_transformer.modules import Pooling

import infuser
from infuser import Graph, Kam
from infuser.clients.sentence_transformers import InfusedTransformer

checkpoint = sys.argv[1] if len(sys.argv) > 1 else miniature.checkpoint()
_, triples = miniature.query_ads(160, seed=0)
out = miniature.scratch()

infused = infuser.infuse(checkpoint, Kam(), sources=[Graph(triples)])
sentences = SentenceTransformer(
    modules=[InfusedTransformer(infused), Pooling(infused.model.config.hidden_size)], device="cpu"
)

offers = [f"{product} from the {shop}" for product, _, shop in triples]  # the graph ties the two
ads = [f"the best {shop} in town" for *_, shop in triples]
trainer = SentenceTransformerTrainer(
    model=sentences,
    args=SentenceTransformerTrainingArguments(
        out / "run", num_train_epochs=2, learning_rate=3e-3, report_to=[], save_strategy="no"
    ),
    train_dataset=Dataset.from_dict({"anchor": offers, "positive": ads}),
    loss=MultipleNegativesRankingLoss(sentences),
)
trainer.train()

texts = offers[:4]
vectors = sentences.encode(texts)  # (texts, hidden)

sentences.save_pretrained(str(out / "sentences"))
again = SentenceTransformer(str(out / "sentences"), trust_remote_code=True)  # asked for whatever is not its own

print("vectors:", vectors.shape)
print("loaded, it gives the same vectors:", np.allclose(again.encode(texts), vectors, atol=1e-5))

# without sentence-transformers
same = infused.embed(texts, normalize=False)  # the mean of each text's states
print("embed gives the same vectors:", np.allclose(same.numpy(), vectors, atol=1e-5))

with infused.disabled("graph"):  # or disabled(): without any knowledge
    plain = sentences.encode(texts)
print("without the graph, others:", not np.allclose(plain, vectors, atol=1e-3))
