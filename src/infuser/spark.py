"""A Spark session for what outgrows one machine: started and stopped, or borrowed; its errors in one sentence."""

from __future__ import annotations

import importlib
import logging
import os
import re
import shutil
import sys
import threading
import warnings
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infuser.errors import InfuserError, InputError, MissingExtraError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)

_JAVA = "Install Java 17 or newer (for example the package openjdk-17-jre-headless), or set JAVA_HOME to where it is"
_HERE = re.compile(r"local(\[.*\])?$|spark://(localhost|127\.[\d.]+|\[::1\])(:|$)")
"""Masters whose executors run on this machine."""
_USUAL = {"spark.ui.enabled": "false", "spark.log.level": "ERROR", "spark.sql.execution.arrow.pyspark.enabled": "true"}
_USUAL_HERE = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
"""Settings where the user has none. On one machine the loopback is enough, whatever its name resolves to."""
_SLOTS_UNKNOWN = 32


@contextmanager
def open_session(master: str | None, name: str) -> Iterator[SparkSession]:
    """Yield the Spark session that runs in this process, which is left running, or a new one, stopped at the end.

    Without `master` a new one runs where Spark's own settings say (spark-defaults.conf, PYSPARK_SUBMIT_ARGS,
    SPARK_REMOTE), else on all cores of this machine. Whatever Spark raises inside comes out as one InfuserError.
    """
    check_spark(master)
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas", category=FutureWarning)
    running = _running(master)
    if running is not None:
        with clear_errors():
            yield running
        return
    with clear_errors(f"Spark cannot be started with the master {master!r}" if master else "Spark cannot be started"):
        session = _start(master, name)
    try:
        with clear_errors():
            yield session
    finally:
        session.stop()


def check_engine(engine: str, master: str | None, workers: int | None) -> None:
    """Raise InputError unless engine, master and workers go together, MissingExtraError if Spark is absent."""
    if engine not in ("local", "spark"):
        raise InputError(f"engine is {engine!r}; it can be local or spark.")
    if engine == "local":
        if master is not None:
            raise InputError(f"A master ({master!r}) is Spark's. Give --engine spark (engine='spark') with it.")
        return
    if workers:
        raise InputError(
            f"workers={workers} are processes of this machine; with Spark the cluster says how many there are. Leave "
            "them out; --master 'local[4]' is Spark with four on this machine."
        )
    check_spark(master)


def check_spark(master: str | None = None) -> None:
    """See that what a session needs is installed, before any work is done."""
    for package in ("pyspark", "pandas"):
        try:
            importlib.import_module(package)
        except ImportError as error:
            raise MissingExtraError(
                f"Spark needs {package}, which cannot be imported ({error}): pip install 'infuser[spark]'."
            ) from error
    # set where spark-submit has started us, and where a Connect session runs: Java is elsewhere
    if _is_remote(master) or {"PYSPARK_GATEWAY_PORT", "SPARK_CONNECT_MODE_ENABLED"} & os.environ.keys():
        return
    home = os.environ.get("JAVA_HOME")
    if home and not shutil.which("java", path=Path(home) / "bin"):
        raise InfuserError(f"Spark needs Java, and there is none in JAVA_HOME ({home}). {_JAVA}.")
    if not home and not shutil.which("java"):
        raise InfuserError(f"Spark needs Java, and there is no java on the PATH. {_JAVA}.")


def n_slots(session: SparkSession) -> int:
    """Return how many tasks run at once now; executors come and go, so ask again from time to time."""
    context: Any = getattr(session, "sparkContext", None)  # Spark Connect has none
    return _SLOTS_UNKNOWN if context is None else int(context.defaultParallelism)


