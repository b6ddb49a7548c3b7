"""Any objective over metrics, by steps that end at the nearest metric."""

from metricmix.nearness.any_objective.minimize import minimize_metric

__all__ = ["minimize_metric"]
