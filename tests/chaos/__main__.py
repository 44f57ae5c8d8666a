"""The long form: rounds of chaos until enough has been killed; ends with 1 if anything differs."""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections import Counter
from pathlib import Path

from chaos.campaign import Campaign
from chaos.compare import Found, compare
from chaos.grid import again, make
from chaos.server import Server


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m chaos", description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pause", type=float, nargs=2, default=(2, 16), metavar="SECONDS")
    parser.add_argument("--folder", type=Path, help="keep everything here; it must not exist yet")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="chaos-") as temporary:
        return rounds(arguments, (arguments.folder or Path(temporary) / "chaos").resolve())


def rounds(arguments: argparse.Namespace, base: Path) -> int:
    """Make the undisturbed run and disturb copies of it, to a server in every second round."""
    draw = random.Random(arguments.seed)
    began = time.monotonic()
    reference = make(base / "undisturbed")
    Campaign(reference, draw, 0).run()
    print(f"undisturbed: {time.monotonic() - began:.0f} s", flush=True)
    server = Server(base / "server")
    done, total = Counter[str](), Found()
    starts = number = 0
    try:
        while done.total() < arguments.kills:
            number += 1
            tracked_to = server if number % 2 else None
            if tracked_to is not None:
                tracked_to.wait()
            project = again(reference, base / f"round{number}", tracked_to and tracked_to.uri)
            left = arguments.kills - done.total()
            campaign = Campaign(project, draw, left, tracked_to, arguments.pause)
            campaign.run()
            store = project.root / "mlflow.db" if tracked_to is None else tracked_to.store
            found = compare(reference, project, store)
            done += campaign.done
            starts += campaign.starts
            total.add(found)
            print(
                f"round {number} ({'server' if tracked_to else 'sqlite'}): "
                f"{campaign.done.total()} kills, {campaign.starts} starts of Snakemake: {found}",
                flush=True,
            )
    finally:
        server.kill()
    for name, count in sorted(done.items()):
        print(f"  {count:4d} x {name}")
    print("\n".join(total.differences))
    print(
        f"{done.total()} kills in {number} rounds, {starts} starts of Snakemake, "
        f"{time.monotonic() - began:.0f} s: {total}"
    )
    return bool(total.differences)


if __name__ == "__main__":
    raise SystemExit(main())
