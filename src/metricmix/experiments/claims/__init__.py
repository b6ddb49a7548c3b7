"""What the paper claims, and what came out."""

from __future__ import annotations

from metricmix.experiments.claims.accuracy import CLAIMS as ACCURACY
from metricmix.experiments.claims.complexity import CLAIMS as COMPLEXITY
from metricmix.experiments.claims.descent import CLAIMS as DESCENT
from metricmix.experiments.claims.verdicts import Claim, Finding, Verdict

__all__ = ["CLAIMS", "Claim", "Finding", "Verdict"]

CLAIMS: tuple[Claim, ...] = (*DESCENT, *COMPLEXITY, *ACCURACY)
