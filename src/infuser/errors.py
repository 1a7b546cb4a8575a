"""The error tree. Each error is one of ours and also the built-in it resembles.

InfuserError
├── HostError (ValueError)          the encoder cannot receive knowledge
├── SourceError (ValueError)        knowledge that cannot be read or used
├── InputError (ValueError)         a text, file or setting that cannot be used
│   └── DivergedError               training whose loss became NaN or infinite
├── UnknownNameError (KeyError)     a registered name that does not exist
├── CheckpointError (OSError)       a checkpoint or saved directory that cannot be loaded
├── AssetError (OSError)            an asset that cannot be fetched or fails its digest check
└── MissingExtraError (ImportError) an optional package that is not installed
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class InfuserError(Exception):
    """Base of all errors that this library raises on purpose."""


class HostError(InfuserError, ValueError):
    """The encoder cannot receive knowledge."""


class SourceError(InfuserError, ValueError):
    """Knowledge that cannot be read or used."""


class InputError(InfuserError, ValueError):
    """A text, file or setting that cannot be used."""


class DivergedError(InputError):
    """Training diverged: the loss became NaN or infinite, most often because a learning rate was too large."""


class UnknownNameError(InfuserError, KeyError):
    """A registered name that does not exist."""

    def __str__(self) -> str:  # KeyError would print the message in quotes
        return str(self.args[0])


class CheckpointError(InfuserError, OSError):
    """A checkpoint or saved directory that cannot be loaded."""


class AssetError(InfuserError, OSError):
    """An asset that cannot be fetched or fails its digest check."""


class MissingExtraError(InfuserError, ImportError):
    """An optional package that is not installed."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return " Did you mean 'entities'?" for the closest known name, or nothing."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f" Did you mean {near[0]!r}?" if near else ""
