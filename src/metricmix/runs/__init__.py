"""From files to a folder, and on from there: what ``metricmix fit`` and ``predict`` do."""

from metricmix.runs.fit import FitOutcome, fit_files
from metricmix.runs.folder import RunFolder, open_run
from metricmix.runs.predict import NewLabel, predict_files
from metricmix.runs.settings import FitSettings, plan_files

__all__ = [
    "FitOutcome",
    "FitSettings",
    "NewLabel",
    "RunFolder",
    "fit_files",
    "open_run",
    "plan_files",
    "predict_files",
]
