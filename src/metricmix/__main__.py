"""Run the command line as ``python -m metricmix``."""

from metricmix.app.cli import main

main(prog_name="metricmix")
