"""Estimators with fixed settings, for tests of everything else."""

from __future__ import annotations

from functools import partial

import metricmix as mm

classifier = partial(
    mm.MetricMixtureClassifier, constraint="nonnegative", rho=1e-3, rule="class-mean"
)
"""A classifier that chooses nothing, so that a fit is quick; arguments replace these settings."""
