"""A graph in float32 becomes one whose large matrices are 8-bit integers, for less memory and faster answers."""

from __future__ import annotations

import logging
from pathlib import Path

from infuser.errors import MissingExtraError


def quantize(path: Path, target: Path) -> None:
    """Write a graph with quantised matrices and embeddings; activations are quantised while it runs.

    Attention scores, maps and the convolution over them stay as they are.
    """
    try:
        import onnx
        from onnxruntime.quantization import QuantType, quantize_dynamic
    except ImportError as error:
        raise MissingExtraError(
            "Exporting to int8 needs onnx and onnxruntime: pip install 'infuser[export]'."
        ) from error
    root = logging.getLogger()
    level = root.level
    root.setLevel(logging.ERROR)  # it advises a preprocessing for convolutions, which stay as they are
    try:
        graph = onnx.load(path)
        del graph.graph.value_info[:]  # shapes of matrices that the quantiser turns around, which it would trip over
        quantize_dynamic(
            graph,
            target,
            op_types_to_quantize=["MatMul", "Gather"],
            weight_type=QuantType.QInt8,
            extra_options={"MatMulConstBOnly": True},
        )
    finally:
        root.setLevel(level)
