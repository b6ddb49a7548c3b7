"""Which experiments there are, and how large they are by default."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from metricmix.exceptions import InputError
from metricmix.experiments.complexity import Complexity, default_limits
from metricmix.experiments.convergence import Convergence
from metricmix.experiments.experiment import Experiment
from metricmix.experiments.feature_space import FeatureSpace
from metricmix.experiments.semi_supervised import SemiSupervised
from metricmix.experiments.separation import Separation
from metricmix.experiments.step_cost import StepCost
from metricmix.validation import check_choice, check_integer

__all__ = ["PARTS", "plan"]

PARTS: dict[str, tuple[type[Experiment], ...]] = {
    "1": (Complexity,),
    "2": (FeatureSpace,),
    "3": (SemiSupervised,),
    "figures": (Convergence, Separation, StepCost),
}
"""What can be asked for; "all" is everything."""
SMALL: dict[type[Experiment], dict[str, Any]] = {
    Complexity: {
        "sizes": (40, 50, 60, 70, 80, 100, 200),
        "repetitions": 3,
        "few_repetitions": 1,
        "general_sizes": (8,),
        "limits": {**default_limits(), "cvx": 60, "cvx, reduced": 100},
    },
    FeatureSpace: {"repetitions": 20},
    SemiSupervised: {"repetitions": 15},
    StepCost: {"sizes": (250, 500, 1000, 2000)},
}
"""For embedded data, where everything should be done within two minutes."""


def plan(
    what: str, data: str, *, sizes: tuple[int, ...] = (), repetitions: int | None = None
) -> list[Experiment]:
    """Return the experiments to run.

    Parameters
    ----------
    what : {"1", "2", "3", "figures", "all"}
    data : {"embedded", "real"}
    sizes : tuple of int, optional
        In place of the sizes of "1", "2" or "3".
    repetitions : int, optional
        In place of the numbers of repetitions.
    """
    check_choice(what, (*PARTS, "all"), name="what")
    chosen = [kind for part in PARTS if what in (part, "all") for kind in PARTS[part]]
    if sizes and what not in ("1", "2", "3"):
        raise InputError(f"sizes: go with one of the experiments 1, 2, 3, not with {what!r}")
    experiments = []
    for kind in chosen:
        experiment = kind(**(SMALL.get(kind, {}) if data == "embedded" else {}))
        changes: dict[str, Any] = {}
        if sizes:
            # From 11 images on, two show the same digit.
            changes["sizes"] = tuple(
                sorted({check_integer(D, name="sizes", low=11) for D in sizes})
            )
        if repetitions is not None and hasattr(experiment, "repetitions"):
            changes["repetitions"] = check_integer(repetitions, name="repetitions", low=1)
            if isinstance(experiment, Complexity):
                few = min(repetitions, experiment.few_repetitions)
                changes["few_repetitions"] = few
        experiments.append(replace(experiment, **changes))  # type: ignore[type-var]
    return experiments
