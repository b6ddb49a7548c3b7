"""Data sets that come inside packages: ``mm.fit`` with defaults, its parts, and stock models.

``make packaged-data`` writes docs/packaged_data.md. Each data set is a table, perhaps with edge
lists (`data`; `stored` is its file). Its labels are known for some items only. `ours` is what
``mm.fit(table, label=..., edges=...)`` predicts for the others, and `models` what stock models do;
`measures` says how good that is; `run` measures what has no result yet, and `page` is
written from the results alone.

Defaults were chosen by looking at the data sets of `CHOICE`, among others. Those of `REPORT` were
listed before any of them was fitted, and nothing was chosen on them.
"""

from benchmarks.packaged_data.data import CHOICE, DATA, REPORT, draw_labels
from benchmarks.packaged_data.models import baselines
from benchmarks.packaged_data.stored import Data

__all__ = ["CHOICE", "DATA", "REPORT", "Data", "baselines", "draw_labels"]
