"""Networks whose output is a metric, beside others: labels from few examples, a hidden road metric.

``python -m benchmarks.torch_comparison`` writes docs/torch_comparison.json and the tables of
docs/torch.md; data in METRICMIX_DATA, digits otherwise. Needs ``pip install
pytorch-metric-learning``. torchqmet is not on the package index: its interval quasimetric head is
implemented here from its definition, and so is blackbox differentiation of shortest paths.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array, diags_array, eye_array
from scipy.sparse.csgraph import dijkstra
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA, TruncatedSVD

import metricmix as mm
from benchmarks.measure import real_data
from metricmix.objectives import class_mean_scores, half_means
from metricmix.paper.page import table
from metricmix.paper.results import provenance

DOCS = Path(__file__).parent.parent / "docs"
RESULTS, PAGE = DOCS / "torch_comparison.json", DOCS / "torch.md"
N_ITEMS, PER_CLASS, STEPS = 500, 10, 150
N_NODES, SHARE, NOISE, ROAD_STEPS, RIDGE = 100, 0.05, 0.05, 400, 1e-4


# -- heads -----------------------------------------------------------------------------------------


class IntervalHead(torch.nn.Module):
    """Interval quasimetric embedding: lengths of unions of intervals, mixed by max and mean.

    d(x, y) = a max_k c_k + (1 - a) mean_k c_k, where c_k is the length of the union over l of the
    intervals [x_kl, max(x_kl, y_kl)]; every triangle inequality holds, d need not be symmetric.
    """

    def __init__(self, parts: int = 8) -> None:
        super().__init__()
        self.parts = parts
        self.share = torch.nn.Parameter(torch.zeros(()))
        self.scale = torch.nn.Parameter(torch.zeros(()))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Return the distances from x to y, broadcast against each other."""
        x, y = torch.broadcast_tensors(x, y)
        low = x.unflatten(-1, (self.parts, -1))
        high = torch.maximum(low, y.unflatten(-1, (self.parts, -1)))
        ends = torch.cat([low, high], dim=-1)
        ends, order = ends.sort(dim=-1)
        weight = torch.cat([torch.ones_like(low), -torch.ones_like(high)], dim=-1)
        inside = weight.gather(-1, order).cumsum(dim=-1)[..., :-1] > 0.5
        components = ((ends[..., 1:] - ends[..., :-1]) * inside).sum(dim=-1)
        a = torch.sigmoid(self.share)
        found = a * components.amax(dim=-1) + (1 - a) * components.mean(dim=-1)
        return found * torch.exp(self.scale)


def perceptron(inputs: int, outputs: int = 32) -> torch.nn.Module:
    """Return the network of all embeddings."""
    return torch.nn.Sequential(
        torch.nn.Linear(inputs, 64), torch.nn.ReLU(), torch.nn.Linear(64, outputs)
    )


def descend(
    modules: list[torch.nn.Module], loss: Callable[[], Any], steps: int, rate: float
) -> None:
    """Minimise a loss by Adam."""
    parameters = [p for module in modules for p in module.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=rate)
    for _ in range(steps):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()


# -- labels from few examples ----------------------------------------------------------------------


def tables() -> dict[str, tuple[Any, Any, list[Any]]]:
    """Return the features, the classes and the tables for sources of each data set."""
    rng = np.random.default_rng(0)
    found = {}

    def add(name: str, y: Any, *views: Any) -> None:
        chosen = np.sort(rng.permutation(np.flatnonzero(y >= 0))[:N_ITEMS])
        parts = [np.ascontiguousarray(view[chosen]) for view in views]
        found[name] = np.hstack(parts), y[chosen], parts

    X, y = load_digits(return_X_y=True)
    add("digits", y, X / 16.0)
    if real_data("mnist") is not None:
        X, y = mm.datasets.fetch_mnist(return_X_y=True)
        add("MNIST", y[:6000], PCA(50, random_state=0).fit_transform(X[:6000] / 255.0))
    if real_data("citeseer.npz") is not None:
        data = mm.datasets.fetch_citeseer()
        words = TruncatedSVD(100, random_state=0).fit_transform(data.data)
        n = len(words)
        links = csr_array((np.ones(len(data.edges)), data.edges.T), shape=(n, n))
        links = ((links + links.T + eye_array(n)) > 0).astype(float)
        scale = diags_array(1.0 / np.sqrt(links.sum(axis=1)))
        smooth = scale @ links @ scale
        add("Citeseer", data.target, words, smooth @ (smooth @ words))
    return found


