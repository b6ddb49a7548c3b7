"""Worked examples on real data, again with other labels: accuracy on all items without one.

``python examples/_held_out.py`` draws as many labels as the files of an example have, ten times
(five times for more than 500 items), fits by the command of the example, and writes one table into
each page of docs/worked. The baselines are those of docs/packaged_data.md.
"""

from __future__ import annotations

import re
import shlex
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.impute import SimpleImputer
from sklearn.linear_model import RidgeCV
from sklearn.metrics import r2_score
from sklearn.neighbors import KNeighborsRegressor
from sklearn.preprocessing import scale
from sklearn.svm import SVR

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))

import metricmix as mm  # noqa: E402
from benchmarks.packaged_data import Data, baselines  # noqa: E402
from metricmix.app.cli.fit import fit  # noqa: E402
from metricmix.app.pipeline import FitOutcome, fit_files, plan_files  # noqa: E402
from metricmix.app.pipeline.config import settings_of_options  # noqa: E402
from metricmix.datasets.example_files import EXAMPLES  # noqa: E402

REAL = ("articles", "diabetes", "digits", "karate")
START, END = "<!-- held out -->\n", "<!-- end -->\n"
OURS = ("learned metric", "equal weights", "best single source")


class Trial:
    """The files of an example in a folder, with labels of other items than the files have."""

    def __init__(self, name: str, folder: Path) -> None:
        example = EXAMPLES[name]
        example.write(folder)
        self.folder = folder
        command = next(step for step in example.commands_in(folder) if " fit " in step)
        words = shlex.split(command)[2:]
        self.file, self.options = Path(words[0]), words
        self.label = words[words.index("--label") + 1]
        self.table = pd.read_csv(self.file, dtype={self.label: str})
        self.known = self.table[self.label].notna().to_numpy()
        self.numeric = name == "diabetes"
        truth = pd.read_csv(folder / "truth.csv", dtype=str).set_index("id")[self.label]
        self.truth = truth.loc[self.table["id"]].to_numpy()
        files = [Path(words[k + 1]) for k, word in enumerate(words) if word == "--edges"]
        graphs = {file.stem: pd.read_csv(file) for file in files}
        table = self.table.assign(**{self.label: self.truth})
        if any("target" not in links for links in graphs.values()):
            # For the baselines: a column per group, and one per item that others link to.
            for links in graphs.values():
                held = pd.crosstab(links.iloc[:, 0], links.iloc[:, 1]).reindex(table["id"])
                table = table.merge(held.fillna(0), left_on="id", right_index=True)
        self.data = Data(table, self.label, graphs)
        plain = any(word.endswith("=plain") for word in words)  # then unscaled for all methods
        columns = table.drop(columns=["id", self.label])
        self.X = SimpleImputer().fit_transform(columns) if plain else None

    def draw(self, seed: int) -> np.ndarray:
        """Return which items get a label: as many as in the files, of each class."""
        order = np.random.default_rng(seed).permutation(len(self.truth))
        kept = np.zeros(len(order), dtype=bool)
        classes = np.zeros(len(order)) if self.numeric else self.truth
        for name in np.unique(classes):
            own = order[classes[order] == name]
            kept[own[: int(np.sum(self.known & (classes == name)))]] = True
        return kept

    def fitted(self, kept: np.ndarray) -> FitOutcome:
        """Run the command of the example."""
        cells = np.where(kept, self.truth, "")
        self.table.assign(**{self.label: cells}).to_csv(self.file, index=False)
        words = [*self.options, "--bootstrap", "0", "--no-report"]
        stated = fit.make_context("fit", words).params
        settings = settings_of_options(self.file, stated)
        return fit_files(plan_files(settings), settings, self.folder / "run")

    def predictions(self, kept: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
        """Yield each method, and what it predicts for all items."""
        outcome = self.fitted(kept)
        yield OURS[0], outcome.model.transduction_
        stack, comparison = outcome.gathered.stack, outcome.comparison
        assert comparison is not None
        best = max(comparison.chosen, key=comparison.chosen.__getitem__)
        y: np.ndarray = np.where(kept, self.truth, "")
        kind = mm.MetricMixtureRegressor if self.numeric else mm.MetricMixtureClassifier
        known = np.where(kept, self.truth.astype(float), np.nan) if self.numeric else y
        for name, part in ((OURS[1], stack), (OURS[2], stack.select([best]))):
            yield name, kind(part, objective=None).fit(None, known).transduction_
        yield from self.regressors(kept) if self.numeric else baselines(self.data, kept, self.X)

    def regressors(self, kept: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
        """Yield baselines of a numeric target."""
        X = scale(self.data.table.drop(columns=["id", self.label]).to_numpy(dtype=float))
        y = self.truth[kept].astype(float)
        models = {
            "ridge regression": RidgeCV(np.logspace(-2, 4, 13)),
            "10 nearest rows": KNeighborsRegressor(10),
            "support vectors": SVR(C=100.0),
        }
        for name, model in models.items():
            yield name, model.fit(X[kept], y).predict(X)
        yield "mean target", np.full(len(X), y.mean())

    def score(self, predicted: np.ndarray, kept: np.ndarray) -> float:
        """Return R², or the accuracy in per cent, on the items without a label."""
        if self.numeric:
            return float(r2_score(self.truth[~kept].astype(float), predicted[~kept]))
        return 100 * float(np.mean(predicted[~kept] == self.truth[~kept]))


def held_out(name: str) -> str:
    """Return the table of an example, and a sentence on how it was made."""
    scores: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trial = Trial(name, Path(folder, name))
        draws = 5 if len(trial.truth) > 500 else 10
        for seed in range(draws):
            kept = trial.draw(seed)
            for method, predicted in trial.predictions(kept):
                scores.setdefault(method, []).append(trial.score(predicted, kept))
            print(f"{name}, draw {seed + 1} of {draws}", flush=True)
    learned = np.array(scores[OURS[0]])
    what = "R²" if trial.numeric else "accuracy, %"
    digits = 3 if trial.numeric else 1
    rows = [f"| method | {what} | learned metric minus it |", "| --- | --- | --- |"]
    for method in sorted(scores, key=lambda key: -float(np.mean(scores[key]))):
        apart = learned - scores[method]
        error = apart.std(ddof=1) / np.sqrt(draws)
        gain = "" if method == OURS[0] else f"{apart.mean():+.{digits}f} ± {error:.{digits}f}"
        shown = f"**{method}**" if method == OURS[0] else method
        rows.append(f"| {shown} | {np.mean(scores[method]):.{digits}f} | {gain} |")
    n, labels = len(trial.truth), int(trial.known.sum())
    kind = "targets" if trial.numeric else "labels"
    without = "without a known target" if trial.numeric else "without a label"
    how = (
        f"The {n - labels} items {without}, mean of {draws} random draws of {labels} {kind}; "
        "± is the standard error of the paired differences."
    )
    return "\n".join([how, "", *rows, ""])


def main(names: list[str]) -> None:
    """Write the tables of some pages, or of all on real data."""
    for name in names or REAL:
        page = ROOT / "docs" / "worked" / f"{name}.md"
        text, table = page.read_text(encoding="utf-8"), held_out(name)
        between = re.compile(f"{re.escape(START)}.*?{re.escape(END)}", re.DOTALL)
        text = between.sub(lambda _, table=table: f"{START}\n{table}\n{END}", text)
        page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
