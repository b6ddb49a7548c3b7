"""The paper's three experiments and its figures, run by one command: ``metricmix reproduce``."""

from metricmix.paper.run import Outcome, reproduce

__all__ = ["Outcome", "reproduce"]
