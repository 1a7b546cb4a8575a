"""`python -m infuser`: the same as the command `infuser`."""

from __future__ import annotations

from infuser.cli import app

if __name__ == "__main__":  # worker processes import this file again
    app()
