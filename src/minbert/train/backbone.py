"""A backbone from a Hugging Face folder, or from the hub at a pinned commit."""

from pathlib import Path

from minbert.base.errors import UserError
from minbert.data.identity import check_unchanged
from minbert.data.tokenizer import BESIDE
from minbert.model.hugging_face import convert_hugging_face
from minbert.spec.hugging_face import FILES, SHARDS, backbone_files
from minbert.store.job import Job


def make(job: Job) -> None:
    hub = job.spec.get("hub")
    folder = download(hub, job.spec["revision"]) if hub else Path(job.extra["paths"]["folder"])
    if not hub:
        planned = {name: f"sha256:{digest}" for name, digest in job.spec["files"].items()}
        for name in sorted({*planned, *(path.name for path in backbone_files(folder))}):
            check_unchanged(folder / name, planned.get(name, "sha256: without it"))
    convert_hugging_face(folder, job.out)


def download(name: str, revision: str) -> Path:
    """Return a folder with the backbone's files at `revision` (40 hex digits), of hub or cache."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        # Only safetensors weights, never pickles.
        wanted = [*FILES, *BESIDE, SHARDS, "model-*.safetensors"]
        return Path(snapshot_download(name, revision=revision, allow_patterns=wanted))
    except (LocalEntryNotFoundError, HfHubHTTPError, OSError, ValueError) as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise UserError(
            f"backbone '{name}' at {revision[:12]} could not be downloaded from the hub "
            f"({reason}). Two ways without it: download {', '.join(FILES[:3])} elsewhere and set "
            "`backbone` to their folder; or set `backbone: builtin`, which needs no network."
        ) from None
