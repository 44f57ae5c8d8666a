"""The long form: rounds of chaos until enough has been killed; ends with 1 if anything differs."""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections import Counter
from pathlib import Path

from chaos.campaign import Campaign
from chaos.compare import compare
from chaos.grid import again, make
from chaos.server import Server


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m chaos", description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="keep everything here; it must not exist yet")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="chaos-") as temporary:
        base = (given.folder or Path(temporary) / "chaos").resolve()
        return bool(rounds(given.kills, random.Random(given.seed), base))


def rounds(kills: int, draw: random.Random, base: Path) -> int:
    """Make the undisturbed run and disturb copies of it, to a server in every second round.

    Returns the number of differences.
    """
    began = time.monotonic()
    reference = make(base / "undisturbed")
    Campaign(reference, draw, 0).run()
    print(f"undisturbed: {time.monotonic() - began:.0f} s", flush=True)
    server = Server(base / "server")
    done = Counter[str]()
    differences = number = 0
    try:
        while done.total() < kills:
            number += 1
            tracked_to = server if number % 2 else None
            if tracked_to:
                tracked_to.wait()
            project = again(reference, base / f"round{number}", tracked_to and tracked_to.uri)
            campaign = Campaign(project, draw, kills - done.total(), tracked_to)
            campaign.run()
            store = tracked_to.store if tracked_to else project.root / "mlflow.db"
            found = compare(reference, project, store)
            done += campaign.done
            differences += len(found.differences)
            print(
                f"round {number} ({'server' if tracked_to else 'sqlite'}): "
                f"{campaign.done.total()} kills, {campaign.starts} starts of Snakemake: {found}",
                *found.differences,
                sep="\n",
                flush=True,
            )
    finally:
        server.kill()
    for name, count in sorted(done.items()):
        print(f"  {count:4d} x {name}")
    print(f"{done.total()} kills, {time.monotonic() - began:.0f} s: {differences} differences")
    return differences


if __name__ == "__main__":
    raise SystemExit(main())
