"""A network as the mixture of a classifier, with early stopping on held-out labels.

800 digits, 150 of them labelled, are compared in four ways. `mixture="network"` trains a small
network from the linear mixture, for as many steps as lower the loss of labels that are held out; it
predicts new images, explains its paths, and is stored without pickle.
"""

import tempfile
from pathlib import Path

import numpy as np
from _comparison import save
from sklearn.datasets import load_digits

import metricmix as mm
from metricmix.plots import PALETTE, figure

X, y = load_digits(return_X_y=True)
chosen = np.random.default_rng(0).permutation(len(y))[:1000]
X, y, new, y_new = X[chosen[:800]], y[chosen[:800]], X[chosen[800:]], y[chosen[800:]]
known = np.where(np.arange(800) < 150, y, -1)
paths = mm.dissimilarity.knn_path_length(k=8)
sources = ["cosine", "euclidean", "cityblock", paths]
models = {}
for kind in ("linear", "network"):
    models[kind] = mm.MetricMixtureClassifier(
        sources, mixture=kind, rule="class-mean", random_state=0
    ).fit(X, known)
    found = models[kind].transduction_[known < 0] == y[known < 0]
    score = models[kind].score(new, y_new)
    print(f"{kind}: {found.mean():.3f} of the unlabelled, {score:.3f} of new images")
network = models["network"]
print(f"trained on {network.device_} for {network.n_iter_} steps: {network.mixture_}")
print(network.explain(400))
with tempfile.TemporaryDirectory() as folder:
    mm.save(network, Path(folder) / "digits.mm")
    again = mm.load(Path(folder) / "digits.mm")
same = (again.predict(new) == network.predict(new)).all()
print("stored and loaded, it predicts the same:", bool(same))

picture, axes = figure(7.0, 4.0)
trace = network.result_.trace
axes.plot(trace.iteration, trace.objective, color=PALETTE[0], label="all labels")
axes.plot(trace.iteration, trace.details["held_out"], color=PALETTE[1], label="held-out labels")
axes.set(xlabel="steps of training", ylabel="cross-entropy", title="training and held-out labels")
axes.legend(frameon=False)
save(picture, "torch_classifier")
