"""How :mod:`metricmix.estimators.model_files` puts estimators into files, part by part."""
