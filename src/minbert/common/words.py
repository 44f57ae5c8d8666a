"""Times in words."""

from __future__ import annotations


def clock(seconds: float) -> str:
    """Return a time in the one unit that suits it, for tables."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def duration(seconds: float) -> str:
    """Return a time in the two units that matter, for sentences."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole < 600 else f"{round(whole / 60)} min"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
