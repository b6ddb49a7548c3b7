r"""The metrics of Experiments 1 and 2: one of images, and eight graphs that sketch it.

.. math:: [M_\mathrm{true}]_{ij} = \frac{\lVert x_i - x_j \rVert}
          {\sqrt{\lVert x_i \rVert \lVert x_j \rVert}}, \qquad
          [M_r]_{ij} = \mathrm{dist}_\mathrm{path}\big(i, j, G(A_r)\big), \qquad
          [A_r]_{ij} = \mathbf 1\big[[M_\mathrm{true}]_{ij} < \xi_r\big]

each scaled to the norm of :math:`M_\mathrm{true}`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricmix.dissimilarity import DissimilarityStack, features, threshold_graphs

__all__ = ["N_GRAPHS", "graphs_of", "image_metric", "random_start"]

N_GRAPHS = 8


def image_metric(pixels: NDArray[Any]) -> NDArray[np.float64]:
    """Return M_true of some images."""
    return np.asarray(features(pixels, "normalized-euclidean"), np.float64)


def graphs_of(metric: NDArray[np.float64], n_graphs: int = N_GRAPHS) -> DissimilarityStack:
    """Return the graph metrics made from M_true: eight, or as many as asked for."""
    return DissimilarityStack(threshold_graphs(metric, n_graphs))


def random_start(rng: np.random.Generator, n_sources: int = N_GRAPHS) -> NDArray[np.float64]:
    """Return x / ||x||², x standard normal: where the paper's descents start."""
    x = rng.normal(size=n_sources)
    return np.asarray(x / (x @ x))
