"""How many processes share one training job, by what config.yaml says of its stages."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from minbert.common.errors import UserError, nearest
from minbert.grid.config import Config
from minbert.grid.links import StageRef


def stage_processes(config: Config, refs: Iterable[StageRef]) -> dict[StageRef, int]:
    """Return the processes of each stage; raise `UserError` for a pattern that no stage fits.

    A pattern is PAPER/VARIANT or PAPER/VARIANT/STAGE with shell wildcards. The last one that fits
    counts; without one a stage has one process.
    """
    refs = list(refs)
    chosen = config.processes
    if isinstance(chosen, int):
        return dict.fromkeys(refs, chosen)
    found = dict.fromkeys(refs, 1)
    for pattern, number in chosen.items():
        fitting = [ref for ref in refs if any(fnmatchcase(n, pattern) for n in _names(ref))]
        if not fitting:
            known = [name for ref in refs for name in _names(ref)]
            raise UserError(
                f"'processes': no stage fits '{pattern}'; expected PAPER/VARIANT or "
                f"PAPER/VARIANT/STAGE, where * stands for anything.{nearest(pattern, known)}"
            )
        found |= dict.fromkeys(fitting, number)
    return found


def _names(ref: StageRef) -> tuple[str, str]:
    return f"{ref.paper}/{ref.variant}", f"{ref.paper}/{ref.variant}/{ref.stage}"
