"""sentence-transformers on an infused encoder.

python examples/sentence_vectors.py [SAVED_INFUSED_MODEL]
"""

from __future__ import annotations

import sys

import miniature
import torch
from sentence_transformers import SentenceTransformer

import infuser

infused = infuser.load(sys.argv[1]) if len(sys.argv) > 1 else miniature.trained()

sentences = SentenceTransformer(infused.base, device="cpu")
sentences[0].model = infused.model.base_model
sentences[0].processor = infused.reading_tokenizer()

[example, *_], [(product, _, shop), *_] = miniature.query_ads(4, seed=1)
texts = [str(example["text"]), f"{product} from the {shop}"]
vectors = sentences.encode(texts, convert_to_tensor=True, normalize_embeddings=False)

batch = infused.batch(texts)
mask = batch["attention_mask"][..., None]
means = (infused.encode(texts) * mask).sum(dim=1) / mask.sum(dim=1)
print("vectors:", tuple(vectors.shape))
print("they are the means of the infused states:", torch.allclose(vectors, means, atol=1e-5))

sentences[0].processor = infused.tokenizer
plain = sentences.encode(texts, convert_to_tensor=True, normalize_embeddings=False)
moved = (vectors - plain).norm(dim=1)
print("knowledge moved the vector of the text that has a link:", bool(moved[1] > 1e-3))
