"""Tensors as input: checks, memory, and the kernels of their device.

One module per device has the kernels, with the same functions: ``cpu_kernels`` calls the compiled
loops of metricmix on the memory of the tensor, without a copy; ``triton_kernels`` runs on CUDA and
is imported for CUDA tensors only. Kernels check nothing; everything public calls the functions here
first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import torch

from metricmix.exceptions import InputError, MissingPackageError, TooLargeError
from metricmix.memory import check_fits
from metricmix.validation import SYMMETRY_TOLERANCE, as_float_array, check_square

__all__ = [
    "ENTRIES_AT_ONCE",
    "check_fits_on",
    "check_floats",
    "check_lengths",
    "cuda_devices",
    "kernels_for",
    "on_device",
    "out_of_memory_explained",
]

HALF = (torch.float16, torch.bfloat16)
"""Types that are computed in float32."""
FULL = (torch.float32, torch.float64)
ENTRIES_AT_ONCE = 1 << 26
"""Entries that are checked together: temporary tensors stay below a gigabyte."""


def cuda_devices() -> int:
    """Return the number of GPUs that PyTorch can use."""
    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def on_device(array: Any, device: str, name: str) -> torch.Tensor:
    """Return an array of numbers as a tensor on a device, float32 or float64."""
    values = as_float_array(array, name=name)
    if not values.flags.writeable or not values.flags.c_contiguous:
        values = values.copy()
    return torch.from_numpy(values).to(device)


def kernels_for(tensor: torch.Tensor) -> Any:
    """Return the module with the kernels for the device of a tensor.

    Raises
    ------
    MissingPackageError
        If the tensor is on a GPU and Triton is not installed.
    """
    if tensor.device.type == "cpu":
        return import_module("metricmix.torch.cpu_kernels")
    try:
        return import_module("metricmix.torch.triton_kernels")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "triton":
            raise
        raise MissingPackageError(
            "CUDA tensors need Triton, which comes with PyTorch on Linux; install it with "
            "pip install triton, or move the tensor to the CPU"
        ) from None


def check_floats(tensor: Any, *, name: str) -> torch.Tensor:
    """Return a floating-point tensor on the CPU or a GPU; half precision becomes float32."""
    if not isinstance(tensor, torch.Tensor):
        raise InputError(
            argument=name,
            expected="a torch.Tensor",
            found=type(tensor).__name__,
            remedy="the functions of metricmix itself take arrays",
        )
    if tensor.device.type not in ("cpu", "cuda"):
        raise InputError(
            argument=name, expected="a CPU or CUDA tensor", found=f"one on {tensor.device.type!r}"
        )
    if tensor.is_sparse or tensor.layout != torch.strided:
        raise InputError(
            argument=name,
            expected="a dense tensor",
            found=str(tensor.layout).removeprefix("torch."),
        )
    if tensor.dtype in HALF:
        return tensor.float()
    if tensor.dtype not in FULL:
        raise InputError(
            argument=name,
            expected="float32, float64, float16 or bfloat16",
            found=str(tensor.dtype).removeprefix("torch."),
            remedy="convert it, e.g. by .float()",
        )
    return tensor


def check_lengths(
    W: Any, *, name: str = "W", directed: bool = False, validate: bool = True
) -> torch.Tensor:
    """Return lengths (n, n) or (B, n, n) as a float32 or float64 tensor.

    Non-negative, inf where there is no edge, a zero diagonal, and symmetric up to rounding unless
    `directed`; an :class:`~metricmix.exceptions.InputError` says what is not. `validate=False`
    checks type and shape only.
    """
    lengths = check_floats(W, name=name)
    if lengths.ndim not in (2, 3) or lengths.shape[-1] != lengths.shape[-2] or not lengths.numel():
        raise InputError(
            argument=name,
            expected="square matrices, (n, n) or (B, n, n)",
            found=f"shape {tuple(lengths.shape)}",
        )
    if validate:
        held = lengths.detach()
        for number, matrix in enumerate(held if held.ndim == 3 else held[None]):
            called = name if held.ndim == 2 else f"{name}[{number}]"
            if matrix.device.type == "cpu":
                check_square(matrix.numpy(), name=called, directed=directed, allow_infinite=True)
            else:
                check_matrix(matrix, called, directed)
    return lengths


def check_matrix(matrix: torch.Tensor, name: str, directed: bool) -> None:
    """Raise as :func:`metricmix.validation.check_square` does, on the device of the matrix."""
    n = len(matrix)
    block = max(1, ENTRIES_AT_ONCE // n)
    largest = torch.zeros((), dtype=matrix.dtype, device=matrix.device)
    worst = torch.zeros_like(largest)
    for start in range(0, n, block):
        rows = matrix[start : start + block]
        wrong = torch.isnan(rows) | (rows < 0)
        if bool(wrong.any()):
            i, j = divmod(int(wrong.to(torch.uint8).argmax()), n)
            entry = rows[i, j].item()
            expected = "non-negative" if entry < 0 else "finite"
            raise InputError(
                argument=name,
                expected=f"{expected} entries, found {entry:.6g} at ({i + start}, {j})",
            )
        finite = torch.isfinite(rows)
        largest = torch.maximum(largest, torch.where(finite, rows, 0).amax())
        if not directed:
            gap = (rows - matrix[:, start : start + block].T).abs()
            worst = torch.maximum(worst, torch.nan_to_num(gap, nan=0.0, posinf=torch.inf).amax())
    diagonal = matrix.diagonal().abs()
    scale = largest.item()
    if diagonal.max().item() > SYMMETRY_TOLERANCE * scale:
        i = int(diagonal.argmax())
        raise InputError(
            argument=name,
            expected=f"a zero diagonal, found {diagonal[i].item():.6g} at ({i}, {i})",
            remedy="set it to 0 (a similarity must first be turned into a dissimilarity)",
        )
    rounding = max(SYMMETRY_TOLERANCE, 8 * torch.finfo(matrix.dtype).eps)
    if worst.item() > rounding * scale:
        raise InputError(
            argument=name,
            expected=f"symmetric, largest asymmetry {worst.item():.6g}",
            remedy="pass directed=True or symmetrise it, e.g. (W + W.T) / 2",
        )


# -- memory ----------------------------------------------------------------------------------------


def check_fits_on(
    device: torch.device, needed: Callable[[int], float], n: int, *, what: str, argument: str
) -> None:
    """Raise TooLargeError if ``needed(n)`` bytes are more than a device has free.

    The message says how many items would fit. Small amounts are not checked.
    """
    small = 1 << 26  # bytes up to which nobody asks whether they fit into memory
    if needed(n) <= small:
        return
    available = None
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        held = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        available = free + held
    check_fits(
        needed,
        n,
        what=what,
        instead="take fewer items, or float32 numbers",
        argument=argument,
        available=available,
    )


@contextmanager
def out_of_memory_explained(n: int, *, what: str, argument: str) -> Iterator[None]:
    """Turn PyTorch's error for too little memory on the device into one sentence."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise TooLargeError(
            f"{what} of {n} items ran out of memory on the GPU, and about {int(0.7 * n)} items "
            "would fit",
            argument=argument,
            remedy="take fewer items, or float32 numbers",
        ) from None
