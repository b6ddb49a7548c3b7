"""How :mod:`metricmix.estimators.persistence` puts estimators into files, part by part."""
