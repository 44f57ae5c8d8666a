"""A finished stage's model, rebuilt from its spec, its backbone and its saved weights."""

from __future__ import annotations

from pathlib import Path

from minbert.common.errors import UserError
from minbert.grid.architecture import read_architecture
from minbert.grid.spec import StageSpec
from minbert.model.adapter import add_adapters, without_backbone
from minbert.model.fusion import add_fusion, fused_widths
from minbert.model.multitask import MultitaskModel
from minbert.model.weights import load_weights


def load_trained(spec: StageSpec, backbone: Path, weights: Path) -> MultitaskModel:
    """Return the model of a stage with the weights that it was scored with, in evaluation mode.

    `backbone` is the folder in the store, `weights` the stage's `model.safetensors`; where the
    encoder was frozen, the file holds what was trained and the rest is the backbone's. Raises
    `UserError` naming the file if the two do not belong together.
    """
    architecture = read_architecture(backbone / "config.json")
    state = load_weights(weights)
    model = MultitaskModel(architecture, spec)
    model.encoder.load_backbone(load_weights(backbone / "model.safetensors"))
    if spec.adapter is not None:
        add_adapters(model.encoder, spec.adapter.width)
    if spec.fuse is not None:
        add_fusion(model.encoder, fused_widths(state))
    saved = model.state_dict()
    if spec.trainable != "all":
        saved = without_backbone(saved)
    ours, theirs = ({n: t.shape for n, t in tensors.items()} for tensors in (saved, state))
    strange = sorted(n for n in ours.keys() | theirs.keys() if ours.get(n) != theirs.get(n))
    if strange:
        raise UserError(f"{weights}: not the weights of this stage (tensor '{strange[0]}')")
    model.load_state_dict(state, strict=False)
    return model.eval()
