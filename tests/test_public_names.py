"""The promised public names exist, are documented, and cost nothing to import."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import metricmix as mm

PROMISED = [
    "is_metric",
    "metric_violations",
    "check_metric",
    "NotAMetricError",
    "project",
    "DissimilarityStack",
    "Mixture",
    "shortest_path",
    "dissimilarity.features",
    "dissimilarity.path_length",
    "dissimilarity.threshold_graphs",
    "dissimilarity.knn_path_length",
    "dissimilarity.jaccard",
    "dissimilarity.resource_allocation",
    "dissimilarity.diffusion",
    "dissimilarity.mahalanobis",
    "objectives.LabelContrast",
    "objectives.LeastSquares",
    "objectives.Separable",
    "objectives.Triplets",
    "minimize",
    "minimize_metric",
    "SolveResult",
    "objectives.ClassMeans",
    "objectives.Neighbourhood",
    "objectives.KernelRegression",
    "objectives.TargetDifferences",
    "nearest_metric",
    "MetricMixture",
    "MetricMixtureClassifier",
    "MetricMixtureRegressor",
    "MetricRepair",
    "datasets.fetch_mnist",
    "datasets.fetch_citeseer",
    "datasets.fetch_cora",
    "datasets.fetch_pubmed",
    "datasets.make_attributed_graph",
]
PACKAGES = (
    "datasets",
    "dissimilarity",
    "estimators",
    "mixture",
    "nearness",
    "objectives",
    "paths",
    "solvers",
)


def lookup(dotted: str) -> object:
    value: object = mm
    for part in dotted.split("."):
        value = getattr(value, part)
    return value


@pytest.mark.parametrize("name", PROMISED)
def test_promised_name_exists_and_is_documented(name: str) -> None:
    doc = inspect.getdoc(lookup(name))
    assert doc is not None
    assert len(doc) > 20


def test_every_exported_name_resolves_and_is_documented() -> None:
    for name in mm.__all__:
        assert inspect.getdoc(getattr(mm, name)), name
    for package in PACKAGES:
        module = getattr(mm, package)
        for name in module.__all__:
            assert inspect.getdoc(getattr(module, name)), f"{package}.{name}"


def test_names_of_the_stub_are_those_of_the_package() -> None:
    stub = ast.parse(Path(mm.__file__).with_suffix(".pyi").read_text())
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    names = [(alias.name, alias.asname) for node in imports for alias in node.names]
    assert all(name == shown for name, shown in names)  # else type checkers hide them
    assert sorted(name for name, _ in names) == mm.__all__
    assert set(mm.__all__) <= set(dir(mm))


def test_unknown_attribute() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        mm.nonsense  # noqa: B018


def test_version() -> None:
    assert mm.__version__.count(".") == 2


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize("statement", ["import metricmix", "import metricmix.app.cli"])
def test_import_is_light(statement: str) -> None:
    heavy = "{'numpy', 'scipy', 'sklearn', 'numba', 'matplotlib', 'rich', 'pandas', 'pooch'}"
    assert run_python(f"import sys; {statement}; print(sorted({heavy} & set(sys.modules)))") == "[]"


def test_exceptions_do_not_load_numba() -> None:
    code = "import sys, metricmix as mm; mm.NotAMetricError; print('numba' in sys.modules)"
    assert run_python(code) == "False"


def test_graph_packages_are_not_imported_unasked() -> None:
    code = (
        "import sys, numpy as np, metricmix as mm;"
        "mm.dissimilarity.path_length(np.array([[0, 1], [1, 0]]));"
        "print(sorted({'networkx', 'igraph', 'pandas', 'matplotlib'} & set(sys.modules)))"
    )
    assert run_python(code) == "[]"
