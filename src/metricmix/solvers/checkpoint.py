"""Checkpoints: the whole state of a run in one npz file, without pickles, written atomically."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from metricmix.atomic import replacing
from metricmix.exceptions import CheckpointError

__all__ = ["damaged", "read_checkpoint", "write_checkpoint"]

FORMAT = "metricmix checkpoint 1"


def write_checkpoint(
    path: str | os.PathLike[str], header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> None:
    """Write a checkpoint beside its final name and move it there: never half a file.

    `header` holds what JSON can; numbers come back exactly as they were.
    """
    target = Path(path)
    # The states of some random generators hold arrays.
    text = json.dumps({"format": FORMAT, **header}, default=np.ndarray.tolist)
    content: dict[str, Any] = {"header": np.array(text)}
    content.update(arrays)
    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing(target) as file:
        np.savez(file, **content)


def read_checkpoint(
    path: str | os.PathLike[str], fingerprint: str, keys: Set[str]
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read what :func:`write_checkpoint` wrote for the problem with this fingerprint.

    A header without one of the keys is damaged.
    """
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as content:
            arrays = {name: content[name] for name in content.files}
        header = json.loads(str(arrays.pop("header")))
        if header["format"] != FORMAT or not header.keys() >= {"fingerprint", *keys}:
            raise KeyError
    except (OSError, KeyError, TypeError, AttributeError, ValueError, EOFError, BadZipFile):
        raise damaged(path) from None
    if header["fingerprint"] != fingerprint:
        raise CheckpointError(
            f"{os.fspath(path)}: belongs to another problem or other settings; "
            "delete it or choose another file"
        )
    return header, arrays


def damaged(path: str | os.PathLike[str]) -> CheckpointError:
    """Return the error for a file that is no checkpoint, or no longer one."""
    return CheckpointError(
        f"{os.fspath(path)}: not a metricmix checkpoint, or a damaged one; delete it to start anew"
    )
