"""How much a server answers: sizes, times and lengths of queues."""

from __future__ import annotations

import math
from dataclasses import dataclass

from infuser.errors import InputError


@dataclass(frozen=True, slots=True)
class ServingLimits:
    """How much one worker process answers; every field has a default that suits one machine."""

    batch_size: int = 32
    """Texts of one batch."""
    batch_characters: int = 50_000
    """Characters of one batch, unless a single text has more; taggers read long texts to their end."""
    batch_ms: float = 2.0
    """Milliseconds that the first text of a batch waits for others."""
    most_bytes: int = 4 * 2**20
    """Bytes of a request's body."""
    most_texts: int = 256
    """Texts of one request."""
    most_characters: int = 20_000
    """Characters of a text, and as many of its pair."""
    most_waiting: int = 1_024
    """Texts that may wait for the model."""
    seconds: float = 30.0
    """Seconds in which a request must be answered."""
    body_seconds: float = 10.0
    """Seconds in which a request's body must have arrived."""
    header_seconds: float = 10.0
    """Seconds in which its header must have arrived; a connection that says less is closed."""
    stop_seconds: int = 30
    """Seconds that requests under way have when the server stops."""
    exchange_seconds: float = 600.0
    """Seconds that the workers have to open new knowledge."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if not (0 < value < math.inf or (name == "batch_ms" and value == 0)):
                raise InputError(f"{name}={value} must be {'0 or more' if name == 'batch_ms' else 'above 0'}.")
        if self.most_texts > self.most_waiting:
            raise InputError(
                f"most_texts={self.most_texts} is more than may wait, most_waiting={self.most_waiting}: the largest "
                "requests would never be answered. Lower the first or raise the second."
            )
