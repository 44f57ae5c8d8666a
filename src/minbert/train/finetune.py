"""Fine-tuning: encoder and heads are trained on packed batches of tokens."""

import re
from pathlib import Path

import torch
from torch import Tensor

from minbert.base.errors import UserError
from minbert.model.multitask import MultitaskModel
from minbert.model.weights import load_weights
from minbert.spec.architecture import WEIGHTS, read_architecture
from minbert.spec.stage import StageSpec
from minbert.train.examples import Examples, reader
from minbert.train.trainable import Sources, TrainableModel


class Finetuned(TrainableModel):
    """All weights are trained, starting from the backbone's or from those of an earlier stage.

    A head or convolution is new unless the earlier stage has one for that task, of the same shape.
    New weights come from torch's default generator: seed it first.
    """

    module: MultitaskModel
    examples: dict[str, dict[str, Examples]]

    def __init__(self, spec: StageSpec, sources: Sources, device: torch.device) -> None:
        self.architecture = arch = read_architecture(sources.backbone / "config.json")
        self.module = MultitaskModel(arch, spec)
        self.module.encoder.load_backbone(load_weights(sources.backbone / WEIGHTS))
        self._start(spec, sources)
        self.can_run_jointly = self.module.encoder.can_run_jointly
        self.module.to(device)
        read = reader(sources.backbone, spec.max_length, device)
        self.examples = {
            task: read(path, task, spec.tasks[task].pairing)
            for task, path in sources.tokens.items()
        }

    def _start(self, spec: StageSpec, sources: Sources) -> None:
        if sources.start is not None:
            start_from(self.module, load_weights(sources.start), sources.start)


def start_from(model: MultitaskModel, state: dict[str, Tensor], where: Path) -> None:
    """Give `model` the weights `state` of the file `where`, which an earlier stage saved."""

    def part(prefix: str) -> dict[str, Tensor]:
        return {n.removeprefix(prefix): t for n, t in state.items() if n.startswith(prefix)}

    if earlier := part("encoder."):
        found: dict[str, Tensor] = {}
        for name, tensor in model.encoder.state_dict().items():
            # One encoder for all tasks becomes the start of each task's own copy.
            whole = re.sub(r"^own\.[^.]+\.", "shared.", name)
            found[name] = earlier.get(name, earlier.get(whole, torch.empty(0)))
            if found[name].shape != tensor.shape:
                raise UserError(
                    f"{where}: does not hold the encoder's {name}; the stage it starts from must "
                    "share layers in the same way"
                )
        model.encoder.load_state_dict(found)
    # All of a head or nothing: a deeper head may have the same first layer, a wider convolution
    # the same bias.
    for kind, modules in (("heads", model.heads), ("convolutions", model.convolutions)):
        for task, module in modules.items():
            from_task = (kind == "heads" and model.spec.tasks[task].init_head_from) or task
            theirs = part(f"{kind}.{from_task}.")
            shapes = [{n: t.shape for n, t in of.items()} for of in (theirs, module.state_dict())]
            if shapes[0] == shapes[1]:
                module.load_state_dict(theirs)
