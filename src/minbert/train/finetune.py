"""Fine-tuning: encoder and heads are trained on packed batches of tokens."""

import re

import torch
from torch import Tensor

from minbert.model.multitask import MultitaskModel
from minbert.model.weights import load_weights
from minbert.spec.architecture import WEIGHTS, read_architecture
from minbert.spec.stage import StageSpec
from minbert.train.examples import read_examples
from minbert.train.trainable import Sources, TrainableModel


class Finetuned(TrainableModel):
    """All weights are trained, starting from the backbone's or from those of an earlier stage.

    A head or convolution is new unless the earlier stage has one for that task, of the same shape.
    New weights come from torch's default generator: seed it first.
    """

    module: MultitaskModel

    def __init__(self, spec: StageSpec, sources: Sources, device: torch.device) -> None:
        backbone = sources.backbone
        self.architecture = read_architecture(backbone / "config.json")
        self.module = MultitaskModel(self.architecture, spec)
        self.module.encoder.load_backbone(load_weights(backbone / WEIGHTS))
        self.start(sources)
        self.can_run_jointly = self.module.encoder.can_run_jointly
        self.module.to(device)
        self.examples = {
            task: read_examples(path, spec.tasks[task].pairing, backbone, spec.max_length, device)
            for task, path in sources.tokens.items()
        }

    def start(self, sources: Sources) -> None:
        """Insert what the stage inserts, and take over what an earlier one trained."""
        model = self.module
        self.insert(model.encoder, model.spec, {})
        state = load_weights(sources.start) if sources.start else {}

        def part(prefix: str) -> dict[str, Tensor]:
            return {n.removeprefix(prefix): t for n, t in state.items() if n.startswith(prefix)}

        if earlier := part("encoder."):
            # One encoder for all tasks becomes the start of each task's own copy.
            ours = model.encoder.state_dict()
            own = re.compile(r"^own\.[^.]+\.")
            names = {name: name if name in earlier else own.sub("shared.", name) for name in ours}
            model.encoder.load_state_dict({n: earlier[place] for n, place in names.items()})
        # All of a head or nothing: a deeper head may have the same first layer, a wider convolution
        # the same bias.
        for kind, modules in (("heads", model.heads), ("convolutions", model.convolutions)):
            for task, module in modules.items():
                from_task = (kind == "heads" and model.spec.tasks[task].init_head_from) or task
                theirs = part(f"{kind}.{from_task}.")
                shapes = [
                    {n: t.shape for n, t in of.items()} for of in (theirs, module.state_dict())
                ]
                if shapes[0] == shapes[1]:
                    module.load_state_dict(theirs)
