"""A child process that counts slowly enough to be killed in the middle: python child.py CORPUS OUT WORKERS."""

from __future__ import annotations

import sys
import time
from typing import Any

from infuser.knowledge.counting import folder, run, run_pairs


def main() -> None:
    from infuser.knowledge.counting.build import build_correlation

    corpus, out, workers = sys.argv[1:]
    build_correlation([corpus], out, workers=int(workers))


def _slowly(method: Any) -> Any:
    def slow(*arguments: Any) -> Any:
        time.sleep(0.02)
        return method(*arguments)

    return slow


# also in the worker processes, which import this file
run.BLOCK = 600
run_pairs._LEAST_TOKENS = 100
folder.CountingFolder.save_block = _slowly(folder.CountingFolder.save_block)  # type: ignore[method-assign]
folder.CountingFolder.save_run = _slowly(folder.CountingFolder.save_run)  # type: ignore[method-assign]

if __name__ == "__main__":
    main()
