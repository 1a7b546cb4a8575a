"""The whole of GLUE: its average, and the files that its server takes: one .tsv per set, packed into one .zip."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from infuser.errors import InputError
from infuser.files import whole_file, write_whole
from infuser.registry import TASKS
from infuser.tasks.glue import Glue, Mnli

_FILES = {
    "cola": ("CoLA.tsv", 1063),
    "sst-2": ("SST-2.tsv", 1821),
    "mrpc": ("MRPC.tsv", 1725),
    "sts-b": ("STS-B.tsv", 1379),
    "qqp": ("QQP.tsv", 390_965),
    "mnli": ("MNLI-m.tsv", 9796),
    "mnli-mm": ("MNLI-mm.tsv", 9847),
    "qnli": ("QNLI.tsv", 5463),
    "rte": ("RTE.tsv", 3000),
    "wnli": ("WNLI.tsv", 146),
}
"""The name of each set's file, and how many rows its test part has."""

_WANTED = (*(name for name, _ in _FILES.values()), "AX.tsv")
_AVERAGED = ("cola", "sst-2", "mrpc", "sts-b", "qqp", "mnli", "qnli", "rte")
_MNLI_PARTS = ("mnli", "mnli-m", "mnli-mm")


def write_submission(task: Glue, predictions: Sequence[Sequence[float]], folder: str | Path) -> Path:
    """Write the answers to a task's test part, logits in the order of its rows, and return the file."""
    name = TASKS.name_of(task)
    file, n_wanted = _FILES["mnli-mm" if isinstance(task, Mnli) and not task.matched else name]
    logits = np.asarray(predictions, dtype=np.float64)
    n_logits = max(1, len(task.labels))
    if logits.shape != (n_wanted, n_logits):
        raise InputError(
            f"{file} has {n_wanted:,} rows, so it needs predictions of shape {(n_wanted, n_logits)}; they are "
            f"{logits.shape}. Give the answers to the whole test part of {name!r}."
        )
    if not np.isfinite(logits).all():
        raise InputError(f"{np.count_nonzero(~np.isfinite(logits)):,} of the predictions for {file} are not finite.")
    if task.labels:
        answers: list[Any] = [task.spell(label) for label in logits.argmax(axis=1).tolist()]
    else:
        answers = [f"{score:.3f}" for score in logits[:, 0].clip(0, 5).tolist()]
    lines = ["index\tprediction", *(f"{number}\t{answer}" for number, answer in enumerate(answers))]
    return write_whole(Path(folder) / file, "\n".join(lines) + "\n")


def write_zip(folder: str | Path, path: str | Path) -> list[str]:
    """Pack a folder's answer files into `path`, and return the names of those of the eleven that are not there.

    The eleventh is AX.tsv, the answers of an MNLI model to GLUE's diagnostic set, which is no task here; a file of that
    name in the folder is packed, too.
    """
    there = [name for name in _WANTED if (Path(folder) / name).is_file()]
    if not there:
        raise InputError(
            f"{str(folder)!r} holds no answers. Write some with write_submission; they are called CoLA.tsv."
        )
    with whole_file(path, "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in there:
            archive.write(Path(folder) / name, name)
    return [name for name in _WANTED if name not in there]


def glue_average(scores: Mapping[str, Mapping[str, float]], *, with_wnli: bool = False) -> float:
    """Return the mean over the tasks of the mean of each task's metrics, from scores by task and metric.

    Without WNLI, as most papers have it, eight tasks count. MNLI is one of them: matched ("mnli" or "mnli-m") and
    mismatched ("mnli-mm") are averaged first where both are there. All tasks must be: a mean over fewer is another
    number.
    """
    wanted = (*_AVERAGED, "wnli") if with_wnli else _AVERAGED
    parts = {name: _MNLI_PARTS if name == "mnli" else (name,) for name in wanted}
    missing = [name for name in wanted if not any(part in scores for part in parts[name])]
    if missing:
        raise InputError(
            f"The average of GLUE is over {', '.join(wanted)}, but there are no scores of {', '.join(missing)}. Run "
            "them, too, or average what there is yourself and say so."
        )
    return fmean(
        fmean(fmean(scores[part][metric] for metric in TASKS[name].metrics) for part in parts[name] if part in scores)
        for name in wanted
    )
