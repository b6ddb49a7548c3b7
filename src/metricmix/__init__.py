"""metricmix learns one true metric from many dissimilarities.

>>> import metricmix as mm

The method, in the order of the data flow: :mod:`~metricmix.metric` (checking a metric),
:mod:`~metricmix.dissimilarity` (raw data to sources, and the stack of them),
:mod:`~metricmix.mixture` (weights to edge lengths), :mod:`~metricmix.paths` (edge lengths to the
metric), :mod:`~metricmix.objectives` (what to minimise), :mod:`~metricmix.solvers` (how) and
:mod:`~metricmix.estimators` (scikit-learn estimators).

Metric-constrained optimisation: :mod:`~metricmix.nearness` (nearest metrics, any objective over
metrics) and :mod:`~metricmix.relaxations` (correlation clustering, sparsest and maximum cut).

The application, from user files to labels and a page: :mod:`~metricmix.app`. The paper's
experiments: :mod:`~metricmix.paper`. Beside these, :mod:`~metricmix.datasets` and
:mod:`~metricmix.plots`; with PyTorch, :mod:`~metricmix.torch`.

Importing the package is cheap: a name's module is loaded when the name is first used.
"""

from __future__ import annotations

import ast
from importlib import import_module
from pkgutil import get_data
from typing import Any


def _read_stub() -> dict[str, str]:
    """Return the module of every public name, as ``__init__.pyi`` lists them."""
    stub = get_data(__name__, "__init__.pyi")
    assert stub is not None
    imports = [node for node in ast.parse(stub).body if isinstance(node, ast.ImportFrom)]
    return {alias.name: node.module or "" for node in imports for alias in node.names}


_MODULES = _read_stub()
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name == "torch":
        from metricmix.devices import torch_module

        torch_module("tensors")  # says how to install PyTorch where it is missing
    if name in _MODULES:
        home = _MODULES[name]
        if home == __name__:  # a package, such as metricmix.paths
            value: Any = import_module(f"{home}.{name}")
        else:
            value = getattr(import_module(home), name)
    elif name == "__version__":
        from importlib.metadata import version

        value = version("metricmix")
    else:
        raise AttributeError(f"module 'metricmix' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
