"""An exported folder to the Hugging Face hub."""

import shlex
from pathlib import Path

from minbert.base.errors import UserError


def check_repository(name: str) -> None:
    """Raise `UserError` if no repository of the hub can be called `name`."""
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

    try:
        validate_repo_id(name)
    except HFValidationError as error:
        raise UserError(f"--push {name!r}: {error}") from None


def push(folder: Path, repository: str) -> str:
    """Upload the files of `folder` in one commit, and return the repository's address.

    It is made if need be, and is then private: the data's terms may forbid to publish weights. The
    token comes from the environment (`HF_TOKEN`) or from `hf auth login`. Raises `UserError`,
    naming the way to try again, if the hub cannot be reached or refuses.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    hub = HfApi()
    try:
        made = hub.create_repo(repository, private=True, exist_ok=True)
        message = f"Model exported by minbert: {folder.name}"
        hub.upload_folder(repo_id=made.repo_id, folder_path=folder, commit_message=message)
    except (HfHubHTTPError, OSError, ValueError, RuntimeError) as error:
        # That of an upload says which file; its cause says why.
        reasons = [" ".join(str(each).split()) for each in (error, error.__cause__) if each]
        told = "; ".join(reasons)[:500]
        again = shlex.join(["hf", "upload", repository, str(folder), "--private"])
        raise UserError(
            f"{folder} was not pushed to '{repository}' ({told}). The folder is whole: log "
            f"in by `hf auth login` or HF_TOKEN, then `{again}`"
        ) from error
    return str(made)
