"""Hidden travel times: the lengths of directed roads from the times of a few trips.

80 places are joined by roads, slower in one direction than in the other. Travel times are known for
5 % of the ordered pairs, with noise. Gradient descent through shortest paths finds the time of each
road in each direction, and with them all other trips.
"""

import numpy as np
import torch
from _comparison import save

import metricmix as mm
from metricmix.plots import PALETTE, figure

rng, n = np.random.default_rng(0), 80
place = rng.random((n, 2))
gap = np.linalg.norm(place[:, None] - place, axis=-1)
road = np.zeros((n, n), bool)
road[np.repeat(np.arange(n), 4), np.argsort(gap, axis=1)[:, 1:5].ravel()] = True
order = np.argsort(place[:, 0])
road[order[1:], order[:-1]] = True  # all places can be reached
road |= road.T
hidden = np.where(road, gap * np.exp(rng.normal(0.0, 0.5, (n, n))), np.inf)
np.fill_diagonal(hidden, 0.0)
true = mm.project(hidden, directed=True)
seen = (rng.random((n, n)) < 0.05) & ~np.eye(n, dtype=bool)
trips = torch.from_numpy(true * (1 + 0.05 * rng.normal(size=(n, n))))[seen]

roads, distance = torch.from_numpy(road), torch.from_numpy(gap)
factor = torch.zeros(int(road.sum()), dtype=torch.float64, requires_grad=True)
metric = mm.torch.ShortestPathMetric(directed=True, validate=False)


def travel_times():
    w = torch.full((n, n), torch.inf, dtype=torch.float64).fill_diagonal_(0.0)
    w = w.index_put(torch.nonzero(roads, as_tuple=True), distance[roads] * torch.exp(factor))
    return metric(w)


optimizer = torch.optim.Adam([factor], lr=0.02)
rest, shown = ~seen & ~np.eye(n, dtype=bool), {}
for step in range(401):
    d = travel_times()
    if step in (0, 100, 400):
        shown[step] = d.detach().numpy()
        error = np.abs(shown[step] - true)[rest].mean() / true[rest].mean()
        print(f"step {step:3d}: other trips are off by {error:.1%}")
    ridge = 1e-4 * (factor - factor.mean()).square().sum()
    loss = mm.torch.least_squares_loss(d[seen] / trips, torch.ones_like(trips)) + ridge
    factor.grad = None
    loss.backward()
    optimizer.step()
print("a directed metric:", mm.is_metric(shown[400], directed=True))
picture, axes = figure(5.5, 5.0)
for step, colour in ((0, PALETTE[1]), (400, PALETTE[0])):
    axes.plot(true[rest], shown[step][rest], ".", ms=2, color=colour, label=f"after {step} steps")
axes.axline((0, 0), slope=1, color="0.5", lw=1)
axes.set(xlabel="true travel time", ylabel="learned", title="trips that were not observed")
axes.legend(frameon=False)
save(picture, "torch_roads")
