"""Nearest neighbours in a scikit-learn pipeline.

300 digits are described by four projections: sums of the grey values along rows, columns and the
two diagonals. No projection is enough alone. MetricMixture learns how to combine them on each
training fold, and test images are attached to the metric of that fold (`metric="precomputed"`).
"""

import numpy as np
from _comparison import compare, save
from sklearn.datasets import load_digits
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

import metricmix as mm

X, y = (part[-300:] for part in load_digits(return_X_y=True))
row, column = np.divmod(np.arange(64), 8)
directions = {"rows": row, "columns": column, "falling": row - column, "rising": row + column}
# One line of a map per line of the image: map @ image are the sums along these lines.
maps = {name: np.equal.outer(np.unique(at), at) * 1.0 for name, at in directions.items()}
shadows = {name: mm.dissimilarity.mahalanobis(matrix=lines) for name, lines in maps.items()}
every_sum = mm.dissimilarity.mahalanobis(matrix=np.vstack(list(maps.values())))

candidates = {name: [shadow] for name, shadow in shadows.items()}
candidates["all sums side by side"] = [every_sum]
candidates["learned"] = list(shadows.values())
folds = StratifiedKFold(n_splits=5, shuffle=True, random_state=0)
scores = {}
for name, sources in candidates.items():
    neighbours = KNeighborsClassifier(n_neighbors=3, metric="precomputed")
    pipeline = make_pipeline(mm.MetricMixture(sources), neighbours)
    scores[name] = {"3 neighbours": cross_val_score(pipeline, X, y, cv=folds)}

picture = compare(scores, "accuracy, 5 folds")
weights = mm.MetricMixture(list(shadows.values())).fit(X, y).weights_
print("weights:", *(f"{w:+.2f} {n}" for n, w in zip(shadows, weights, strict=True)))
save(picture, "knn_precomputed")
