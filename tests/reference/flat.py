"""`minimize` and `minimize_metric` with the settings of the solver among the other arguments."""

from __future__ import annotations

from dataclasses import fields

import metricmix as mm
from metricmix.solvers import PathDescent
from metricmix.solvers.minimize import solver_from_options


def minimize(objective, stack, method="stochastic", **options):
    solver, others = solver_from_options(method, options)
    return mm.minimize(objective, stack, solver, **others)


def minimize_metric(objective, X0, **options):
    names = [field.name for field in fields(PathDescent) if field.init]
    settings = {name: options.pop(name) for name in names if name in options}
    return mm.minimize_metric(objective, X0, PathDescent(**settings), **options)
