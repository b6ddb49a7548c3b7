"""Torch: a differentiable metric layer, networks that output metrics, and the GPU.

An extra, ``pip install 'metricmix[torch]'``, that nothing else imports. Tensors stay on their
device; CPU tensors use the compiled loops of metricmix, CUDA tensors Triton kernels.

>>> import torch, metricmix as mm
>>> W = torch.tensor([[0.0, 1, 5], [1, 0, 1], [5, 1, 0]], requires_grad=True)
>>> metric = mm.torch.ShortestPathMetric()
>>> metric(W)[0, 2].backward()
>>> W.grad[0]
tensor([0., 1., 0.])
"""

from metricmix.torch.lengths import (
    EmbeddingDistance,
    LinearLengths,
    LocalLengths,
    NetworkLengths,
    source_values,
)
from metricmix.torch.losses import (
    class_means_loss,
    class_means_scores,
    contrast_loss,
    least_squares_loss,
    neighbourhood_loss,
    triplet_loss,
)
from metricmix.torch.shortest_path_metric import ShortestPathMetric, soft_closure
from metricmix.torch.shortest_paths import closure, closure_rows, min_plus, predecessors
from metricmix.torch.violations import is_metric, metric_violations

__all__ = [
    "EmbeddingDistance",
    "LinearLengths",
    "LocalLengths",
    "NetworkLengths",
    "ShortestPathMetric",
    "class_means_loss",
    "class_means_scores",
    "closure",
    "closure_rows",
    "contrast_loss",
    "is_metric",
    "least_squares_loss",
    "metric_violations",
    "min_plus",
    "neighbourhood_loss",
    "predecessors",
    "soft_closure",
    "source_values",
    "triplet_loss",
]
