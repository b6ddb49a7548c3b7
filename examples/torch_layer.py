"""A non-linear mixture in PyTorch: length against two sources, before and after training.

150 items are compared by two sources. The true metric, to be found from 5 % of its distances with
noise, follows the first source up to a threshold only: beyond it, farther is not longer. A linear
mixture cannot say so. A small network, trained through shortest paths in a plain loop, learns the
threshold, and its output is a metric before, during and after training.
"""

import numpy as np
import torch
from _comparison import save

import metricmix as mm
from metricmix.plots import figure

rng = np.random.default_rng(0)
torch.manual_seed(0)
place = 4.0 * rng.random((150, 2))
gaps = np.abs(place[:, None] - place)
stack = mm.DissimilarityStack([gaps[..., 0], gaps[..., 1]], names=["first", "second"])


def true_length(first, second):
    return 2.0 * np.minimum(first, 1.0) + 0.5 * second


true = mm.project(true_length(*np.moveaxis(gaps, -1, 0)))
seen = np.triu(rng.random((150, 150)) < 0.05, 1)
target = torch.from_numpy(true * (1 + 0.05 * rng.normal(size=true.shape))).float()[seen]
rest = ~(seen | seen.T | np.eye(150, dtype=bool))
x, metric = mm.torch.source_values(stack), mm.torch.ShortestPathMetric()
grid = torch.linspace(0.0, 4.0, 60)
points = torch.stack(torch.meshgrid(grid, grid, indexing="xy"), dim=-1).flatten(0, 1)
surfaces = {}
for name, lengths in (
    ("linear", mm.torch.LinearLengths(2, beta=10.0)),
    ("network", mm.torch.NetworkLengths(2, beta=10.0)),
):
    with torch.no_grad():
        surfaces.setdefault("before", lengths(points).reshape(60, 60).numpy())
    optimizer = torch.optim.Adam(lengths.parameters(), lr=0.03)
    for _ in range(500):
        optimizer.zero_grad()
        d = metric(lengths(x))
        mm.torch.least_squares_loss(d[seen], target).backward()
        optimizer.step()
    d = metric(lengths(x)).detach()
    error = np.abs(d.numpy() - true)[rest].mean() / true[rest].mean()
    print(f"{name}: other distances off by {error:.1%}, a metric: {mm.torch.is_metric(d)}")
with torch.no_grad():
    surfaces["after"] = lengths(points).reshape(60, 60).numpy()
surfaces["true"] = true_length(*points.T.numpy()).reshape(60, 60)

picture, _ = figure(11.0, 3.6)
picture.clear()
for axes, (name, z) in zip(picture.subplots(1, 3), surfaces.items(), strict=True):
    drawn = axes.contourf(grid, grid, z, levels=np.linspace(0, 5, 11), extend="max")
    picture.colorbar(drawn, ax=axes, label="length")
    axes.set(title=name, xlabel="first source", ylabel="second source")
save(picture, "torch_layer")
