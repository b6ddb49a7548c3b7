"""Calibration of the predicted probabilities.

1000 digits, 50 of them labelled. Each prediction rule gives class probabilities for the other 950;
a point below the diagonal is overconfident. The title of each panel has the expected calibration
error.
"""

import numpy as np
from _comparison import save
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss

import metricmix as mm
from metricmix.plots.reliability import plot_reliability
from metricmix.plots.style import figure

X, y = (part[:1000] for part in load_digits(return_X_y=True))
known = np.random.default_rng(0).permutation(1000) < 50
sources = ["cosine", mm.dissimilarity.knn_path_length(k=8, unreachable="bridge")]
panels = []
for rule in ("class-mean", "nearest", "k-nearest", "spreading"):
    model = mm.MetricMixtureClassifier(sources, rule=rule).fit(X, np.where(known, y, -1))
    proba = model.predict_proba(X[~known])
    right = model.classes_[proba.argmax(axis=1)] == y[~known]
    shown = np.clip(proba, 1e-6, 1)  # votes may leave a class no probability at all
    loss = log_loss(y[~known], shown / shown.sum(axis=1, keepdims=True), labels=model.classes_)
    print(
        f"{rule:11s} accuracy {right.mean():.3f}, mean probability {proba.max(axis=1).mean():.3f}, "
        f"log loss {loss:.3f}"
    )
    panel = plot_reliability(y[~known], proba, model.classes_)
    panel.suptitle(f'rule="{rule}"', fontsize=12, fontweight="bold")
    panel.set_dpi(110)
    panel.canvas.draw()
    panels.append(np.asarray(panel.canvas.buffer_rgba()))

tiles = np.vstack([np.hstack(panels[:2]), np.hstack(panels[2:])])
picture, axes = figure(10.0, 10.8)
axes.set_axis_off()
axes.imshow(tiles)
save(picture, "reliability")
