"""Scaled dot-product attention of packed rows (Vaswani et al., 2017, section 3.2.1).

On a CPU each head's queries, keys and values of rows of similar length are gathered into blocks of
one shape: attention is then a few batched products with little padding. Elsewhere all rows are
padded to the longest: an accelerator is faster with one kernel than with many.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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
    width = projected.shape[1] // (3 if query is None else 2)
    vectors = projected.reshape(-1, width // heads)
    if query is not None:
        vectors = torch.cat([query.reshape(-1, width // heads), vectors])
    lanes = REGISTER // projected.itemsize
    found: Tensor = _AttendInBlocks.apply(
        vectors, _blocks(batch, heads, query is not None, lanes, window), p
    )
    return found.view(-1, width)


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
        near = _near(batch.longest, batch.longest, window, projected.device)
        if query is not None:
            near = near[:1]
        elif mask is not None:  # padding would see nothing, and its context would be NaN
            near = near | ~mask.transpose(2, 3)
        mask = near if mask is None else mask & near
    # The fused kernels there have dropout.
    context = F.scaled_dot_product_attention(queries[0], key, value, attn_mask=mask, dropout_p=p)
    context = context.transpose(1, 2).flatten(2).flatten(0, 1)
    return context if query is not None else context.index_select(0, view.slots)


def _near(queries: int, keys: int, window: int, device: torch.device | None = None) -> Tensor:
    """Return whether places are at most `window` apart, bool [queries, keys]."""
    places = torch.arange(max(queries, keys), device=device)
    return (places[:queries, None] - places[:keys]).abs() <= window


class Block(NamedTuple):
    """Every head of rows of similar length: `products` of one shape.

    `bias` [products, 1, keys], or [products, queries, keys] if a query sees its surroundings alone,
    is added to the scores: 0 at keys that are seen, minus infinity at padding and elsewhere; None
    if all keys are seen.
    """

    products: int
    queries: int
    keys: int
    bias: Tensor | None


@dataclass(frozen=True)
class Blocks:
    """Where a batch's vectors (one head's query, key or value of a token) stand in its blocks.

    All blocks' queries come first, then all keys, then all values. Orders are int64.
    """

    blocks: tuple[Block, ...]
    queries: int  # places of queries, padding included
    keys: int
    gather_index: Tensor  # the vector at each place; any at padding
    scatter_index: Tensor  # the place of each vector
    context_index: Tensor  # the context that each query is for; any at padding
    query_index: Tensor  # the place of each context's query
    padding: Tensor  # the places of queries that are padding

    def __iter__(self) -> Iterator[tuple[Block, slice, slice]]:
        """Yield each block with the slices of its queries, and of its keys or values."""
        query = key = 0
        for block in self.blocks:
            ends = query + block.products * block.queries, key + block.products * block.keys
            yield block, slice(query, ends[0]), slice(key, ends[1])
            query, key = ends


def _blocks(batch: Packed, heads: int, one_query: bool, lanes: int, window: int | None) -> Blocks:
    """Return the blocks of a batch, which keeps them: all layers need the same."""
    name = (heads, one_query, lanes, window)
    if name not in batch.blocks:
        made = make_blocks(batch.lengths.numpy(), heads, one_query, lanes, window=window)
        batch.blocks[name] = made
    return batch.blocks[name]


def make_blocks(
    lengths: np.ndarray,
    heads: int,
    one_query: bool,
    lanes: int = 1,
    cost: float = GROUP_COST,
    window: int | None = None,
) -> Blocks:
    """Return the blocks of rows of `lengths`, int64 [B], of T tokens in all.

    Vectors are the heads' queries, keys and values of each token, [T * 3 * heads]; with `one_query`
    the queries of each row, then the keys and values of each token, [(B + T * 2) * heads]. The keys
    of a block are padded to a multiple of `lanes`. A query sees keys at most `window` places away,
    if given.
    """
    first = np.cumsum(lengths) - lengths
    head = np.arange(heads)[:, None]
    before = len(lengths) * heads if one_query else 0
    kinds = 2 if one_query else 3
    blocks: list[Block] = []
    parts: list[tuple[np.ndarray, ...]] = []
    for low, high in length_ranges(Counter(lengths.tolist()), lanes, cost):
        rows = np.flatnonzero((lengths >= low) & (lengths <= high))
        width = padded(high, lanes)
        inside = (np.arange(width) < lengths[rows, None])[:, None]  # [rows, 1, width]
        token = np.where(inside, first[rows, None, None] + np.arange(width), 0)
        *query, key, value = (before + (token * kinds + n) * heads + head for n in range(kinds))
        real_key = np.broadcast_to(inside, key.shape)  # [rows, heads, width]
        context = (rows[:, None, None] if one_query else token[:, :, :high]) * heads + head
        if one_query:
            query, real_query = [context], np.ones(context.shape, bool)
        else:
            query, real_query = [query[0][:, :, :high]], real_key[:, :, :high]
        bias = None
        if low < width or (window is not None and high - 1 > window):
            seen = real_key[:, :, None]  # [rows, heads, 1, width]
            if window is not None:
                near = _near(context.shape[2], width, window).numpy()
                # Padding sees all: if it saw nothing, it would be NaN.
                seen = seen & (near | ~real_query[..., None])
            unseen = np.where(seen, np.float32(0), np.float32("-inf"))
            bias = torch.from_numpy(unseen).view(len(rows) * heads, -1, width)
        blocks.append(Block(len(rows) * heads, context.shape[2], width, bias))
        parts.append((*query, key, value, context, real_query, real_key))
    joined = (np.concatenate([each.ravel() for each in part]) for part in zip(*parts, strict=True))
    queries, keys, values, contexts, real_queries, real_keys = joined
    vectors = np.concatenate([queries, keys, values])
    return Blocks(
        tuple(blocks),
        len(queries),
        len(keys),
        gather_index=torch.from_numpy(vectors),
        scatter_index=_inverse(vectors, np.concatenate([real_queries, real_keys, real_keys])),
        context_index=torch.from_numpy(contexts),
        query_index=_inverse(contexts, real_queries),
        padding=torch.from_numpy(np.flatnonzero(~real_queries)),
    )


def _inverse(order: np.ndarray, real: np.ndarray) -> Tensor:
    """Return the place of each number in `order`, where it is `real`."""
    inverse = np.empty(real.sum(), np.int64)
    inverse[order[real]] = np.flatnonzero(real)
    return torch.from_numpy(inverse)


def padded(length: int, lanes: int) -> int:
    """Return the next multiple of `lanes`."""
    return -(-length // lanes) * lanes


def length_ranges(counts: Mapping[int, int], lanes: int, cost: float) -> list[tuple[int, int]]:
    """Return each group's shortest and longest length: the cheapest split of the sorted lengths.

    `counts` has the number of rows of each length. A group of n rows up to L long costs n * L times
    L `padded` to a multiple of `lanes`, and `cost`.
    """
    lengths = sorted(counts)
    best, cut = [0.0], [0]
    for end, longest in enumerate(lengths, start=1):
        choices = []
        rows = 0
        for begin in reversed(range(end)):
            rows += counts[lengths[begin]]
            choices.append((best[begin] + rows * longest * padded(longest, lanes) + cost, begin))
        cheapest, begin = min(choices)
        best.append(cheapest)
        cut.append(begin)
    ranges, end = [], len(lengths)
    while end:
        ranges.append((lengths[cut[end]], lengths[end - 1]))
        end = cut[end]
    return ranges[::-1]


class _AttendInBlocks(torch.autograd.Function):
    """From vectors [N, d] in the order of `Blocks` to the contexts' vectors."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, blocks: Blocks, p: float) -> Tensor:
        size = vectors.shape[1]
        placed = vectors.index_select(0, blocks.gather_index)
        query, key, value = placed.split([blocks.queries, blocks.keys, blocks.keys])
        contexts = placed.new_empty(blocks.queries, size)
        saved = [placed]
        for block, asks, has in blocks:
            q, k, v = (
                part.view(block.products, -1, size) for part in (query[asks], key[has], value[has])
            )
            if block.bias is None:
                scores = torch.bmm(q, k.transpose(1, 2)).mul_(size**-0.5)
            else:
                bias = block.bias.to(q.dtype)
                scores = torch.baddbmm(bias, q, k.transpose(1, 2), alpha=size**-0.5)
            weights = scores.softmax(-1)
            mask = dropout_mask(weights.shape, p, weights.dtype) if p else None
            torch.bmm(apply_mask(weights, mask), v, out=contexts[asks].view(q.shape))
            saved += [weights] if mask is None else [weights, mask]
        ctx.blocks, ctx.p = blocks, p
        ctx.save_for_backward(*saved)
        return contexts.mul_(1 / kept_share(p)).index_select(0, blocks.query_index)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        blocks: Blocks = ctx.blocks
        placed, *saved = ctx.saved_tensors
        of_blocks = (
            zip(saved[::2], saved[1::2], strict=True) if ctx.p else ((w, None) for w in saved)
        )
        size = placed.shape[1]
        query, key, value = placed.split([blocks.queries, blocks.keys, blocks.keys])
        found = torch.empty_like(placed)
        to_query, to_key, to_value = found.split([blocks.queries, blocks.keys, blocks.keys])
        upper = gradient.index_select(0, blocks.context_index).mul_(1 / kept_share(ctx.p))
        upper.index_fill_(0, blocks.padding, 0.0)
        for (block, asks, has), (weights, mask) in zip(blocks, of_blocks, strict=True):
            shape = (block.products, -1, size)
            q, k, v, up = (
                part.view(shape) for part in (query[asks], key[has], value[has], upper[asks])
            )
            torch.bmm(apply_mask(weights, mask).transpose(1, 2), up, out=to_value[has].view(shape))
            through = apply_mask(torch.bmm(up, v.transpose(1, 2)), mask)
            scores = torch._softmax_backward_data(through, weights, -1, weights.dtype)
            torch.bmm(scores, k, out=to_query[asks].view(shape))
            torch.bmm(scores.transpose(1, 2), q, out=to_key[has].view(shape))
        found[: blocks.queries + blocks.keys].mul_(size**-0.5)
        return found.index_select(0, blocks.scatter_index), None, None
