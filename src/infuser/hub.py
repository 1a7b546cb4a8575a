"""Saved models on the Hugging Face hub: fetched file by file, uploaded as a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from huggingface_hub import HfApi, hf_hub_download, snapshot_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError

from infuser.errors import CheckpointError, InputError
from infuser.files import parse_json
from infuser.hosts.checkpoints import CARD
from infuser.model_card import COMPARISON
from infuser.seals import README, SEAL
from infuser.sources.packing import INSIDE

_HTTP_ERROR = cast(type[Exception], HfHubHTTPError.__mro__[1])
"""What the HTTP library raises that the installed huggingface_hub uses: httpx or httpx2."""
_CODE = ["*.py", "*.pkl", "*.pickle", "*.bin", "*.pt", "*.pth"]
"""No saved model of ours has such files, and none of them is fetched."""


def download(id_or_directory: str | Path, **options: Any) -> Path:
    """Return a directory as it is, or that of a repository of the hub, whose files are fetched where missing."""
    if Path(id_or_directory).is_dir():
        return Path(id_or_directory)
    name = str(id_or_directory)
    try:
        listed = Path(hf_hub_download(name, SEAL, **options))
        files = parse_json(listed, "it")["files"]
        options["revision"] = listed.parent.name  # the commit: another one may follow in the meantime
        # names are patterns to the hub: a bracket in one would ask for another file
        wanted = [_literal(file) for file in files]
        folder = snapshot_download(
            name,
            allow_patterns=[SEAL, README, COMPARISON, f"sources/{INSIDE}/*", *wanted],
            ignore_patterns=_CODE,
            **options,
        )
    except HFValidationError as error:
        raise CheckpointError(f"{name!r} is neither a directory nor the id of a repository. ({error})") from error
    except (OSError, _HTTP_ERROR) as error:
        raise CheckpointError(
            f"No infused model {name!r} can be fetched from the hub: {_said(error)} Check the id, the "
            "token and the connection, or give a directory that Infused.save wrote."
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"The {SEAL} of {name!r} is damaged ({error!r}). Upload the model again.") from error
    if not (Path(folder) / CARD).is_file():
        raise CheckpointError(f"The repository {name!r} holds no infused model: it has no {CARD}.")
    return Path(folder)


def upload(
    folder: Path,
    repo_id: str,
    *,
    private: bool | None,
    token: str | bool | None,
    revision: str | None,
    commit_message: str,
    endpoint: str | None,
) -> str:
    """Upload a saved model in one commit, into a repository that is made if it is missing; return its address."""
    api = HfApi(endpoint=endpoint, token=token, library_name="infuser")
    try:
        address = api.create_repo(repo_id, private=private, exist_ok=True)
        if revision is not None:
            api.create_branch(repo_id, branch=revision, exist_ok=True)
        api.upload_folder(
            repo_id=repo_id,
            folder_path=folder,
            revision=revision,
            commit_message=commit_message,
            delete_patterns="sources/*",  # knowledge of an earlier upload that is not part of this one
        )
    except HFValidationError as error:
        raise InputError(f"{repo_id!r} cannot be the id of a repository. ({error})") from error
    except ValueError as error:  # it checks the front matter of the model card
        raise InputError(f"The hub rejects the model for {repo_id!r}: {' '.join(str(error).split())}") from error
    except (OSError, _HTTP_ERROR) as error:
        raise CheckpointError(
            f"The model cannot be uploaded to {repo_id!r}: {_said(error)} Check the token "
            "(hf auth login), its rights and the connection. The repository holds what it held before."
        ) from error
    return str(address)


def _said(error: Exception) -> str:
    """Return the first line of an error, or its kind where it says nothing, as those of connections may."""
    return next(iter(str(error).splitlines()), type(error).__name__ + ".")


def _literal(name: str) -> str:
    """Return a pattern that matches this name alone."""
    return "".join(f"[{sign}]" if sign in "*?[" else sign for sign in name)
