"""sentence-transformers on an infused encoder.

python examples/sentence_vectors.py [SAVED_INFUSED_MODEL]
"""

from __future__ import annotations

import sys
from typing import Any

import miniature
import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor
from transformers import PreTrainedModel

import infuser


class Called(torch.nn.Module):
    """Calls the encoder itself: sentence-transformers calls `model.forward`, past the hook that reads knowledge."""

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.model, self.config = model, model.config

    def forward(self, **batch: Tensor) -> Any:
        return self.model(**batch)


infused = infuser.load(sys.argv[1]) if len(sys.argv) > 1 else miniature.trained()

sentences = SentenceTransformer(infused.base, device="cpu")
sentences[0].model = Called(infused.model.base_model)
sentences[0].processor = infused.reading_tokenizer()

_, [(product, _, shop), *_] = miniature.query_ads(4, seed=1)
texts = ["buy medicine online", f"{product} from the {shop}"]
vectors = sentences.encode(texts, convert_to_tensor=True)  # (texts, hidden)

mask = infused.batch(texts)["attention_mask"][..., None]
means = (infused.encode(texts) * mask).sum(dim=1) / mask.sum(dim=1)
print("vectors:", tuple(vectors.shape))
print("they are the means of the infused states:", torch.allclose(vectors, means, atol=1e-5))

sentences[0].processor = infused.tokenizer
plain = sentences.encode(texts, convert_to_tensor=True)
print("knowledge moved the text with a link:", bool((vectors - plain)[1].norm() > 0.01))