@contextmanager
def clear_errors(what: str = "Spark gave up") -> Iterator[None]:
    """Turn what Spark raises inside into one InfuserError; Spark's own, with all its traces, stays as the cause."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise InfuserError(f"{what}: {explain(str(error))}") from error


def explain(reason: str) -> str:
    """Return in a sentence or two what is wrong and what to do, from the many lines that Spark raises."""
    missing = re.search(r"No module named '([\w.]+)'", reason)
    if missing:
        return explain_import(missing[1])
    if "Python worker exited unexpectedly" in reason or "ExecutorLostFailure" in reason:
        return (
            "a process on an executor died, again and again; often its memory ran out. What is finished stays: run the "
            "same again, perhaps with a larger spark.executor.memoryOverhead or fewer spark.executor.cores."
        )
    head, _, trace = reason.partition("Traceback (most recent call last):")
    raised = [line for line in trace.splitlines() if re.match(r"[\w.]+(Error|Exception|Interrupt)\b", line)]
    lines = [line.strip() for line in head.splitlines() if line.strip() and "occurred while calling" not in line]
    first = raised[-1] if raised else lines[0] if lines else "no reason given"
    return re.sub(r"^(: )?([\w$]+\.)+[\w$]+: ", "", first).rstrip(".") + "."


def explain_import(module: str) -> str:
    """Return what to do about a module that the executors cannot import."""
    package = module.partition(".")[0]
    if package == "infuser":
        return (
            "the executors' Python cannot import infuser. Install it on every node, the same version as here (pip "
            "install infuser), or name a Python that has it in PYSPARK_PYTHON."
        )
    return (
        f"the executors' Python cannot import {package!r}. Install it on every node; or, if it is a file of yours, "
        "hand it over with PYSPARK_SUBMIT_ARGS='--py-files FILE.py pyspark-shell'."
    )


def _running(master: str | None) -> SparkSession | None:
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    try:
        session = SparkSession.active()
    except PySparkRuntimeError:
        return None
    context: Any = getattr(session, "sparkContext", None)
    if context is not None and master not in (None, context.master):
        raise InputError(
            f"A Spark session runs in this process with the master {context.master!r}, so there cannot be one with "
            f"{master!r}. Leave the master out to use it, or stop it first."
        )
    return session


def _start(master: str | None, name: str) -> SparkSession:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

    if _is_remote(master):
        return SparkSession.builder.appName(name).remote(master or os.environ["SPARK_REMOTE"]).getOrCreate()
    _start_java()
    settings = SparkConf().setAppName(name)  # begins with what spark-submit read
    if master:
        settings.setMaster(master)
    settings.set("spark.ui.showConsoleProgress", "false")  # there is a progress bar already
    usual, given = dict(_USUAL), os.environ.get("PYSPARK_PYTHON")
    here = _HERE.match(settings.get("spark.master", "") or "")
    if here:  # the executors run on this machine: what can be imported here can be there
        usual |= {**_USUAL_HERE, "spark.executorEnv.PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    for key, value in usual.items():
        settings.setIfMissing(key, value)
    try:
        if here and given is None:
            os.environ["PYSPARK_PYTHON"] = sys.executable  # read while a session starts, and nowhere else
        return SparkSession.builder.config(conf=settings).getOrCreate()
    finally:
        if given is None:
            os.environ.pop("PYSPARK_PYTHON", None)


def _start_java() -> None:
    """Start Spark's Java process if there is none yet; what it says goes to the log, not to the console."""
    from pyspark import SparkContext
    from pyspark.errors import PySparkRuntimeError

    if SparkContext._gateway is not None:
        return
    ours, theirs = os.pipe()
    said: deque[str] = deque(maxlen=20)
    listener = threading.Thread(target=_listen, args=(ours, said), daemon=True)
    listener.start()
    try:
        java: Any = importlib.import_module("pyspark.java_gateway")
        gateway = java.launch_gateway(popen_kwargs={"stderr": theirs})
    except PySparkRuntimeError as error:
        os.close(theirs)
        listener.join(timeout=5)
        reasons = [line for line in said if re.search("error|exception|cannot|not found", line, re.IGNORECASE)]
        reason = f" It said: {reasons[0]}" if reasons else ""
        raise InfuserError(f"Spark's Java process ended at once.{reason} {_JAVA}.") from error
    os.close(theirs)
    SparkContext._ensure_initialized(gateway=gateway)


def _listen(stream: int, said: deque[str]) -> None:
    with open(stream, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            said.append(line.strip())
            _log.debug("Spark: %s", line.rstrip())


def _is_remote(master: str | None) -> bool:
    return master.startswith("sc://") if master else "SPARK_REMOTE" in os.environ
