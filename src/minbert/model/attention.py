"""Scaled dot-product attention of packed rows (Vaswani et al., 2017, section 3.2.1).

On a CPU each head's queries, keys and values of rows of similar length are gathered into blocks of
one shape: attention is then a few batched products with little padding. Elsewhere all rows are
padded to the longest: an accelerator is faster with one kernel than with many.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from minbert.model.layers import apply_mask, dropout_mask, kept_share
from minbert.model.packed import Packed

GROUP_COST = 1500
"""What one more group costs, in attention scores per head. Measured with the built-in backbone and
MiniLM, 16 and 128 rows: 500 to 5,000 are about as fast."""
REGISTER = 64
"""Bytes that a CPU computes on at once. Softmax takes keys one by one that do not fill it: with 13
keys, in fp32, seven times as long as with 16."""


def attend(
    projected: Tensor, query: Tensor | None, batch: Packed, heads: int, p: float, window: int | None
) -> Tensor:
    """Return each token's context, [T, H], from its query, key and value in `projected` [T, 3H].

    With one `query` a row, that of its first token, [B, H], return the rows' contexts, [B, H];
    `projected` then has keys and values, [T, 2H]. `p` is the dropout of attention weights. A token
    attends to those at most `window` places away, if given.
    """
    if window is not None and batch.longest - 1 <= window:
        window = None  # which all tokens of all rows are in
    if projected.device.type != "cpu":
        return _attend_padded(projected, query, batch, heads, p, window)
    size = projected.shape[1] // ((3 if query is None else 2) * heads)
    vectors = projected.reshape(-1, size)
    if query is not None:
        vectors = torch.cat([query.reshape(-1, size), vectors])
    # All layers need the same blocks.
    lanes = REGISTER // projected.itemsize
    blocks = batch.derive(make_blocks, heads, query is not None, lanes, window)
    return _AttendInBlocks.apply(vectors, blocks, p).view(-1, heads * size)


def _attend_padded(
    projected: Tensor, query: Tensor | None, batch: Packed, heads: int, p: float, window: int | None
) -> Tensor:
    kinds = 3 if query is None else 2
    zeros = projected.new_zeros(batch.rows * batch.longest, projected.shape[1])
    padded_rows = zeros.index_copy(0, batch.slots, projected)
    parts = padded_rows.view(batch.rows, batch.longest, kinds, heads, -1)
    *queries, key, value = parts.permute(2, 0, 3, 1, 4)
    if query is not None:
        queries = [query.view(batch.rows, heads, 1, -1)]
    place = torch.arange(batch.longest, device=projected.device)
    mask = seen(place, batch.lengths, queries[0].shape[2], window)[:, None]
    # The fused kernels there have dropout.
    context = F.scaled_dot_product_attention(queries[0], key, value, attn_mask=mask, dropout_p=p)
    context = context.transpose(1, 2).reshape(-1, heads * context.shape[-1])
    return context if query is not None else context.index_select(0, batch.slots)


def seen(place: Any, lengths: Any, queries: int, window: int | None) -> Any:
    """Return whether the first `queries` see the key at each `place`, [B, 1 or queries, keys]."""
    lengths = lengths[:, None, None]
    asking = place[:queries, None]
    real = place < lengths
    # Padding sees all: not to be NaN.
    return real if window is None else real & (abs(asking - place) <= window) | (asking >= lengths)


class Blocks(NamedTuple):
    """Where a batch's vectors (one head's query, key or value of a token) stand in its blocks.

    A block has all heads of rows of similar length: places of queries, then of keys, then of
    values, each as many for a row and head. `shapes` has three of [rows * heads, places] a block.
    """

    shapes: list[tuple[int, int]]
    biases: list[Tensor | None]
    """What is added to scores, [rows * heads, 1 or queries, keys]: 0 at keys that are seen, minus
    infinity elsewhere; None if all keys are seen."""
    gather_index: Tensor  # the vector at each place, int64; any at padding
    scatter_index: Tensor  # the place of each vector, int64
    query_index: Tensor  # the place of each query, in the order of contexts, int64

    def split(self, placed: Tensor) -> Iterator[tuple[Tensor, ...]]:
        """Return queries, keys and values of each block, [rows * heads, places, d]."""
        parts = placed.split([rows * places for rows, places in self.shapes])
        views = [part.view(*shape, -1) for part, shape in zip(parts, self.shapes, strict=True)]
        return zip(views[::3], views[1::3], views[2::3], strict=True)


def make_blocks(
    batch: Packed, heads: int, one_query: bool, lanes: int, window: int | None
) -> Blocks:
    """Return the blocks of `batch`.

    Vectors are the heads' queries, keys and values of each token, [T * 3 * heads]; with `one_query`
    the queries of each row, then the keys and values of each token, [(B + T * 2) * heads]. The keys
    of a block are padded to a multiple of `lanes`. A query sees keys at most `window` places away,
    if given.
    """
    lengths = batch.lengths.numpy()
    first = np.empty((batch.rows, 3, heads), np.int64)  # of the places of each row and head
    shapes: list[tuple[int, int]] = []
    biases: list[Tensor | None] = []
    total = 0
    for low, high in length_ranges(lengths, lanes):
        rows = np.flatnonzero((lengths >= low) & (lengths <= high))
        number = np.arange(len(rows) * heads).reshape(-1, heads)
        queries, keys = 1 if one_query else high, padded(high, lanes)
        for kind, places in enumerate((queries, keys, keys)):
            first[rows, kind] = total + number * places
            total += number.size * places
            shapes.append((number.size, places))
        mask = torch.from_numpy(seen(np.arange(keys), lengths[rows], queries, window))
        bias = torch.where(mask, 0.0, -torch.inf).repeat_interleave(heads, 0)
        biases.append(None if mask.all() else bias)
    place = first[batch.row_of.numpy()] + batch.positions.numpy()[:, None, None]
    query = (place[batch.first.numpy()] if one_query else place)[:, 0].ravel()
    place = np.concatenate([query, place[:, 1:].ravel()]) if one_query else place.ravel()
    vector = np.zeros(total, np.int64)
    vector[place] = np.arange(len(place))
    return Blocks(shapes, biases, *map(torch.from_numpy, (vector, place, query)))


def padded(length: int, lanes: int) -> int:
    """Return the next multiple of `lanes`."""
    return -(-length // lanes) * lanes


def length_ranges(lengths: np.ndarray, lanes: int) -> list[tuple[int, int]]:
    """Return each group's shortest and longest length: the cheapest split of sorted `lengths`."""
    different, counts = (found.tolist() for found in np.unique(lengths, return_counts=True))
    rows = np.cumsum([0, *counts]).tolist()
    best: list[tuple[float, list[tuple[int, int]]]] = [(0.0, [])]  # of the first n lengths
    for end, longest in enumerate(different, start=1):
        # A group of n rows up to L long costs n * L times L, padded, and GROUP_COST.
        area = longest * padded(longest, lanes)
        cost, begin = min(
            (best[n][0] + (rows[end] - rows[n]) * area + GROUP_COST, n) for n in range(end)
        )
        best.append((cost, [*best[begin][1], (different[begin], longest)]))
    return best[-1][1]


