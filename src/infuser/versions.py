"""The version of this package, and those of Python and the packages that decide a result."""

from __future__ import annotations

__version__ = "0.1.0"

_PACKAGES = ("infuser", "torch", "transformers", "accelerate", "tokenizers", "numpy")


def installed_versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that decide a result, without importing them."""
    import platform
    from importlib.metadata import PackageNotFoundError, version

    versions = {"python": platform.python_version(), "machine": f"{platform.system()} {platform.machine()}"}
    for package in _PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions
