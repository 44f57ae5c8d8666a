"""How busy the GPUs are, as NVIDIA's own tool tells it."""

from __future__ import annotations

import shutil
import subprocess

_QUERY = "index,utilization.gpu,memory.used,memory.total"
_SECONDS = 5.0
_MIB_IN_GIB = 1024


def gpu_use() -> str:
    """Return each GPU's use and memory in words, '' where there is none or it does not answer."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return ""
    command = [tool, f"--query-gpu={_QUERY}", "--format=csv,noheader,nounits"]
    try:
        told = subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    if told.returncode != 0:
        return ""
    return ", ".join(filter(None, map(_one, told.stdout.splitlines())))


def _one(line: str) -> str:
    """Return one GPU of the tool's list in words; a field that it does not know is left out."""
    fields = [field.strip() for field in line.split(",")]
    if len(fields) != len(_QUERY.split(",")):
        return ""
    index, busy, used, total = fields
    words = [f"GPU {index}"]
    if busy.isdigit():
        words.append(f"{busy} %")
    if used.isdigit() and total.isdigit():
        words.append(f"{int(used) / _MIB_IN_GIB:.1f} of {int(total) / _MIB_IN_GIB:.0f} GiB")
    return " ".join(words)
