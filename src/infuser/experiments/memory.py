"""How much memory a piece of work needed at most."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def reset_peak() -> None:
    """Reset the peak where the system can do that (Linux, GPUs); elsewhere it stays the process's own."""
    import torch

    with suppress(OSError):
        _RESET.write_text("5")
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()


def peak_mib() -> float:
    """Return the most memory held since `reset_peak`, in MiB: of the process, or of its GPU where there is one."""
    import torch

    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 2**20
    if _STATUS.exists():
        lines = _STATUS.read_text(encoding="utf-8").splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 2**10
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / (2**20 if sys.platform == "darwin" else 2**10)
