"""How long each job took, process start included, as Snakemake noted it beside the results."""

from __future__ import annotations

import json
import re
from pathlib import Path

NOTES = Path(".snakemake") / "metadata"

_COMMAND = re.compile(r"-m minbert (\w+) (\w+)(?: --seed (\d+))?")

JobName = tuple[str, str, int | None]
"""A job's kind, key (of `publish` the stamp), and seed."""


def wall_seconds(folder: Path) -> dict[JobName, float]:
    """Return the seconds of each job that Snakemake ran in `folder` and that ended well.

    Snakemake writes a note (JSON) for each output file: when its job started, when the file was
    last changed, and the shell command. A job ends with its last file. Notes that cannot be read
    are of other versions of Snakemake and count for nothing.
    """
    spans: dict[JobName, tuple[float, float]] = {}
    for path in (folder / NOTES).rglob("*"):
        try:
            note = json.loads(path.read_text(encoding="utf-8"))
            command, start = note["shellcmd"], float(note["starttime"])
            end = float(note["endtime"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if found := _COMMAND.search(command or ""):
            kind, key, seed = found.groups()
            name = kind, key, None if seed is None else int(seed)
            began, ended = spans.get(name, (start, end))
            # A job that ran again: the later time counts.
            spans[name] = (start, end) if start > began + 1e-3 else (began, max(ended, end))
    return {name: end - start for name, (start, end) in spans.items() if end > start}
