"""The modules of the package as syntax trees, each file parsed once for all tests of structure."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import metricmix

SOURCE = Path(metricmix.__file__).parent


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())
