"""The Spark session: borrowed or started, what is missing, and Spark's errors in one sentence."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from spark_cluster import MASTER, needs_spark, run_driver, spark_local  # noqa: F401  a fixture

from infuser.errors import InfuserError, InputError, MissingExtraError
from infuser.sources import Entities
from infuser.sources.annotating import annotate
from infuser.spark import explain, n_slots, open_session


@pytest.mark.parametrize("package", ["pyspark", "pandas"])
def test_a_missing_package_is_named_before_anything_is_cleared(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    annotate(["Bern"], [Entities.tiny()], tmp_path / "out")
    before = sorted(os.listdir(tmp_path / "out"))
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"{package}.*pip install 'infuser\[spark\]'"):
        annotate(["Bern"], [Entities.tiny()], tmp_path / "out", engine="spark", restart=True)
    assert sorted(os.listdir(tmp_path / "out")) == before


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"engine": "spark", "workers": 2}, r"workers=2.*local\[4\]"),
        ({"master": "local[2]"}, "engine='spark'"),
        ({"engine": "dask"}, "local or spark"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(given: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        annotate(["Bern"], [Entities.tiny()], tmp_path / "out", **given)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@needs_spark
@pytest.mark.parametrize("home", ["", "nowhere"])
def test_without_java_one_line_says_what_to_install(home: str, tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("Bern\n")
    given = ["--source", "phrases,phrases=['Bern']", "--out", str(tmp_path / "out"), "--engine", "spark"]
    environment = {"PATH": str(tmp_path), "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "JAVA_HOME": home}
    command = [sys.executable, "-m", "infuser", "annotate", str(tmp_path / "t.txt"), *given]
    child = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)
    assert child.returncode == 1 and child.stdout == ""
    (line,) = child.stderr.splitlines()
    assert line.startswith("Error: Spark needs Java") and "Java 17 or newer" in line and "JAVA_HOME" in line
    assert "nowhere" in line if home else "PATH" in line


@pytest.mark.slow
@needs_spark
@pytest.mark.skipif(sys.platform == "win32", reason="a shell script plays Java")
def test_a_java_that_does_not_start_is_quoted(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    java = tmp_path / "bin" / "java"
    java.write_text(
        "#!/bin/sh\necho 'Error: java.lang.UnsupportedClassVersionError: class file version 61.0' >&2\nexit 1\n"
    )
    java.chmod(0o755)
    code = (
        "import os, sys; os.environ['JAVA_HOME'] = sys.argv[1]\n"
        "from infuser.errors import InfuserError\n"
        "from infuser.spark import open_session\n"
        "try:\n    open_session('local[1]', 'test').__enter__()\nexcept InfuserError as error:\n    print(error)\n"
    )
    child = run_driver(code, tmp_path)
    assert child.stderr == "" and "UnsupportedClassVersionError" in child.stdout and "Java 17" in child.stdout


@pytest.mark.slow
@needs_spark
@pytest.mark.usefixtures("spark_local")
def test_one_that_runs_is_used_and_left_running() -> None:
    from pyspark.sql import SparkSession

    running = SparkSession.active()
    for master in (None, MASTER):
        with open_session(master, "test") as session:
            assert session is running and n_slots(session) == 2
    assert running.range(3).count() == 3
    with pytest.raises(InputError, match=r"runs in this process with the master 'local\[2\]'.*'local\[3\]'"):
        open_session("local[3]", "test").__enter__()


@pytest.mark.slow
@needs_spark
@pytest.mark.usefixtures("spark_local")
def test_it_is_quiet_and_has_no_page() -> None:
    with open_session(None, "test") as session:
        conf = session.sparkContext.getConf()
        assert session.sparkContext.uiWebUrl is None and conf.get("spark.log.level") == "ERROR"
        assert session.sparkContext.pythonExec == os.environ.get("PYSPARK_PYTHON", sys.executable)


@pytest.mark.slow
@needs_spark
@pytest.mark.usefixtures("spark_local")
def test_an_error_in_a_function_is_one_sentence() -> None:
    def fail(batches: Iterator[Any]) -> Iterator[Any]:
        for _ in batches:
            raise ValueError("seven is odd.")
        yield from batches

    with pytest.raises(InfuserError) as caught, open_session(None, "test") as session:
        session.range(3).mapInArrow(fail, "id long").collect()
    assert str(caught.value) == "Spark gave up: ValueError: seven is odd."


@pytest.mark.slow
@needs_spark
def test_a_session_is_stopped_at_the_end_and_the_users_settings_win(tmp_path: Path) -> None:
    code = """
import os
from pyspark.sql import SparkSession
from infuser.errors import InfuserError
from infuser.spark import open_session
submitted = os.environ["PYSPARK_SUBMIT_ARGS"]
os.environ["PYSPARK_SUBMIT_ARGS"] = f"--master local[3] --conf spark.log.level=FATAL {submitted}"
for name in ("one", "two"):
    with open_session(None, name) as session:
        conf = session.sparkContext.getConf()
        print(conf.get("spark.master"), conf.get("spark.log.level"), session.sparkContext.appName)
print(SparkSession.getActiveSession(), "PYSPARK_PYTHON" in os.environ)
try:
    open_session("nonsense", "three").__enter__()
except InfuserError as error:
    print(error)
"""
    child = run_driver(code)
    assert child.stderr == "" and child.stdout.splitlines() == [
        *("local[3] FATAL one", "local[3] FATAL two", f"None {'PYSPARK_PYTHON' in os.environ}"),
        "Spark cannot be started with the master 'nonsense': Could not parse Master URL: 'nonsense'.",
    ]


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (
            "An error occurred while calling o7.x.\n: java.lang.IllegalStateException: Cannot call.\n\tat x",
            "Cannot call.",
        ),
        (
            "[PYTHON_VERSION_MISMATCH] Python 3.9 is not 3.11.\n\nJVM stacktrace:\nx",
            "[PYTHON_VERSION_MISMATCH] Python 3.9",
        ),
        ("Job aborted: ExecutorLostFailure (executor 3 exited)\n", "died"),
        ("", "no reason given."),
    ],
)
def test_long_errors_of_spark_become_a_sentence(told: str, said: str) -> None:
    assert said in explain(told) and "\n" not in explain(told)
