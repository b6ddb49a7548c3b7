"""From user files to a run folder, and back: what ``metricmix fit`` and ``predict`` do."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from metricmix.app.pipeline.config import FitSettings, plan_files

if TYPE_CHECKING:
    from metricmix.app.pipeline.fit_run import fit_files
    from metricmix.app.pipeline.run_folder import RunFolder, open_run
    from metricmix.fitting.new_labels import NewLabel, predict_new
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

SLOW_TO_IMPORT = {
    "FitOutcome": "metricmix.fitting.outcome",
    "NewLabel": "metricmix.fitting.new_labels",
    "RunFolder": "metricmix.app.pipeline.run_folder",
    "fit_files": "metricmix.app.pipeline.fit_run",
    "open_run": "metricmix.app.pipeline.run_folder",
    "predict_new": "metricmix.fitting.new_labels",
}


def __getattr__(name: str) -> Any:
    if name in SLOW_TO_IMPORT:
        return getattr(import_module(SLOW_TO_IMPORT[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
