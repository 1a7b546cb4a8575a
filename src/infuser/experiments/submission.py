"""The answers of a bench to GLUE's hidden test parts, as the test server takes them."""

from __future__ import annotations

import tempfile
from pathlib import Path

from infuser.errors import InputError
from infuser.experiments.grid import make_cell, make_task, read_settings
from infuser.experiments.run_folder import Results
from infuser.tasks.glue import Glue
from infuser.tasks.glue_totals import write_submission, write_zip


def write_glue_submission(
    run: Path, out: Path, *, method: str, host: str | None = None, seed: int | None = None
) -> tuple[list[str], list[str]]:
    """Write the zip file that GLUE's server takes, and return which parts are in it and which are missing."""
    bench = read_settings(run)
    if method not in bench.arms:
        raise InputError(f"There is no method {method!r} in this run. Known: {', '.join(bench.arms)}.")
    if host is None and len(bench.hosts) > 1:
        raise InputError(f"Say which host: {', '.join(bench.hosts)}.")
    if host is not None and host not in bench.hosts:
        raise InputError(f"There is no host {host!r} in this run. Known: {', '.join(bench.hosts)}.")
    host = host or next(iter(bench.hosts))
    written: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for task_name, entry in bench.tasks.items():
            chosen = bench.seeds[0] if seed is None else seed
            result = Results(run).read(make_cell(bench, host, method, task_name, chosen))
            task = make_task(bench, entry)
            if result is not None and entry.score_on == "test" and isinstance(task, Glue):
                name = write_submission(task, result["predictions"], folder).name
                if name in written:
                    raise InputError(f"Two tasks of this run answer {name}. Run one of them in a folder of its own.")
                written.append(name)
        if not written:
            raise InputError(
                f"{str(run)!r} holds no answers of {method!r} to a test part of GLUE. Run it with score_on = 'test'."
            )
        return written, write_zip(folder, out)
