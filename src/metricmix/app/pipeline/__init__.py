"""From user files to a run folder, and back: what ``metricmix fit`` and ``predict`` do."""

from metricmix.app.pipeline.config import FitSettings, plan_files
from metricmix.app.pipeline.fit_run import fit_files
from metricmix.app.pipeline.run_folder import RunFolder, open_run
from metricmix.fitting.new_items import NewLabel, predict_new
from metricmix.fitting.outcome import FitOutcome

__all__ = [
    "FitOutcome",
    "FitSettings",
    "NewLabel",
    "RunFolder",
    "fit_files",
    "open_run",
    "plan_files",
    "predict_new",
]