def sources(views: list[Any]) -> mm.DissimilarityStack:
    """Return the dissimilarities that mixtures get: three of every table."""
    given = {}
    for number, view in enumerate(views):
        rows = view / np.maximum(np.linalg.norm(view, axis=1, keepdims=True), 1e-9)
        given[f"euclidean {number}"] = mm.dissimilarity.features(view)
        given[f"angle {number}"] = mm.dissimilarity.features(rows)
        given[f"near {number}"] = mm.dissimilarity.knn_path_length(rows, k=10)
    return mm.DissimilarityStack(given, scaling="mean")


def by_class_means(d: Any, known: Any, y: Any) -> float:
    """Return the accuracy of class means in a matrix of distances, on items without a label."""
    labelled, rest = np.flatnonzero(known), np.flatnonzero(~known)
    classes, codes = np.unique(y[labelled], return_inverse=True)
    within = half_means(d[np.ix_(labelled, labelled)], codes, len(classes))
    scores = class_mean_scores(d[np.ix_(rest, labelled)], codes, len(classes), within)
    return float(np.mean(classes[scores.argmin(axis=1)] == y[rest]))


def mixture(kind: str, X: Any, y: Any, known: Any, views: Any) -> Any:
    model = mm.MetricMixtureClassifier(mixture=kind, rule="class-mean", random_state=0)
    model.fit(sources(views), np.where(known, y, -1))
    return model.compute_metric()


def end_to_end(X: Any, y: Any, known: Any, views: Any, project: bool = True) -> Any:
    stack = sources(views)
    table_ = torch.from_numpy(X).float()
    labelled = np.flatnonzero(known)
    values = mm.torch.source_values(stack, labelled[:, None], labelled)
    distance = mm.torch.EmbeddingDistance(perceptron(X.shape[1]))
    lengths = mm.torch.NetworkLengths(stack.n_sources + 1)

    def length(items: Any, x: torch.Tensor) -> torch.Tensor:
        return lengths(torch.cat([x, distance(table_[items])[..., None]], dim=-1))

    codes = np.unique(y[labelled], return_inverse=True)[1]
    descend(
        [distance, lengths],
        lambda: mm.torch.class_means_loss(length(labelled, values), codes),
        STEPS,
        3e-3,
    )
    with torch.no_grad():
        w = length(np.arange(len(X)), mm.torch.source_values(stack))
        return (mm.torch.closure(w) if project else w).double().numpy()


def pairs_only(X: Any, y: Any, known: Any, views: Any) -> Any:
    return end_to_end(X, y, known, views, project=False)


def euclidean_embedding(X: Any, y: Any, known: Any, views: Any) -> Any:
    from pytorch_metric_learning.losses import MultiSimilarityLoss

    table_, network = torch.from_numpy(X).float(), perceptron(X.shape[1])
    labelled = np.flatnonzero(known)
    loss, codes = MultiSimilarityLoss(), torch.from_numpy(y[labelled].astype(np.int64))
    descend([network], lambda: loss(network(table_[labelled]), codes), STEPS, 3e-3)
    with torch.no_grad():
        e = torch.nn.functional.normalize(network(table_)).double()
        return torch.cdist(e, e, compute_mode="donot_use_mm_for_euclid_dist").numpy()


def interval_embedding(X: Any, y: Any, known: Any, views: Any) -> Any:
    table_, network, head = torch.from_numpy(X).float(), perceptron(X.shape[1], 64), IntervalHead()
    labelled = np.flatnonzero(known)
    codes = np.unique(y[labelled], return_inverse=True)[1]

    def d(items: Any) -> torch.Tensor:
        e = network(table_[items])
        return head(e[:, None], e)

    descend([network, head], lambda: mm.torch.class_means_loss(d(labelled), codes), STEPS, 3e-3)
    with torch.no_grad():
        return d(np.arange(len(X))).double().numpy()


