"""A norm is one file: what each declares, and one that a test registers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import metricmix as mm
from metricmix.nearness.norms.l2 import SquaredNorm
from metricmix.nearness.norms.norm import NORMS

D = np.array([[0.0, 1.0, 7.0], [1.0, 0.0, 3.0], [7.0, 3.0, 0.0]])
DOCS = Path(__file__).parents[2] / "docs" / "choosing.md"


@pytest.mark.parametrize("name", NORMS.names())
def test_documentation_lists_every_norm(name):
    said = next(said for said in NORMS.declarations() if said.name == name)
    assert f'``"{name}"``' in mm.nearest_metric.__doc__
    assert said.facts["formula"] in mm.nearest_metric.__doc__
    assert f'`"{name}"`' in DOCS.read_text()


def test_a_norm_of_a_test():
    @NORMS.register(
        "toy", words="ten times the squares", brief="squares", formula="10 (x - d)^2", how="as l2"
    )
    class Tenfold(SquaredNorm):
        """Ten times the squares: the metric of "l2", another objective."""

        def objective(self, change, w):
            return 10.0 * super().objective(change, w)

        def solver(self, problem, pool, tol, device):
            found = super().solver(problem, pool, tol, device)
            bound = found.loss.lower_bound
            found.loss.lower_bound = lambda *given: (10.0 * bound(*given)[0], 1.0)
            rows = found.loss.objective_of_rows
            found.loss.objective_of_rows = lambda *given: 10.0 * rows(*given)
            return found

    try:
        result = mm.nearest_metric(D, norm="toy")
        assert result.converged
        assert result.metric == pytest.approx(mm.nearest_metric(D).metric)
        assert result.objective == pytest.approx(30.0)
        assert mm.MetricRepair(norm="toy").fit(D).metric_ == pytest.approx(result.metric)
    finally:
        NORMS.unregister("toy")
    with pytest.raises(mm.InputError, match=r"^norm: expected one of 'l2', .*, got 'toy'"):
        mm.nearest_metric(D, norm="toy")