class _AttendInBlocks(torch.autograd.Function):
    """From vectors [N, d] in the order of `Blocks` to the contexts' vectors."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, blocks: Blocks, p: float) -> Tensor:
        placed = vectors.index_select(0, blocks.gather_index)
        contexts, scale = torch.empty_like(placed), vectors.shape[1] ** -0.5
        saved: list[Tensor | None] = []
        for (q, k, v), (context, *_), bias in zip(
            blocks.split(placed), blocks.split(contexts), blocks.biases, strict=True
        ):
            if bias is None:
                scores = torch.bmm(q, k.mT).mul_(scale)
            else:
                scores = torch.baddbmm(bias.to(q.dtype), q, k.mT, alpha=scale)
            weights = scores.softmax(-1)
            mask = dropout_mask(weights.shape, p, weights.dtype) if p else None
            torch.bmm(apply_mask(weights, mask), v, out=context)
            saved += [weights, mask]
        ctx.blocks, ctx.scale, ctx.factor = blocks, scale, 1 / kept_share(p)
        ctx.save_for_backward(placed, *saved)
        return contexts.index_select(0, blocks.query_index).mul_(ctx.factor)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        placed, *saved = ctx.saved_tensors
        # The place of a query has the gradient of its context until that of the query is known.
        found = torch.zeros_like(placed)
        found.index_copy_(0, ctx.blocks.query_index, gradient * ctx.factor)
        parts = ctx.blocks.split(placed), ctx.blocks.split(found)
        for (q, k, v), (up, of_k, of_v), weights, mask in zip(
            *parts, saved[::2], saved[1::2], strict=True
        ):
            torch.bmm(apply_mask(weights, mask).mT, up, out=of_v)
            through = apply_mask(torch.bmm(up, v.mT), mask)
            scores = torch._softmax_backward_data(through, weights, -1, weights.dtype)
            torch.bmm(scores, k, out=up).mul_(ctx.scale)
            torch.bmm(scores.mT, q, out=of_k).mul_(ctx.scale)
        return found.index_select(0, ctx.blocks.scatter_index), None, None
