"""Backbones from the Hugging Face hub, at a pinned revision."""

from __future__ import annotations

from pathlib import Path

from minbert.common.errors import UserError

FILES = ("config.json", "model.safetensors", "tokenizer.json", "vocab.txt", "tokenizer_config.json")
"""The files of a Hugging Face folder that a backbone is made from, where they are there."""


def download(name: str, revision: str) -> Path:
    """Return a folder with the backbone's files at `revision` (40 hex digits), fetched or cached.

    Only safetensors weights are fetched, never pickles. Raises `UserError` naming the ways out
    if the hub cannot be reached or does not have it.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=list(FILES)))
    except (LocalEntryNotFoundError, HfHubHTTPError, OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UserError(
            f"backbone '{name}' at {revision[:12]} could not be had from the Hugging Face hub "
            f"({reason}). Two ways out: download {', '.join(FILES[:3])} elsewhere and set "
            "`backbone` to their folder; or set `backbone: builtin`, which needs no network."
        ) from None
