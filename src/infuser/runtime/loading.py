"""Reads an exported folder.

out/export.json       what the graph takes and answers, see `runtime.card`
out/model.onnx        the graph, with weights (beside it model.onnx.data from 2 GB on)
out/tokenizer.json    the tokenizer
out/sources/          what sources store of their own
out/digests.json      the SHA-256 of all files, see `seals`
"""

from __future__ import annotations

import importlib.util
import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from infuser.errors import CheckpointError, MissingExtraError, SourceError
from infuser.runtime.card import GRAPH, ExportCard, read_card
from infuser.runtime.model import ExportedModel
from infuser.runtime.tokenizer import TextTokenizer
from infuser.seals import checking_seal
from infuser.signals.batches import BatchMaker
from infuser.signals.candidates import bases_among, part_name
from infuser.signals.drawing import MapDrawer
from infuser.signals.tags import Tags
from infuser.signals.writing import Writer
from infuser.sources import Gliner, StanzaEntities, StanzaPhrases, TokenClassifier
from infuser.sources.storage import load_sources, name_of
from infuser.types import Source, Vocabulary, innermost

logger = logging.getLogger(__name__)

_AGAIN = "Export the model again."
_VECTORS = re.compile(part_name("(.+)", "vectors"))
"""The input of the graph that takes the vectors of a knowledge base."""
NOT_FUSED = ["SkipLayerNormFusion"]
"""Its one step for "add and normalise" works number by number: five times slower than adding, then normalising."""
_WITH_TORCH = (Gliner, StanzaEntities, StanzaPhrases, TokenClassifier)


def load(
    directory: str | Path, *, sources: Sequence[Source] | None = None, threads: int | None = None
) -> ExportedModel:
    """Read an exported model; `sources` replaces the saved ones.

    threads: how many the graph uses; None leaves it to onnxruntime, which takes one per core.
    """
    directory = Path(directory)
    card = read_card(directory)
    with checking_seal(directory, _AGAIN):
        if sources is None:
            sources = load_sources(card.sources, directory / "sources")
        _check_sources(card, sources)
        tokenizer: Any = TextTokenizer.load(directory / "tokenizer.json", card.tokenizer)
        session = _open_graph(directory / GRAPH, threads)
    settings, words = card.batches, card.vocabulary
    types, relations = (tuple(map(tuple, words[name])) for name in ("types", "relations"))
    share = settings["writer"]
    writer: Any = None if share is None else Writer(share)
    maker = BatchMaker(
        tokenizer,
        sources,
        max_length=settings["max_length"],
        vocabulary=Vocabulary(types, relations, words["with_terms"]),
        writer=writer,
        tensors=settings["tensors"],
        max_term_tokens=settings["max_term_tokens"],
    )
    drawer = None
    if card.drawer is not None:
        kinds = card.drawer["n_kinds"]
        drawer = MapDrawer(card.drawer["n_channels"], None if kinds is None else tuple(kinds), card.drawer["cls_row"])
    tags = None
    if card.tag_moves is not None:
        tags = Tags(tuple(name[2:] for name in card.labels[1::2]), tuple(map(tuple, card.tag_moves)))
    return ExportedModel(card, session, maker, drawer, tags)


def _check_sources(card: ExportCard, sources: Sequence[Source]) -> None:
    """Raise unless the graph can read these sources; warn of those that need torch."""
    if len(sources) != len(card.sources):
        raise CheckpointError(
            f"The model was exported with {len(card.sources)} sources, but {len(sources)} were given."
        )
    bases = {base.name: base for base in bases_among(sources).values()}
    for part, (_, *shape) in card.inputs.items():
        if (named := _VECTORS.fullmatch(part)) is None:
            continue
        name = named[1]
        if name not in bases:
            raise SourceError(f"This model reads the knowledge base {name!r}, which is not among the sources given.")
        if shape[-1] != bases[name].dim:
            raise SourceError(
                f"The vectors of {name!r} have {bases[name].dim} numbers each, but this model reads {shape[-1]}."
            )
    for source in map(innermost, sources):
        if not isinstance(source, _WITH_TORCH):
            continue
        if importlib.util.find_spec("torch") is None:
            raise MissingExtraError(
                f"The source {name_of(source)!r} reads with torch, which is not installed here. Install it (pip "
                "install torch), or infuse the model with a source that needs none, such as Entities."
            )
        logger.warning("The source %r reads with torch, which will be loaded with its first text", name_of(source))


def _open_graph(path: Path, threads: int | None) -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingExtraError(
            "Running an exported model needs onnxruntime: pip install 'infuser[runtime]'."
        ) from error
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors only
    if threads is not None:
        options.intra_op_num_threads = threads
    try:
        return onnxruntime.InferenceSession(
            str(path), options, providers=["CPUExecutionProvider"], disabled_optimizers=NOT_FUSED
        )
    except Exception as error:  # its errors have no class of their own
        raise CheckpointError(f"{path} cannot be read as a graph ({error}). {_AGAIN}") from error
