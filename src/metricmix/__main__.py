"""Run the command line as ``python -m metricmix``."""

from metricmix.cli import main

main()
