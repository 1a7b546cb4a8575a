from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

from infuser.errors import InputError
from infuser.tasks.glue import Cola, Mnli, Rte, StsB, Wnli
from infuser.tasks.glue_totals import write_submission, write_zip


@pytest.mark.parametrize(
    ("task", "logits", "n", "file", "lines"),
    [
        (Cola("d"), [[0.0, 1.0], [3.0, 1.0]], 1063, "CoLA.tsv", ["0\t1", "1\t0"]),
        (Rte("d"), [[0.0, 1.0], [3.0, 1.0]], 3000, "RTE.tsv", ["0\tnot_entailment", "1\tentailment"]),
        (Mnli("d"), [[0, 1, 0], [0, 0, 1]], 9796, "MNLI-m.tsv", ["0\tneutral", "1\tcontradiction"]),
        (Mnli("d", matched=False), [[1, 0, 0], [0, 0, 1]], 9847, "MNLI-mm.tsv", ["0\tentailment", "1\tcontradiction"]),
        (StsB("d"), [[5.7], [-0.3], [2.34567]], 1379, "STS-B.tsv", ["0\t5.000", "1\t0.000", "2\t2.346"]),
    ],
)
def test_answers_are_written_as_the_server_wants_them(task, logits, n, file, lines, tmp_path: Path):
    path = write_submission(task, [*logits, *[logits[0]] * (n - len(logits))], tmp_path)
    written = path.read_text().split("\n")
    assert path == tmp_path / file and written[-1] == ""
    assert written[: len(lines) + 1] == ["index\tprediction", *lines]
    assert len(written) == n + 2 and written[-2].startswith(f"{n - 1}\t")


def test_answers_to_half_a_test_part_are_refused(tmp_path: Path):
    with pytest.raises(InputError, match=r"WNLI\.tsv has 146 rows.* shape \(146, 2\); they are \(71, 2\)"):
        write_submission(Wnli("d"), np.zeros((71, 2)).tolist(), tmp_path)
    with pytest.raises(InputError, match=r"2 of the predictions for WNLI\.tsv are not finite"):
        write_submission(Wnli("d"), [[float("nan")] * 2, *[[0.0, 1.0]] * 145], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_zip_holds_what_is_there_and_tells_what_is_missing(tmp_path: Path):
    with pytest.raises(InputError, match="holds no answers"):
        write_zip(tmp_path, tmp_path / "glue.zip")
    write_submission(Wnli("d"), np.eye(2)[[0, 1] * 73].tolist(), tmp_path / "answers")
    (tmp_path / "answers" / "notes.txt").write_text("not an answer")
    missing = write_zip(tmp_path / "answers", tmp_path / "glue.zip")
    assert len(missing) == 10 and {"CoLA.tsv", "MNLI-mm.tsv", "AX.tsv"} <= set(missing) and "WNLI.tsv" not in missing
    with zipfile.ZipFile(tmp_path / "glue.zip") as archive:
        assert archive.namelist() == ["WNLI.tsv"]
        assert archive.read("WNLI.tsv") == (tmp_path / "answers" / "WNLI.tsv").read_bytes()