METHODS: dict[str, Callable[..., Any]] = {
    "metricmix, linear mixture": lambda *data: mixture("linear", *data),
    "metricmix, network mixture": lambda *data: mixture("network", *data),
    "metricmix, end to end with an embedding": end_to_end,
    "the same without projection": pairs_only,
    "Euclidean embedding (pytorch-metric-learning)": euclidean_embedding,
    "interval quasimetric embedding (as torchqmet)": interval_embedding,
}


def labels(repeats: int) -> list[dict[str, Any]]:
    """Return accuracy, violations and seconds of every method on every data set."""
    rows = []
    for data, (X, y, views) in tables().items():
        for name, method in METHODS.items():
            found = []
            for split in range(repeats):
                rng = np.random.default_rng(split)
                known = np.zeros(len(y), bool)
                for c in np.unique(y):
                    known[rng.permutation(np.flatnonzero(y == c))[:PER_CLASS]] = True
                torch.manual_seed(split)
                began = time.perf_counter()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    d = method(X, y, known, views)
                seconds = time.perf_counter() - began
                report = mm.metric_violations(d, directed=True, tol=1e-6)
                share = report.n_triangle_violations / (len(d) * (len(d) - 1))
                found.append((by_class_means(d, known, y), share, seconds))
            accuracy, share, seconds = np.mean(found, axis=0)
            rows.append(
                {
                    "data": data,
                    "method": name,
                    "accuracy": float(accuracy),
                    "deviation": float(np.std([f[0] for f in found])),
                    "violated": float(share),
                    "seconds": float(seconds),
                }
            )
            print(rows[-1], flush=True)
    return rows


# -- a hidden road metric --------------------------------------------------------------------------


@dataclass(frozen=True)
class Map:
    """Places with coordinates, the roads between them, and travel times of some pairs.

    Known to all methods: `place`, `gap` (distances as the crow flies), `road` (which ordered pairs
    a road joins), `given` (observed travel times, with noise) at `seen`. To be found: `true`.
    """

    place: torch.Tensor
    gap: torch.Tensor
    road: torch.Tensor
    given: torch.Tensor
    seen: torch.Tensor
    true: Any


def road_map(seed: int) -> Map:
    """Return a directed road network: each place joined to its four nearest, speeds vary."""
    rng = np.random.default_rng(seed)
    place = rng.random((N_NODES, 2))
    gap = np.linalg.norm(place[:, None] - place, axis=-1)
    near = np.argsort(gap, axis=1)[:, 1:5]
    road = np.zeros((N_NODES, N_NODES), bool)
    road[np.repeat(np.arange(N_NODES), 4), near.ravel()] = True
    step = np.argsort(place[:, 0])
    road[step[1:], step[:-1]] = True  # all places can be reached
    road |= road.T
    slowness = np.exp(rng.normal(0.0, 0.5, road.shape))  # of each road in each direction
    w = np.where(road, gap * slowness, np.inf)
    np.fill_diagonal(w, 0.0)
    d = mm.project(w, directed=True)
    unit = d.mean()
    d, gap = d / unit, gap / unit
    seen = (rng.random(d.shape) < SHARE) & ~np.eye(N_NODES, dtype=bool)
    given = d * (1 + NOISE * rng.normal(size=d.shape))
    tensors = [torch.from_numpy(part).float() for part in (place, gap)]
    return Map(
        tensors[0],
        tensors[1],
        torch.from_numpy(road),
        torch.from_numpy(given).float(),
        torch.from_numpy(seen),
        d,
    )


class RoadLengths(torch.nn.Module):
    """The length of each road in each direction: its distance times a factor to be learned."""

    def __init__(self, known: Map) -> None:
        super().__init__()
        self.known = known
        self.factor = torch.nn.Parameter(torch.zeros(int(known.road.sum())))

    def forward(self) -> torch.Tensor:
        """Return all lengths, inf where there is no road."""
        w = torch.full_like(self.known.gap, torch.inf).fill_diagonal_(0.0)
        return w.index_put(
            torch.nonzero(self.known.road, as_tuple=True),
            self.known.gap[self.known.road] * torch.exp(self.factor),
        )

    def ridge(self) -> torch.Tensor:
        """Return the penalty that keeps roads alike where nothing else is known."""
        return RIDGE * (self.factor - self.factor.mean()).square().sum()


