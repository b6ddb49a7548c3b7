"""The methods, each as its own library's documentation uses it: labels of all items from a few.

A method names the package it needs; those that are not installed are left out. Settings are the
defaults of each library, except what is said here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis
from sklearn.semi_supervised import LabelSpreading
from sklearn.svm import SVC

import metricmix as mm
from benchmarks.side_by_side.tasks import Task

__all__ = ["METHODS", "Method"]

Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Method:
    """A way to label items; `sees` says what of a task it uses, `metric` whether it gives one."""

    package: str
    name: str
    sees: str
    metric: str
    label: Callable[[Task], Labels]
    needs_links: bool = False


def nearest(task: Task) -> Labels:
    return _nearest(task.table, task)


def _nearest(table: NDArray[np.float64], task: Task) -> Labels:
    rule = KNeighborsClassifier(1).fit(table[task.known], task.truth[task.known])
    return np.asarray(rule.predict(table))


def support_vectors(task: Task) -> Labels:
    return np.asarray(
        SVC(random_state=0).fit(task.table[task.known], task.truth[task.known]).predict(task.table)
    )


def components(task: Task) -> Labels:
    learner = NeighborhoodComponentsAnalysis(random_state=0)
    learner.fit(task.table[task.known], task.truth[task.known])
    return _nearest(learner.transform(task.table), task)


def spreading(task: Task) -> Labels:
    model = LabelSpreading(kernel="knn", n_neighbors=7).fit(task.table, task.given)
    return np.asarray(model.transduction_)


def mahalanobis(name: str, **settings: Any) -> Callable[[Task], Labels]:
    def label(task: Task) -> Labels:
        import metric_learn

        few = int(np.bincount(task.truth[task.known]).min()) - 1
        more = {"n_neighbors": min(3, few)} if name == "LMNN" else {}
        learner = getattr(metric_learn, name)(random_state=0, **settings, **more)
        learner.fit(task.table[task.known], task.truth[task.known])
        return _nearest(learner.transform(task.table), task)

    return label


def kernels(task: Task) -> Labels:
    import torch
    from MKLpy.algorithms import EasyMKL

    all_of_them = [np.exp(-_matrix(task, name)) for name in task.stack.names]
    known = task.known
    inner = [torch.tensor(K[np.ix_(known, known)]) for K in all_of_them]
    outer = [torch.tensor(K[:, known]) for K in all_of_them]
    model = EasyMKL(lam=0.1, learner=SVC(kernel="precomputed"))
    model.fit(inner, torch.tensor(task.truth[known]))
    return np.asarray(model.predict(outer))


def fusion(task: Task) -> Labels:
    import snf

    affinities = [snf.compute.affinity_matrix(_matrix(task, s), K=20) for s in task.stack.names]
    fused = snf.snf(affinities, K=20)
    np.fill_diagonal(fused, 0.0)
    model = LabelSpreading(kernel=lambda _, __: fused).fit(task.table, task.given)
    return np.asarray(model.transduction_)


def convolutions(task: Task) -> Labels:
    import torch
    from torch_geometric.nn import GCNConv

    torch.manual_seed(0)
    assert task.links is not None
    edges = torch.tensor(np.concatenate([task.links, task.links[:, ::-1]]).T.copy())
    x = torch.tensor(task.table / task.table.sum(1, keepdims=True), dtype=torch.float32)
    y, known = torch.tensor(task.truth), torch.tensor(task.known)
    first = GCNConv(x.shape[1], 16)
    second = GCNConv(16, int(task.truth.max()) + 1)
    groups = [
        {"params": first.parameters(), "weight_decay": 5e-4},
        {"params": second.parameters(), "weight_decay": 0.0},
    ]
    optimiser = torch.optim.Adam(groups, lr=0.01)

    def scores(training: bool) -> Any:
        h = torch.nn.functional.dropout(x, 0.5, training)
        h = torch.nn.functional.dropout(torch.relu(first(h, edges)), 0.5, training)
        return second(h, edges)

    for _ in range(200):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(scores(True)[known], y[known]).backward()
        optimiser.step()
    with torch.no_grad():
        return np.asarray(scores(False).argmax(1))


def mixture(**settings: Any) -> Callable[[Task], Labels]:
    def label(task: Task) -> Labels:
        model = mm.MetricMixtureClassifier(task.stack, **settings)
        return np.asarray(model.fit(task.known, task.truth[task.known]).transduction_)

    return label


def chosen(task: Task) -> Labels:
    model = mm.MetricMixtureClassifierCV(task.stack, random_state=0)
    return np.asarray(model.fit(task.known, task.truth[task.known]).transduction_)


def ready_sources(task: Task) -> Labels:
    stack = mm.sources_for(task.table, task.links, nodes=len(task.truth))
    model = mm.MetricMixtureClassifier(stack)
    return np.asarray(model.fit(task.known, task.truth[task.known]).transduction_)


def _matrix(task: Task, name: str) -> NDArray[np.float64]:
    """Return a source with mean 1."""
    matrix = np.array(task.stack.source(name)[:], dtype=np.float64)
    return matrix / matrix.mean()


METHODS = (
    Method("sklearn", "scikit-learn: nearest label, Euclidean", "table", "yes", nearest),
    Method("sklearn", "scikit-learn: support vectors", "table", "none", support_vectors),
    Method("sklearn", "scikit-learn: NCA, nearest label", "table", "pseudo", components),
    Method("sklearn", "scikit-learn: LabelSpreading, 7 neighbours", "table", "none", spreading),
    Method(
        "metric_learn", "metric-learn: LMNN, nearest label", "table", "pseudo", mahalanobis("LMNN")
    ),
    Method(
        "metric_learn",
        "metric-learn: ITML, nearest label",
        "table",
        "pseudo",
        mahalanobis("ITML_Supervised"),
    ),
    Method("MKLpy", "MKLpy: EasyMKL, support vectors", "sources", "none", kernels),
    Method("snf", "snfpy: fused, then LabelSpreading", "sources", "none", fusion),
    Method("torch_geometric", "PyG: two GCN layers", "table, links", "none", convolutions, True),
    Method("metricmix", "metricmix: equal weights", "sources", "yes", mixture(objective=None)),
    Method("metricmix", "metricmix: learned", "sources", "yes", mixture()),
    Method(
        "metricmix",
        "metricmix: learned, nearest label",
        "sources",
        "yes",
        mixture(rule="nearest"),
    ),
    Method(
        "metricmix",
        "metricmix: learned, labels spread",
        "sources",
        "yes",
        mixture(rule=mm.estimators.Spreading(7)),
    ),
    Method("metricmix", "metricmix: settings chosen too", "sources", "yes", chosen),
    Method(
        "metricmix", "metricmix: `sources_for`, learned", "table, links", "yes", ready_sources, True
    ),
)
