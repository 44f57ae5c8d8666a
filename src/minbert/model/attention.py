"""Scaled dot-product attention of packed rows (Vaswani et al., 2017, section 3.2.1).

On a CPU each head's queries, keys and values of rows of similar length are gathered into blocks of
one shape: attention is then a few batched products with little padding. Elsewhere all rows are
padded to the longest: an accelerator is faster with one kernel than with many.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from minbert.model.dropout import apply_mask, dropout_mask, kept_share
from minbert.model.packed import Packed

GROUP_COST = 1500
"""What one more group costs, in attention scores per head.

Measured with the built-in backbone and MiniLM, 16 and 128 rows: 500 to 5,000 are about as fast.
"""

REGISTER = 64
"""Bytes that a CPU computes on at once. Softmax takes keys one by one that do not fill it: with 13
keys, in fp32, seven times as long as with 16."""


def attend(
    projected: Tensor,
    query: Tensor | None,
    batch: Packed,
    heads: int,
    p: float,
    window: int | None = None,
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
    how = heads, query is not None, REGISTER // projected.itemsize, window
    # All layers need the same blocks.
    blocks = batch.derive(("blocks", *how), partial(make_blocks, batch.lengths.numpy(), *how))
    contexts: Tensor = _AttendInBlocks.apply(vectors, blocks, p)
    return contexts.view(-1, heads * size)


def _attend_padded(
    projected: Tensor,
    query: Tensor | None,
    batch: Packed,
    heads: int,
    p: float,
    window: int | None = None,
) -> Tensor:
    view = batch.padded
    kinds = 3 if query is None else 2
    parts = view.pad(projected).view(batch.rows, batch.longest, kinds, heads, -1)
    *queries, key, value = parts.permute(2, 0, 3, 1, 4)
    if query is not None:
        queries = [query.view(batch.rows, 1, heads, -1).transpose(1, 2)]
    mask = view.mask
    if window is not None:
        places = torch.arange(batch.longest, device=projected.device)
        near = (places[: queries[0].shape[2], None] - places).abs() <= window
        if query is None and mask is not None:  # padding would see nothing: NaN
            near = near | ~mask.transpose(2, 3)
        mask = near if mask is None else mask & near
    # The fused kernels there have dropout.
    context = F.scaled_dot_product_attention(queries[0], key, value, attn_mask=mask, dropout_p=p)
    context = context.transpose(1, 2).flatten(2).flatten(0, 1)
    return context if query is not None else context.index_select(0, view.slots)


class Block(NamedTuple):
    """All heads of rows of similar length, `products` in all, each of as many queries and keys.

    `bias` [products, 1, keys], or [products, queries, keys] if a query sees its surroundings alone,
    is added to the scores: 0 at keys that are seen, minus infinity at padding and elsewhere; None
    if all keys are seen.
    """

    products: int
    queries: slice  # among the places of all blocks' queries
    keys: slice  # likewise; also those of values
    bias: Tensor | None


@dataclass(frozen=True)
class Blocks:
    """Where a batch's vectors (one head's query, key or value of a token) stand in its blocks.

    All blocks' places of queries come first, then those of keys, then those of values.
    """

    blocks: tuple[Block, ...]
    sizes: tuple[int, int, int]  # places of queries, keys and values, padding included
    gather_index: Tensor  # the vector at each place, int64; any at padding
    scatter_index: Tensor  # the place of each vector, int64
    query_index: Tensor  # the place of each query, in the order of contexts, int64


def make_blocks(
    lengths: np.ndarray, heads: int, one_query: bool, lanes: int = 1, window: int | None = None
) -> Blocks:
    """Return the blocks of rows of `lengths`, int64 [B], of T tokens in all.

    Vectors are the heads' queries, keys and values of each token, [T * 3 * heads]; with `one_query`
    the queries of each row, then the keys and values of each token, [(B + T * 2) * heads]. The keys
    of a block are padded to a multiple of `lanes`. A query sees keys at most `window` places away,
    if given.
    """
    # Of each row: the first place of its queries and of its keys, and how far apart its heads are.
    first, apart = np.zeros((2, 2, len(lengths)), np.int64)
    blocks: list[Block] = []
    queries = keys = 0
    for low, high in length_ranges(Counter(lengths.tolist()), lanes):
        rows = np.flatnonzero((lengths >= low) & (lengths <= high))
        asks, width = 1 if one_query else high, padded(high, lanes)
        products = len(rows) * heads
        bias = None
        if low < width or (window is not None and high - 1 > window):
            length, place = lengths[rows, None, None], np.arange(width)
            seen = place < length  # [rows, 1, width]
            if window is not None:
                asking = place[:asks, None]
                # Padding sees all: if it saw nothing, it would be NaN.
                seen = seen & ((abs(asking - place) <= window) | (asking >= length))
            unseen = np.where(seen, np.float32(0), np.float32("-inf"))
            bias = torch.from_numpy(unseen).repeat_interleave(heads, 0)
        starts = queries, keys
        queries, keys = queries + products * asks, keys + products * width
        blocks.append(Block(products, slice(starts[0], queries), slice(starts[1], keys), bias))
        apart[:, rows] = [[asks], [width]]
        first[:, rows] = np.array(starts)[:, None] + np.arange(len(rows)) * heads * apart[:, rows]
    row = np.repeat(np.arange(len(lengths)), lengths)
    inside = np.arange(len(row)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    head = np.arange(heads)
    query_row, query_inside = (np.arange(len(lengths)), 0) if one_query else (row, inside[:, None])
    query = first[0][query_row, None] + head * apart[0][query_row, None] + query_inside
    key = queries + first[1][row, None] + head * apart[1][row, None] + inside[:, None]
    if one_query:
        places = np.concatenate([query.ravel(), np.stack([key, key + keys], 1).ravel()])
    else:
        places = np.stack([query, key, key + keys], 1).ravel()
    vectors = np.zeros(queries + 2 * keys, np.int64)
    vectors[places] = np.arange(len(places))
    found = map(torch.from_numpy, (vectors, places, query.ravel()))
    return Blocks(tuple(blocks), (queries, keys, keys), *found)


def padded(length: int, lanes: int) -> int:
    """Return the next multiple of `lanes`."""
    return -(-length // lanes) * lanes


def length_ranges(counts: Mapping[int, int], lanes: int) -> list[tuple[int, int]]:
    """Return each group's shortest and longest length: the cheapest split of the sorted lengths.

    `counts` has the number of rows of each length. A group of n rows up to L long costs n * L times
    L `padded` to a multiple of `lanes`, and `GROUP_COST`.
    """
    lengths = sorted(counts)
    best: list[tuple[float, list[tuple[int, int]]]] = [(0.0, [])]  # of the first n lengths
    for end, longest in enumerate(lengths, start=1):
        choices = []
        rows = 0
        for begin in reversed(range(end)):
            rows += counts[lengths[begin]]
            cost = best[begin][0] + rows * longest * padded(longest, lanes) + GROUP_COST
            choices.append((cost, begin))
        cost, begin = min(choices)
        best.append((cost, [*best[begin][1], (lengths[begin], longest)]))
    return best[-1][1]


class _AttendInBlocks(torch.autograd.Function):
    """From vectors [N, d] in the order of `Blocks` to the contexts' vectors."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, blocks: Blocks, p: float) -> Tensor:
        size = vectors.shape[1]
        placed = vectors.index_select(0, blocks.gather_index)
        query, key, value = placed.split(blocks.sizes)
        contexts = torch.empty_like(query)
        saved: list[Tensor | None] = []
        for block in blocks.blocks:
            shape = block.products, -1, size
            q, context = (part[block.queries].view(shape) for part in (query, contexts))
            k, v = (part[block.keys].view(shape) for part in (key, value))
            if block.bias is None:
                scores = torch.bmm(q, k.transpose(1, 2)).mul_(size**-0.5)
            else:
                bias = block.bias.to(q.dtype)
                scores = torch.baddbmm(bias, q, k.transpose(1, 2), alpha=size**-0.5)
            weights = scores.softmax(-1)
            mask = dropout_mask(weights.shape, p, weights.dtype) if p else None
            torch.bmm(apply_mask(weights, mask), v, out=context)
            saved += [weights, mask]
        ctx.blocks, ctx.p = blocks, p
        ctx.save_for_backward(placed, *saved)
        return contexts.mul_(1 / kept_share(p)).index_select(0, blocks.query_index)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        blocks: Blocks = ctx.blocks
        placed, *saved = ctx.saved_tensors
        size = placed.shape[1]
        query, key, value = placed.split(blocks.sizes)
        found = torch.empty_like(placed)
        to_query, to_key, to_value = found.split(blocks.sizes)
        upper = torch.zeros_like(query).index_copy_(0, blocks.query_index, gradient)
        upper.mul_(1 / kept_share(ctx.p))
        for block, weights, mask in zip(blocks.blocks, saved[::2], saved[1::2], strict=True):
            shape = block.products, -1, size
            q, up, of_q = (part[block.queries].view(shape) for part in (query, upper, to_query))
            k, v, of_k, of_v = (
                part[block.keys].view(shape) for part in (key, value, to_key, to_value)
            )
            torch.bmm(apply_mask(weights, mask).transpose(1, 2), up, out=of_v)
            through = apply_mask(torch.bmm(up, v.transpose(1, 2)), mask)
            scores = torch._softmax_backward_data(through, weights, -1, weights.dtype)
            torch.bmm(scores, k, out=of_q)
            torch.bmm(scores.transpose(1, 2), q, out=of_k)
        found[: -len(value)].mul_(size**-0.5)
        return found.index_select(0, blocks.scatter_index), None, None
