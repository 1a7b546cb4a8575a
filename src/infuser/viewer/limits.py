"""How much may be asked: sizes, rates, and the one thread that uses the model."""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from infuser.errors import InputError

T = TypeVar("T")

_MOST_ADDRESSES = 1_024
"""So many clients are remembered; the one that was silent longest is forgotten first."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much the viewer answers; every field has a default that suits one machine with a few readers."""

    most_characters: int = 2_000
    """Characters of a text, and as many of its pair."""
    requests_per_second: float = 50.0
    """Questions that one client address may ask per second in the long run."""
    burst: int = 100
    """Questions that one client address may ask at once after a pause."""
    most_waiting: int = 64
    """Questions that may wait for the model, the one being answered included."""
    header_seconds: float = 10.0
    """Seconds in which the header of a request must have arrived; a connection that says less is closed."""
    body_seconds: float = 10.0
    """Seconds in which a question must have arrived."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if not 0 < value < math.inf:
                raise InputError(f"A viewer with {name}={value} answers nothing. Give a number above 0.")

    @property
    def most_bytes(self) -> int:
        """Bytes of a body: two sides of signs that JSON may write with twelve letters each, and 16 kB for the rest."""
        return 2 * 12 * self.most_characters + 16_384


class Buckets:
    """Counts the questions of each client address: a bucket that holds `burst` and is refilled all the time."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits, self._clock = limits, clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # address: (questions left, when)

    def __len__(self) -> int:
        return len(self._left)

    def wait(self, address: str) -> float:
        """Take one question from a client's bucket and return 0, or return the seconds until there is one."""
        now, rate, burst = self._clock(), self._limits.requests_per_second, self._limits.burst
        left, before = self._left.pop(address, (float(burst), now))
        left = min(float(burst), left + rate * (now - before))
        may_ask = left >= 1
        self._left[address] = (left - 1 if may_ask else left, now)  # put back as the one that asked last
        if len(self._left) > _MOST_ADDRESSES:
            self._left.popitem(last=False)
        return 0.0 if may_ask else (1 - left) / rate


class BusyError(Exception):
    """More questions wait for the model than `Limits.most_waiting`."""


class ModelThread:
    """Does work that needs the model, one piece after the other, in one thread beside the server's own."""

    def __init__(self, most_waiting: int) -> None:
        self._most_waiting, self._n_inside = most_waiting, 0
        self._turn = asyncio.Lock()
        # always the same thread: torch starts its helpers anew for every thread that it meets
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="infuser-viewer-model")

    async def run(self, work: Callable[[], T], is_gone: Callable[[], Awaitable[bool]]) -> T | None:
        """Return what `work` gives when its turn has come, or None without doing it if nobody waits for it any more."""
        if self._n_inside >= self._most_waiting:
            raise BusyError
        self._n_inside += 1
        try:
            async with self._turn:  # those who wait come in the order in which they asked
                if await is_gone():
                    return None
                return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        finally:
            self._n_inside -= 1
