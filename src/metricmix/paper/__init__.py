"""The paper's three experiments, its figures and claims: ``metricmix reproduce``."""

from metricmix.paper.runner import Reproduction, reproduce

__all__ = ["Reproduction", "reproduce"]
