"""Vectors of entities trained on triples with PyKEEN, an optional extra: entities that are tied alike lie alike.

Only entities of at least one triple get a vector; what stands in no triple can be learned from none. The vectors are
taken out of the trained model as plain numbers: nothing of PyKEEN's own files is written or read.
"""

from __future__ import annotations

import gc
import os
import random
import sys
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from infuser.errors import InputError, MissingExtraError, UnknownNameError, did_you_mean
from infuser.knowledge.artifact import kind_of, whole
from infuser.knowledge.facts import TRIPLES
from infuser.knowledge.graph.build import number_columns
from infuser.knowledge.graph.store import KIND as GRAPH
from infuser.knowledge.graph.store import GraphStore
from infuser.knowledge.vectors.store import EntityVectors, Floats
from infuser.tables.skipped import Skipped

_BY_DISTANCE = ("TransE", "RotatE", "MuRE", "PairRE")
"""Models that learn more when the hardest made-up triples count most; others keep the loss that PyKEEN chose."""


class Triples(NamedTuple):
    """Triples by numbers, each once."""

    ids: list[str]
    """The entities that occur in them."""
    relations: list[str]
    numbers: NDArray[np.int64]  # (triples, 3): head, relation, tail


@dataclass(frozen=True, slots=True)
class TrainedVectors:
    """Settings of vectors that are trained on triples."""

    model: str = "TransE"
    """One of PyKEEN's models, by name; of a complex-valued one (ComplEx, RotatE) vectors have 2 x dim real numbers."""
    dim: int = 100
    """Numbers per vector."""
    epochs: int = 20
    """How often all triples are read."""
    batch_size: int = 1024
    """Triples per step."""
    learning_rate: float = 0.005
    """Step size of Adam."""
    n_negatives: int = 16
    """Made-up triples that each true one is compared with."""
    seed: int = 0
    """The same seed gives the same vectors on the same machine."""
    scale: bool = True
    """Give each vector the length sqrt(dim)."""


def train_vectors(triples: Triples, settings: TrainedVectors | None = None, *, progress: bool = False) -> EntityVectors:
    """Return vectors of the entities in these triples, in memory; `save` writes them into a folder."""
    settings = settings or TrainedVectors()
    for name in ("dim", "epochs", "batch_size", "n_negatives"):
        if getattr(settings, name) < 1:
            raise InputError(f"{name}={getattr(settings, name)} cannot be used; it must be 1 or more.")
    if not 0 < settings.learning_rate < np.inf:
        raise InputError(f"learning_rate={settings.learning_rate:g} cannot be used; it must be above 0.")
    if not len(triples.numbers):
        raise InputError("There is not one triple to learn from. Check that this is the right file or graph.")
    vectors = _train(triples, settings, progress)
    if vectors is None or not np.isfinite(vectors).all():
        raise InputError(
            f"Training {settings.model} diverged: its numbers became infinite. Choose a smaller learning rate than "
            f"{settings.learning_rate:g}, or another model."
        )
    kept = {name: value for name, value in asdict(settings).items() if name not in ("dim", "scale")}
    about = {"way": "triples", **kept, "n_triples": len(triples.numbers)}
    return EntityVectors.of(triples.ids, vectors, about, scale=settings.scale)


def read_triples(path: str | Path, skipped: Skipped | None = None) -> Triples:
    """Return the triples of a graph folder or of a file of triples."""
    if kind_of(path) == GRAPH:
        return triples_of_graph(GraphStore.open(path))
    from infuser.knowledge.readers import read_facts

    return number_triples(read_facts(path, Skipped() if skipped is None else skipped))


def number_triples(facts: Iterable[pa.RecordBatch]) -> Triples:
    """Return the triples among these facts by numbers; batches of entities are passed over."""
    batches = [batch for batch in facts if batch.schema.names == TRIPLES.names]
    heads, kinds, tails = ([batch[name] for batch in batches] for name in ("head", "relation", "tail"))
    ids, ends = number_columns([*heads, *tails])
    relations, between = number_columns(kinds)
    return _once(
        ids.to_pylist(), relations.to_pylist(), np.stack([ends[: len(between)], between, ends[len(between) :]], axis=1)
    )


