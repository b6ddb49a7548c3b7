"""A map of the learned metric.

300 digits, 60 of them labelled, are compared by their projections in four directions.
Multidimensional scaling draws the learned metric beside the projection with the largest weight. The
score is the share of unlabelled images whose nearest neighbour on the map shows the same digit.
"""

import numpy as np
from _comparison import save
from sklearn.datasets import load_digits
from sklearn.manifold import MDS

import metricmix as mm
from metricmix.plots import PALETTE, figure

X, y = (part[1000:1300] for part in load_digits(return_X_y=True))
row, column = np.divmod(np.arange(64), 8)
lines = {"rows": row, "columns": column, "falling": row - column, "rising": row + column}
sums = {name: X @ np.equal.outer(np.unique(at), at).T for name, at in lines.items()}
sources = {name: mm.dissimilarity.features(table) for name, table in sums.items()}
stack = mm.DissimilarityStack(sources, scaling="mean")
known = np.random.default_rng(0).permutation(300) < 60
model = mm.MetricMixture()
learned = model.fit_transform(stack, np.where(known, y, -1))
print(model.mixture_)

single = stack.names[int(np.argmax(model.weights_))]
picture, axes = figure(9.0, 4.8)
picture.clear()
panels = picture.subplots(1, 2)
shares = []
panels_of = {f"one source: {single}": stack.source(single), "learned metric": learned}
for axes, (name, D) in zip(panels, panels_of.items(), strict=True):
    mds = MDS(2, metric="precomputed", n_init=4, init="random", random_state=0)
    place = mds.fit_transform(D)
    gap = np.linalg.norm(place[:, None] - place, axis=-1) + np.diag(np.full(300, np.inf))
    share = np.mean(y[gap.argmin(axis=1)] == y, where=~known)
    shares.append(share)
    full = np.mean(y[(D + np.diag(np.full(300, np.inf))).argmin(axis=1)] == y, where=~known)
    print(f"{name}: the nearest image shows the same digit for {share:.3f} of the unlabelled ones")
    print(f"  on the map, for {full:.3f} by the distances themselves")
    for digit in range(10):  # the digit is its own marker; colours only help
        colour = PALETTE[digit % len(PALETTE)]
        for x in place[y == digit]:
            axes.text(*x, str(digit), color=colour, fontsize=8, ha="center", va="center")
    axes.set_xlim(place[:, 0].min() * 1.05, place[:, 0].max() * 1.05)
    axes.set_ylim(place[:, 1].min() * 1.05, place[:, 1].max() * 1.05)
    axes.set_title(f"{name} ({share:.0%} next to their digit)", loc="left", fontsize=11)
    axes.set_xticks([])
    axes.set_yticks([])
verdict = "ahead of" if shares[1] > shares[0] else "NOT ahead of"
print(f"on the map, the learned metric is {verdict} the one source")
save(picture, "map_mds")
