"""`minimize` with the settings of the solver among the other arguments, as tables of tests want."""

from __future__ import annotations

import metricmix as mm
from metricmix.solvers.minimize import solver_from_options


def minimize(objective, stack, method="stochastic", **options):
    solver, others = solver_from_options(method, options)
    return mm.minimize(objective, stack, solver, **others)
