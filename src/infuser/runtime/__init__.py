"""Exported models at work: onnxruntime, tokenizers and NumPy; neither torch nor transformers."""

from infuser.runtime.loading import load
from infuser.runtime.model import ExportedModel

__all__ = ["ExportedModel", "load"]
