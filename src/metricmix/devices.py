"""Which device computes, and the optional package :mod:`metricmix.torch` behind it.

``device`` is "cpu" (numpy arrays and compiled loops), "cuda" (a GPU through PyTorch) or "auto" (the
GPU if there is one). Nothing imports PyTorch unless a GPU is asked for.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from metricmix.exceptions import InputError, MissingPackageError

__all__ = ["DEVICES", "in_torch", "resolve_device", "torch_module"]

DEVICES = ("cpu", "cuda", "auto")


def torch_module(name: str) -> Any:
    """Return the module ``metricmix.torch.name``.

    Raises
    ------
    MissingPackageError
        If PyTorch is not installed.
    """
    if find_spec("torch") is None:
        raise MissingPackageError(
            "metricmix.torch needs PyTorch; install it with pip install 'metricmix[torch]'"
        )
    return import_module(f"metricmix.torch.{name}")


def resolve_device(device: str) -> str:
    """Return "cpu", or "cuda" (or "cuda:1", …) if there is such a GPU.

    Raises
    ------
    InputError
        If it is no device, or a GPU is asked for and there is none.
    MissingPackageError
        If a GPU is asked for and PyTorch is not installed.

    Examples
    --------
    >>> resolve_device("cpu")
    'cpu'
    """
    kind, _, number = device.partition(":") if isinstance(device, str) else ("", "", "")
    if kind not in DEVICES or (number and not (kind == "cuda" and number.isdecimal())):
        raise InputError(argument="device", expected="'cpu', 'cuda' or 'auto'", found=f"{device!r}")
    if kind == "cpu" or (kind == "auto" and find_spec("torch") is None):
        return "cpu"
    count = int(torch_module("tensors").cuda_devices())
    if count > int(number or 0):
        return device if kind == "cuda" else "cuda"
    if kind == "auto":
        return "cpu"
    raise InputError(
        argument="device",
        expected=f"a GPU that PyTorch can use, found {count or 'none'}",
        remedy="pass device='auto' to use the CPU where there is none",
    )


def in_torch(
    module: str, function: str, device: str, array: Any, *, name: str, **options: Any
) -> Any:
    """Return what a function of ``metricmix.torch`` gives for an array, called `name`, on a device.

    The array is copied to the device; a tensor that comes back becomes an array again.
    """
    there, tensors = torch_module(module), torch_module("tensors")
    found = getattr(there, function)(tensors.on_device(array, device, name), **options)
    return found.cpu().numpy() if hasattr(found, "cpu") else found
