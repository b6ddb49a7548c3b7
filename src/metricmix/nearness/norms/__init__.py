"""The norms of :func:`~metricmix.nearest_metric`: one file each, which registers itself."""
