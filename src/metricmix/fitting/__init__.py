"""The job: items to a metric, predictions and a scoreboard, the same from Python and from files."""
