"""The long form (`make test-cluster`): the grid locally, on the cluster, and there with faults."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from pathlib import Path

from chaos.compare import compare
from chaos.grid import Tracked, again, make

from cluster.campaign import Campaign
from cluster.slurm import NoSlurm, Slurm, install

FAULTS = ("out of memory", "requeued", "cancelled", "Snakemake killed")
SHORT = ("requeued", "Snakemake killed")


def main() -> int:
    """Run the command line; ends with 1 if anything differs from the local run."""
    parser = argparse.ArgumentParser(prog="python -m cluster", description=__doc__)
    parser.add_argument("--short", action="store_true", help="one run, two faults")
    parser.add_argument("--folder", type=Path, help="keep everything here; it must not exist yet")
    arguments = parser.parse_args()
    # Whoever ends this ends the cluster with it.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit("stopped"))
    with tempfile.TemporaryDirectory(prefix="cluster-") as temporary:
        base = (arguments.folder or Path(temporary) / "cluster").resolve()
        try:
            install()
            with Slurm(base / "slurm") as slurm:
                differences = rounds(slurm, base, short=arguments.short)
        except NoSlurm as error:
            print(f"skipped: {error}", file=sys.stderr)
            return 0 if arguments.short else 1
    print("\n".join(differences))
    print(f"{len(differences)} differences")
    return bool(differences)


def rounds(slurm: Slurm, base: Path, short: bool) -> list[str]:
    """Run the grid locally and on the cluster; return all that differs, or is not as asked for."""
    began = time.monotonic()
    reference = make(base / "local")
    reference.snakemake("all")
    print(f"local: {time.monotonic() - began:.0f} s", flush=True)
    differences: list[str] = []
    if not short:
        whole = make(base / "whole")
        whole.configure(device="auto")
        undisturbed = Campaign(slurm, whole)
        differences += [f"undisturbed: {each}" for each in _run(undisturbed, reference)]
        differences += _not_as_asked(undisturbed)
    disturbed = Campaign(slurm, again(reference, base / "faults"), SHORT if short else FAULTS)
    differences += [f"with faults: {each}" for each in _run(disturbed, reference)]
    return differences


def _run(campaign: Campaign, reference: Tracked) -> list[str]:
    campaign.run()
    project = campaign.project
    found = compare(reference, project, project.root / "mlflow.db")
    print(
        f"{project.folder.name}: {campaign.seconds:.0f} s, {len(campaign.jobs())} Slurm jobs; "
        f"struck {campaign.faults}; with the local run: {found}",
        flush=True,
    )
    overlaps = [f"{name} began while an earlier one trained" for name in campaign.overlaps()]
    return [*found.differences, *overlaps]


def _not_as_asked(campaign: Campaign) -> list[str]:
    """Return the rules whose jobs were given other GPUs than they should have."""
    asked, compute = campaign.asked(), {"train", "features"}
    found = [f"no job of {rule} was seen" for rule in sorted(compute - asked.keys())]
    for rule, given in asked.items():
        wanted = {"gres:gpu:1"} if rule in compute else {""}
        if given != wanted:
            found.append(f"GPUs of {rule}: found {given}, expected {wanted}")
    return found


if __name__ == "__main__":
    raise SystemExit(main())
