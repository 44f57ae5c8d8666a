"""One of the processes that share runs, as torchrun would start it: `sharing_process.py CASES`.

CASES is a JSON list of {spec, backbone, tokens, folder, stops}; each is trained into its folder,
once for each of `stops`: asked to stop after that step, or (null) to its end.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from minbert.common.files import read_json
from minbert.grid.spec import StageSpec
from minbert.train.learner import Sources
from minbert.train.loop import Loop
from minbert.train.resume import Checkpoints
from minbert.train.run import train_stage
from minbert.train.state import StateFile

SEED = 4


class Asked(Checkpoints):
    """Is asked to stop after a step."""

    def __init__(self, file: StateFile, step: int | None) -> None:
        super().__init__(file, every=1e9)
        self.step = step

    def after_step(self, loop: Loop) -> None:
        if loop.position.step == self.step and loop.peers.first:
            self.stop = 15
        super().after_step(loop)


def main(cases: Path) -> None:
    first_port, count = int(os.environ["MASTER_PORT"]), int(os.environ["WORLD_SIZE"])
    starts = 0
    for case in read_json(cases):
        spec, folder = StageSpec.model_validate(case["spec"]), Path(case["folder"])
        tokens = {task: Path(path) for task, path in case["tokens"].items()}
        sources = Sources(Path(case["backbone"]), tokens, {})
        for step in case["stops"]:
            # The store of a group that has ended may hold its port for a while.
            os.environ["MASTER_PORT"] = str(first_port + starts)
            starts += 1
            state = StateFile(folder / "work", "run")
            try:
                train_stage(
                    spec,
                    SEED,
                    sources,
                    folder,
                    title=folder.name,
                    device="cpu",
                    precision="fp32",
                    processes=count,
                    checkpoints=Asked(state, step),
                )
            except SystemExit as ended:
                import torch.distributed

                assert "signal 15" in str(ended)
                torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