def by_layer(known: Map) -> torch.Tensor:
    lengths = RoadLengths(known)
    seen, given = known.seen, known.given

    def loss() -> torch.Tensor:
        d = mm.torch.closure(lengths(), directed=True, validate=False)
        return mm.torch.least_squares_loss(d[seen], given[seen]) + lengths.ridge()

    descend([lengths], loss, ROAD_STEPS, 0.02)
    return mm.torch.closure(lengths(), directed=True).detach()


def by_blackbox(known: Map, strength: float = 1.0) -> torch.Tensor:
    """Differentiate the solver as a black box: paths of w, and of w changed by the gradient."""
    lengths = RoadLengths(known)
    i, j = (part.numpy() for part in torch.nonzero(known.seen, as_tuple=True))
    target = known.given.numpy()[i, j]

    def paths(w: Any) -> list[list[tuple[int, int]]]:
        _, pred = dijkstra(csr_array(np.where(np.isfinite(w), w, 0.0)), return_predecessors=True)
        found = []
        for a, b in zip(i.tolist(), j.tolist(), strict=True):
            at, edges = b, []
            while at != a:
                edges.append((int(pred[a, at]), at))
                at = int(pred[a, at])
            found.append(edges)
        return found

    optimizer = torch.optim.Adam(lengths.parameters(), lr=0.02)
    for _ in range(ROAD_STEPS):
        optimizer.zero_grad()
        w = lengths()
        now = w.detach().double().numpy()
        used = paths(now)
        d = np.array([sum(now[e] for e in edges) for edges in used])
        slope = 2.0 * (d - target) / len(d)
        # The cost of a path is g times w on its edges: the second search runs on a multiple of w,
        # and finds the same path. What is left is the gradient by the lengths.
        again = paths(now * (1.0 + strength * abs(slope).max()))
        gradient = np.zeros_like(now)
        for g, edges, others in zip(slope, used, again, strict=True):
            for e in edges:
                gradient[e] += g - (g / strength) * (e not in others)
        w.backward(torch.from_numpy(gradient).float(), retain_graph=True)
        lengths.ridge().backward()
        optimizer.step()
    return mm.torch.closure(lengths(), directed=True).detach()


def by_interval_head(known: Map) -> torch.Tensor:
    head, network = IntervalHead(), perceptron(2, 64)
    own = torch.nn.Embedding(N_NODES, 64)
    torch.nn.init.normal_(own.weight, std=0.1)
    i, j = torch.nonzero(known.seen, as_tuple=True)

    def loss() -> torch.Tensor:
        e = network(known.place) + own.weight
        return mm.torch.least_squares_loss(head(e[i], e[j]), known.given[i, j])

    descend([head, network, own], loss, ROAD_STEPS, 0.005)
    e = network(known.place) + own.weight
    return head(e[:, None], e).detach()


def by_euclidean(known: Map) -> torch.Tensor:
    network, own = perceptron(2, 16), torch.nn.Embedding(N_NODES, 16)
    torch.nn.init.normal_(own.weight, std=0.1)
    i, j = torch.nonzero(known.seen, as_tuple=True)

    def loss() -> torch.Tensor:
        e = network(known.place) + own.weight
        d = torch.linalg.vector_norm(e[i] - e[j] + 1e-6, dim=-1)
        return mm.torch.least_squares_loss(d, known.given[i, j])

    descend([network, own], loss, ROAD_STEPS, 0.005)
    e = (network(known.place) + own.weight).detach().double()
    return torch.cdist(e, e, compute_mode="donot_use_mm_for_euclid_dist")


def by_distance(known: Map) -> torch.Tensor:
    w = torch.where(known.road, known.gap, torch.inf).fill_diagonal_(0.0)
    d = mm.torch.closure(w, directed=True)
    ratio = (known.given[known.seen] * d[known.seen]).sum() / d[known.seen].square().sum()
    return ratio * d


ROADS: dict[str, Callable[[Map], torch.Tensor]] = {
    "metricmix, learned lengths of roads": by_layer,
    "the same by blackbox differentiation": by_blackbox,
    "interval quasimetric embedding (as torchqmet)": by_interval_head,
    "Euclidean embedding": by_euclidean,
    "shortest paths at one speed": by_distance,
}


