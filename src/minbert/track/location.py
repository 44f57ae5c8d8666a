"""Where the store is, and the environment that MLflow should run in. No mlflow here."""

from __future__ import annotations

import os
import re
from pathlib import Path

_SQLITE = "sqlite:///"

_ENVIRONMENT = {
    # A call to a dead server hangs for minutes with MLflow's own settings.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "3",
    # Nothing leaves the machine.
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    # Weights are safetensors: nothing here ever needs a pickle.
    "MLFLOW_ALLOW_PICKLE_DESERIALIZATION": "false",
    # The server needs no job runner: 2 processes instead of 15.
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
}


def environment() -> dict[str, str]:
    """Return the process's environment with our settings where the user has set none."""
    return {**_ENVIRONMENT, **os.environ}


def apply_environment() -> None:
    """Set our settings in this process; call it before mlflow is imported."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)


def tracking_uri(root: Path, uri: str | None = None) -> str:
    """Return the store's URI: `uri`, else `MLFLOW_TRACKING_URI`, else sqlite under `root`.

    A path in a sqlite URI is made absolute, so that it does not depend on who opens it from
    where.
    """
    uri = uri or os.environ.get("MLFLOW_TRACKING_URI") or f"{_SQLITE}{root / 'mlflow.db'}"
    path = sqlite_path(uri)
    return uri if path is None else f"{_SQLITE}{path}"


def sqlite_path(uri: str) -> Path | None:
    """Return the file of a sqlite URI, absolute, or None for another kind of store."""
    return Path(uri.removeprefix(_SQLITE)).resolve() if uri.startswith(_SQLITE) else None


def is_remote(uri: str) -> bool:
    """Whether `uri` is a server, which decides for itself where artifacts lie."""
    return uri.startswith(("http://", "https://", "databricks", "uc:"))


def shown(text: str) -> str:
    """Return `text` with the passwords of the URIs in it struck out."""
    return re.sub(r"(?<=://)[^/@\s]+@", "***@", text)


def table_url(server: str, experiment_id: str) -> str:
    """Return the address that opens an experiment's table with our columns."""
    query = "viewStateShareKey=minbert&workflowType=machine_learning"
    return f"{server}/#/experiments/{experiment_id}/runs?{query}"


def network_disk(path: Path, mounts: str | None = None) -> bool:
    """Whether `path` lies on a network file system, going by the text of `/proc/mounts`."""
    if mounts is None:
        listing = Path("/proc/mounts")
        mounts = listing.read_text(encoding="utf-8") if listing.exists() else ""
    best, kind = "", ""
    for line in mounts.splitlines():
        point, name = line.split()[1:3]
        if path.is_relative_to(point) and len(point) >= len(best):
            best, kind = point, name
    return kind in {"nfs", "nfs4", "cifs", "smb3", "lustre", "gpfs", "beegfs", "ceph", "glusterfs"}
