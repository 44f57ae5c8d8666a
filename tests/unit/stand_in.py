"""A stand-in for an accelerator: its tensors lie on the CPU, but refuse to mix with the CPU's.

It goes by the name of `mps`, whose random numbers it does not have: dropout draws on the CPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

DEVICE = torch.device("mps")
CPU = torch.device("cpu")


class OnDevice(Tensor):
    """A tensor of the device; `Checked` says what it may meet."""

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]


class Checked(TorchFunctionMode):
    """Keeps what is on the device apart from what is on the CPU, as torch does."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        given = [each for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor)]
        there = any(isinstance(each, OnDevice) for each in given)
        if func == Tensor.device.__get__:
            return DEVICE if there else func(*args)
        if func is torch._has_compatible_shallow_copy_type:
            return False  # a module that moves gets new parameters
        if func is Tensor.to or "device" in kwargs:
            named = [place_of(each) for each in args[1:] if isinstance(each, Tensor)]
            args, kwargs = on_cpu((args, kwargs), named)
            return placed(func(*args, **kwargs), (*named, *map(place_of, args[:1]))[0])
        if func is Tensor.cpu:
            return placed(func(*args), CPU)
        if there and func is not Tensor.copy_:
            check(func, args, given)
        found = func(*args, **kwargs)
        return placed(found, DEVICE) if there else found


def place_of(tensor: Any) -> torch.device:
    return DEVICE if isinstance(tensor, OnDevice) else CPU


def on_cpu(words: Any, named: list[Any]) -> Any:
    """Return the arguments of a call with the CPU for each device in them, and note which."""

    def change(word: Any) -> Any:
        if isinstance(word, torch.device | str):
            named.append(torch.device(word))
            return CPU
        return word

    return tree_map(change, words)


def check(func: Any, args: tuple[Any, ...], given: list[Tensor]) -> None:
    """Raise what torch raises if tensors of the CPU meet others, or become arrays."""
    if func in (Tensor.numpy, Tensor.__array__):
        raise TypeError(f"can't convert {DEVICE} device type tensor to numpy")
    if func in {Tensor.__getitem__, Tensor.__setitem__} and isinstance(args[0], OnDevice):
        return  # numbers of rows may be on the CPU
    joins = func in {torch.cat, torch.stack}  # elsewhere, scalars may be
    if any(not isinstance(each, OnDevice) and (joins or each.ndim) for each in given):
        raise RuntimeError(f"{func.__name__}: expected all tensors to be on the same device")


def placed(found: Any, device: torch.device) -> Any:
    """Return what a function returned with its tensors on `device`."""
    kind = Tensor if device == CPU else OnDevice

    def place(each: Any) -> Any:
        plain = not isinstance(each, Tensor) or isinstance(each, OnDevice) == (kind is OnDevice)
        return each if plain else each.as_subclass(kind)

    return tree_map(place, found)


@contextmanager
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let jobs of this process find the device, and make it of tensors that check each other."""
    generator = torch.Generator
    with monkeypatch.context() as patch, Checked():
        patch.setattr(torch, "Generator", lambda device="cpu": generator())
        patch.setattr(torch.mps, "_get_default_mps_generator", generator)
        yield
