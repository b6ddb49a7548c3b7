"""Files to try the command line with, for those who have none of their own at hand."""

from metricmix.datasets.example_files.citations import CITATIONS
from metricmix.datasets.example_files.content import ExampleFiles
from metricmix.datasets.example_files.digits import DIGITS
from metricmix.datasets.example_files.gestures import GESTURES
from metricmix.datasets.example_files.roads import ROADS

__all__ = ["EXAMPLES", "ExampleFiles"]

EXAMPLES = {example.name: example for example in (CITATIONS, DIGITS, GESTURES, ROADS)}
"""All examples, by name."""