def triples_of_graph(graph: GraphStore) -> Triples:
    """Return the edges of a graph as triples."""
    begins, tails, kinds = (whole(graph.parts[f"edges.{name}"]) for name in ("begins", "neighbours", "kinds"))
    heads = np.repeat(np.arange(graph.n_entities), np.diff(begins))
    forward = kinds & 1 == 0  # every other edge is seen from both ends
    numbers = np.stack([heads[forward], kinds[forward].astype(np.int64) >> 1, tails[forward]], axis=1)
    met, ends = np.unique(numbers[:, [0, 2]], return_inverse=True)
    numbers[:, [0, 2]] = ends.reshape(-1, 2)
    return _once([graph.id_of(number) for number in met.tolist()], list(graph.relations), numbers)


def _once(ids: list[str], relations: list[str], numbers: NDArray[Any]) -> Triples:
    return Triples(ids, relations, np.unique(numbers.astype(np.int64), axis=0))


def _train(triples: Triples, settings: TrainedVectors, progress: bool) -> Floats | None:
    """Return the entity vectors of a PyKEEN model that was trained on these triples, None if that went wrong."""
    _load_pykeen()
    import torch
    from pykeen.training import NonFiniteLossError, SLCWATrainingLoop
    from pykeen.triples import CoreTriplesFactory

    factory = CoreTriplesFactory(triples.numbers, len(triples.ids), len(triples.relations))
    with _own_chance(settings.seed):
        model = _make_model(settings, triples_factory=factory, random_seed=settings.seed)
        loop = SLCWATrainingLoop(
            model=model,
            triples_factory=factory,
            optimizer=torch.optim.Adam(model.parameters(), lr=settings.learning_rate),
            negative_sampler_kwargs={"num_negs_per_pos": settings.n_negatives},
        )
        try:
            with _cheap_tidying():
                loop.train(
                    factory,
                    num_epochs=settings.epochs,
                    batch_size=min(settings.batch_size, len(triples.numbers)),
                    use_tqdm=progress,
                    use_tqdm_batch=False,
                    tqdm_kwargs={"disable": None},
                    pin_memory=False,
                )
        except NonFiniteLossError:
            return None
        with torch.inference_mode():
            rows = model.entity_representations[0]()
            rows = torch.view_as_real(rows) if rows.is_complex() else rows
            vectors: Floats = rows.float().flatten(1).cpu().numpy()
    return vectors


def _make_model(settings: TrainedVectors, **arguments: Any) -> Any:
    from pykeen.models import model_resolver

    known: dict[str, Any] = {one.__name__.casefold(): one for one in model_resolver.lookup_dict.values()}
    chosen = known.get(settings.model.casefold())
    if chosen is None:
        names = sorted(one.__name__ for one in known.values())
        hint = did_you_mean(settings.model, names)
        raise UnknownNameError(f"PyKEEN has no model called {settings.model!r}.{hint} Known: {', '.join(names)}.")
    try:
        loss = "nssa" if chosen.__name__ in _BY_DISTANCE else None
        return chosen(embedding_dim=settings.dim, loss=loss, **arguments)
    except (AttributeError, TypeError, ValueError) as error:
        raise InputError(
            f"PyKEEN's {chosen.__name__} cannot be made from triples and dim={settings.dim} alone ({error}). Choose "
            "another model, such as TransE, DistMult, ComplEx or RotatE."
        ) from error


def _load_pykeen() -> None:
    """Import PyKEEN without the folders that it makes in the user's home when it is first imported."""
    if sys.modules.get("pykeen"):
        return
    before = os.environ.get("PYSTOW_HOME")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PYSTOW_HOME"] = folder
        try:
            import pykeen
            import pykeen.training  # noqa: F401
        except ImportError as error:
            raise MissingExtraError(
                f"Training vectors needs PyKEEN, which cannot be imported ({error}): pip install 'infuser[pykeen]'."
            ) from error
        finally:
            if before is None:
                del os.environ["PYSTOW_HOME"]
            else:
                os.environ["PYSTOW_HOME"] = before


@contextmanager
def _own_chance(seed: int) -> Iterator[None]:
    """Draw from this seed inside, and give everybody their own random numbers back afterwards."""
    import torch

    of_numpy, of_python = np.random.get_state(), random.getstate()  # PyKEEN seeds all three
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            yield
        finally:
            np.random.set_state(of_numpy)
            random.setstate(of_python)


@contextmanager
def _cheap_tidying() -> Iterator[None]:
    """Let Python's garbage collector pass over what is there now: PyKEEN calls it after every epoch, for half a second.

    Also keep quiet about pinned memory, which PyKEEN asks for in vain where there is no accelerator.
    """
    was_frozen = gc.get_freeze_count() > 0
    gc.freeze()
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*pin_memory.*")
            yield
    finally:
        if not was_frozen:
            gc.unfreeze()
