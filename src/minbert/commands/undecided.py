"""How many more seeds the claims need that the last results left within noise."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from minbert.evaluate.text import read_csv
from minbert.evaluate.verdicts import MOST_SEEDS, NOISE

CLAIMS = Path("tables") / "claims.csv"

Line = Mapping[str, str]


def undecided(root: Path) -> Iterator[str]:
    """Yield what the claims published in the results folder `root` need; nothing without any."""
    path = root / CLAIMS
    if not path.is_file():
        return
    open_lines = [line for line in read_csv(path) if line["verdict"] == NOISE]
    if not open_lines:
        return
    needs = [line for line in open_lines if line.get("seeds_needed")]
    alone = [line for line in open_lines if _fewest(line) == 1]
    hopeless = len(open_lines) - len(needs) - len(alone)
    are = "claim is" if len(open_lines) == 1 else "claims are"
    yield f"{len(open_lines)} {are} within noise ({CLAIMS}). At the spread so far, with even odds:"
    for line in sorted(needs, key=_needed):
        more = _needed(line) - _fewest(line)
        of = " ".join([line["task"], line.get("measure", "")]).strip()
        yield (
            f"  {line['paper']}, {line['variant']} against {line['strongest']}, {of}: "
            f"{line['seeds_needed']} seeds each, {more} more, if the difference stays as it is"
        )
    if hopeless:
        yield (
            f"  {hopeless}: not even with {MOST_SEEDS} seeds; the difference is too small for the "
            "spread or for the number of examples"
        )
    if alone:
        yield f"  {len(alone)}: unknown, as one seed shows no spread; try five"


def _fewest(line: Line) -> int:
    return min(int(line[name]) for name in ("seeds", "seeds_against") if line[name])


def _needed(line: Line) -> int:
    return int(line["seeds_needed"])
