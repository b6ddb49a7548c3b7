"""Names for the arrays that the library passes around."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["AnyArray", "Floats", "Indices", "Ints", "Keys"]

AnyArray = NDArray[Any]
Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Indices = NDArray[np.int64]
Keys = NDArray[np.uint64]
