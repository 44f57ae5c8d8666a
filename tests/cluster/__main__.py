"""The long form (`make test-cluster`): the grid locally, on the cluster, and there with faults."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml
from chaos.compare import compare
from chaos.grid import Tracked, again, make
from pipeline.project import CHECKOUT, copy_workflow

from cluster.campaign import Campaign, missing_in_logs
from cluster.slurm import NoSlurm, Slurm, install

FAULTS = ("out of memory", "requeued", "cancelled", "node drained", "Snakemake killed")
SHORT = ("requeued", "Snakemake killed")
DEMO_LIMIT = 3600.0
"""Seconds that a run of the demo's grid may take."""


def main() -> int:
    """Run the command line; ends with 1 if anything differs from the local run."""
    parser = argparse.ArgumentParser(prog="python -m cluster", description=__doc__)
    parser.add_argument("--short", action="store_true", help="one run, two faults")
    parser.add_argument("--demo", action="store_true", help="the demo's grid instead, undisturbed")
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
                differences = (
                    demo(slurm, base)
                    if arguments.demo
                    else rounds(slurm, base, short=arguments.short)
                )
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


def demo(slurm: Slurm, base: Path) -> list[str]:
    """Run the demo's grid locally, on two cores, and on the cluster; return all that differs."""
    reference, project = make_demo(base / "local"), make_demo(base / "demo")
    began = time.monotonic()
    reference.run("snakemake", "--cores", "2", "all", within=DEMO_LIMIT)
    print(f"local: {time.monotonic() - began:.0f} s", flush=True)
    return _run(Campaign(slurm, project, limit=DEMO_LIMIT), reference)


def make_demo(folder: Path) -> Tracked:
    """Return a new project with the demo's configuration, on the CPU; nothing is run."""
    copy_workflow(folder)
    both = (CHECKOUT / "config.yaml", CHECKOUT / "workflow" / "overlays" / "demo.yaml")
    config: dict[str, Any] = {}
    for path in both:
        config |= yaml.safe_load(path.read_text(encoding="utf-8"))
    config |= {"results": "results", "device": "cpu"}
    (folder / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    return Tracked(folder)


def _run(campaign: Campaign, reference: Tracked) -> list[str]:
    campaign.run()
    project = campaign.project
    found = compare(reference, project, project.root / "mlflow.db")
    jobs = [j for j in campaign.slurm.shown().values() if j.get("WorkDir") == str(project.folder)]
    stages = len(set(project.variants()))
    print(
        f"{project.folder.name}: {campaign.seconds:.0f} s, {len(jobs)} Slurm jobs, "
        f"{found.attempts} attempts at {stages} stages; compared with the local run: "
        f"{found.files} files, {found.points} points, {len(found.differences)} differences",
        flush=True,
    )
    for fault in campaign.faults:
        print(f"  {fault.at:4.0f} s  {fault.name}: over at {fault.over:.0f} s ({fault.told})")
    overlaps = [f"{name} began while an earlier one trained" for name in campaign.overlaps()]
    printed = campaign.log.read_text(encoding="utf-8")
    lost = [f"no log {path}" for path in missing_in_logs(printed, project.folder)]
    return [*found.differences, *overlaps, *lost]


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
