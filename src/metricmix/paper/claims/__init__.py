"""What the paper claims, and what came out."""

from __future__ import annotations

from metricmix.paper.claims.accuracy import CLAIMS as ACCURACY
from metricmix.paper.claims.cost import CLAIMS as COMPLEXITY
from metricmix.paper.claims.verdicts import CLAIMS as DESCENT
from metricmix.paper.claims.verdicts import Claim, Finding, Verdict

__all__ = ["CLAIMS", "Claim", "Finding", "Verdict"]

CLAIMS: tuple[Claim, ...] = (*DESCENT, *COMPLEXITY, *ACCURACY)
