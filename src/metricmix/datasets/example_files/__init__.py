"""Files to try the command line with, for those who have none of their own at hand."""

from metricmix.datasets.example_files.gestures import GESTURES
from metricmix.datasets.example_files.papers import CITATIONS
from metricmix.datasets.example_files.roads import ROADS
from metricmix.datasets.example_files.tables import DIGITS, ExampleFiles

__all__ = ["EXAMPLES", "ExampleFiles"]

EXAMPLES = {example.name: example for example in (CITATIONS, DIGITS, GESTURES, ROADS)}
"""All examples, by name."""
