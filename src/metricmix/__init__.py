"""metricmix."""
