"""How many of an encoder's layers the tasks share."""

from __future__ import annotations

from minbert.common.errors import UserError


def shared_depth(shared_layers: float | str, layers: int) -> int | None:
    """Return how many of `layers` are shared; None when nothing is, the embeddings apart too.

    `shared_layers` is `all`, `none`, a whole number, or a fraction of the layers (float), which
    is rounded to the nearest number (halves to even). Raises `UserError` if more layers are to be
    shared than there are.
    """
    if isinstance(shared_layers, str):
        return layers if shared_layers == "all" else None
    depth = round(shared_layers * layers) if isinstance(shared_layers, float) else shared_layers
    if depth > layers:
        raise UserError(
            f"shared_layers is {shared_layers}, but the backbone has {layers} layers; give a "
            f"number from 0 to {layers}, a fraction, 'all' or 'none'"
        )
    return depth