def hidden_roads(repeats: int) -> list[dict[str, Any]]:
    """Return the held-out error, violations and seconds of every method."""
    rows = []
    for name, method in ROADS.items():
        found = []
        for seed in range(1, repeats + 1):  # the ridge was chosen on map 0
            known = road_map(seed)
            torch.manual_seed(seed)
            began = time.perf_counter()
            d = method(known).double().numpy()
            seconds = time.perf_counter() - began
            held_out = ~known.seen.numpy() & ~np.eye(len(d), dtype=bool)
            error = np.abs(d - known.true)[held_out].mean() / known.true[held_out].mean()
            report = mm.metric_violations(d, directed=True, tol=1e-5)
            share = report.n_triangle_violations / (len(d) * (len(d) - 1))
            found.append((error, share, seconds))
        error, share, seconds = np.mean(found, axis=0)
        rows.append(
            {
                "method": name,
                "error": float(error),
                "deviation": float(np.std([f[0] for f in found])),
                "violated": float(share),
                "seconds": float(seconds),
            }
        )
        print(rows[-1], flush=True)
    return rows


def warm_data() -> tuple[Any, Any, Any, Any]:
    """Return a small problem, to compile what is timed."""
    X = np.random.default_rng(0).random((60, 4))
    return X, np.arange(60) % 2, np.arange(60) < 30, [X]


# -- the page --------------------------------------------------------------------------------------


def write(results: dict[str, Any]) -> None:
    """Write the tables of docs/torch.md, between their marks."""
    data = list(dict.fromkeys(row["data"] for row in results["labels"]))
    body = []
    for name in METHODS:
        rows = {row["data"]: row for row in results["labels"] if row["method"] == name}
        cells = [
            f"{100 * rows[d]['accuracy']:.1f} ± {100 * rows[d]['deviation']:.1f}" for d in data
        ]
        share = max(row["violated"] for row in rows.values())
        seconds = np.mean([row["seconds"] for row in rows.values()])
        body.append([name, *cells, f"{100 * share:.2g} %", f"{seconds:.1f}"])
    head = ["", *data, "violated, at most", "seconds"]
    text = [
        f"Accuracy in per cent, {PER_CLASS} labels per class, {N_ITEMS} items, "
        f"{results['repeats']} splits; ± is the standard deviation over splits. *Violated*: "
        "ordered pairs whose distance exceeds a detour by more than 10⁻⁶ of the largest one.\n",
        table(head, body),
        f"\nHidden travel times on a road map of {N_NODES} places: coordinates and roads are "
        f"known, speeds are not, and {SHARE:.0%} of the ordered pairs were observed with "
        f"{NOISE:.0%} noise; {results['repeats']} maps. *Error*: mean absolute error of the pairs "
        "that were not observed, as a share of their mean.\n",
        table(
            ["", "error", "violated", "seconds"],
            [
                [
                    row["method"],
                    f"{100 * row['error']:.1f} ± {100 * row['deviation']:.1f} %",
                    f"{100 * row['violated']:.2g} %",
                    f"{row['seconds']:.1f}",
                ]
                for row in results["roads"]
            ],
        ),
        f"\n{results['origin']['date']}, one thread of {results['origin']['cpu']} that others use "
        f"as well, PyTorch {results['torch']}.",
    ]
    before, rest = PAGE.read_text().split("<!-- comparison -->\n", 1)
    after = rest.split("<!-- end of comparison -->", 1)[1]
    joined = "\n".join(text)
    PAGE.write_text(f"{before}<!-- comparison -->\n{joined}\n<!-- end of comparison -->{after}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--page", action="store_true", help="write the page from the results only")
    parser.add_argument("--only", choices=["roads", "labels"], help="measure one part again")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if not given.page:
        warm = torch.rand(300, 300, requires_grad=True)  # compiles what is timed below
        off = 1 - torch.eye(300)
        mm.torch.closure(warm * off, directed=True).sum().backward()
        mm.torch.closure((warm + warm.T) * off)
        mixture("linear", *warm_data())
        results = json.loads(RESULTS.read_text()) if given.only else {}
        results |= {
            "origin": dict(provenance()),
            "torch": torch.__version__,
            "repeats": given.repeats,
        }
        for part, measure in (("roads", hidden_roads), ("labels", labels)):
            if given.only in (None, part):
                results[part] = measure(given.repeats)
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    if PAGE.exists():
        write(json.loads(RESULTS.read_text()))


if __name__ == "__main__":
    main()
