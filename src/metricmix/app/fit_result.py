"""What ``mm.fit`` returns, and ``mm.load`` of a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from metricmix.app.page import page_html, write_page
from metricmix.app.page.fit_page import run_page
from metricmix.app.pipeline.fit_run import (
    check_output_folder,
    prediction_columns,
    reserved_folder,
    write_run,
)
from metricmix.app.pipeline.run_folder import RunFolder, is_run
from metricmix.atomic import replacing
from metricmix.cached import cached_property
from metricmix.dissimilarity.item_ids import is_numbering
from metricmix.dissimilarity.specs import graph_names
from metricmix.dissimilarity.supervised import SupervisedSource
from metricmix.estimators.predictor import MixturePredictor
from metricmix.exceptions import (
    InputError,
    ModelFileError,
    errors_of_arguments,
    in_python,
    warn_caller,
)
from metricmix.fitting.fit_items import fit_plan
from metricmix.fitting.new_items import FitInputs, attach_new
from metricmix.fitting.new_labels import new_columns, predict_new, remarks_on_new
from metricmix.fitting.outcome import FitOutcome
from metricmix.fitting.phrases import EdgePhrases, Reason
from metricmix.fitting.plan import plan_items
from metricmix.items.cells import did_you_mean, suggestion
from metricmix.items.in_memory import labels_of_type, new_items_like, relabelled_items
from metricmix.items.items import Items
from metricmix.items.tables import texts_of
from metricmix.learning.explanation import Explanation
from metricmix.paths.contributions import Contributions
from metricmix.paths.learned_metric import Metric
from metricmix.typing import AnyArray
from metricmix.validation import as_float_array

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Connection", "FitResult"]

NUMBERS = {"confidence", "distance", "predicted", "target"}
"""Columns of numbers."""


@dataclass(frozen=True, eq=False, repr=False)
class FitResult:
    """The result of a fit.

    Attributes
    ----------
    estimator : MixturePredictor
        The fitted classifier or regressor; `model` is the same with the classes as given.
    inputs : FitInputs
        What new items are compared with.
    found : dict
        What was found, as in run.json.
    columns : dict of lists
        The columns of `predictions`.
    outcome : FitOutcome, optional
        Everything in detail: `comparison`, `findings`, `notes`; None for a loaded result.
    run : RunFolder, optional
        The folder of a loaded result.
    """

    estimator: MixturePredictor
    inputs: FitInputs
    found: dict[str, Any]
    columns: dict[str, list[Any]]
    outcome: FitOutcome | None = None
    run: RunFolder | None = None

    @classmethod
    def of_outcome(cls, outcome: FitOutcome) -> FitResult:
        """Return the result of a fit."""
        inputs, columns = FitInputs.of(outcome.gathered), prediction_columns(outcome)
        return cls(outcome.model, inputs, outcome.to_record(), columns, outcome)

    @classmethod
    def of_folder(cls, run: RunFolder) -> FitResult:
        """Return the result that a folder holds; ModelFileError if it is damaged."""
        inputs, (header, *rows) = run.inputs(), run.prediction_rows()
        if not {"weights", "headline", "remarks", "label_type"} <= run.found.keys():
            raise ModelFileError(f"{run.source}: expected the record of a run in run.json")
        for source, held in zip(inputs.sources, run.model.learned_.whole.sources, strict=True):
            fresh = source.supervised
            if isinstance(held, SupervisedSource) and isinstance(fresh, SupervisedSource):
                held.predictor = fresh.predictor  # explanations of given labels learn without them
        columns: dict[str, list[Any]] = {
            name: [row[k] for row in rows] for k, name in enumerate(header)
        }
        columns["given"] = [text == "yes" for text in columns["given"]]
        for name in NUMBERS & columns.keys():
            columns[name] = [float(text or "nan") for text in columns[name]]
        return cls(run.model, inputs, run.found, columns, run=run)

    @cached_property
    def model(self) -> MixturePredictor:
        """The fitted classifier or regressor.

        Its classes are labels as they were given, numbers in the order of their texts.
        """
        if not self.found["label_type"]:
            return self.estimator
        return self.estimator.with_classes(self.as_given(self.estimator.classes_.tolist()))

    def as_given(self, labels: Sequence[str]) -> AnyArray:
        """Return labels in the type in which they were given."""
        return labels_of_type(labels, self.found["label_type"])

    def ids_as_given(self, ids: Sequence[str]) -> list[Any]:
        """Return ids in the type in which they were given; "" and None, for none, stay."""
        named = [item for item in ids if item]
        given = iter(labels_of_type(named, self.items.id_type).tolist())
        return [next(given) if item else item for item in ids]

    def id_texts(self, items: Sequence[Any], argument: str) -> list[str]:
        """Return ids as the texts that they are inside; InputError if one is unknown."""
        known = list(map(str, self.metric.ids.tolist()))
        texts, inside = texts_of(list(items)), set(known)
        for item in texts:
            if item not in inside:
                raise InputError(argument=argument, expected=did_you_mean(known, item))
        return list(texts)

    @property
    def metric(self) -> Metric:
        """The metric: distances, paths and neighbours of the items, by their ids.

        Its ids are texts; it takes whole numbers for the texts of these.
        """
        return self.estimator.metric_

    @property
    def items(self) -> Items:
        """What was known of the items; of a loaded result, what its sources are computed from."""
        return self.inputs.items

    @cached_property
    def predictions(self) -> pd.DataFrame:
        """A row per item, by id: its label, whether that was given, and how certain it is.

        Columns ``label``, ``given``, ``confidence``, ``nearest`` (labelled item), ``distance`` (to
        it) and ``prefers`` (the class that other labels predict, where it is not the given one,
        else ``""``); for numbers ``target``, ``given``, ``predicted``, ``nearest`` and
        ``distance``. Labels have the type in which they were given: numbers, truth values or texts.
        The nearest item is that of the learned metric, which has seen the labels of both; to judge
        a given label, use the confidence, which comes from refits without it. Of a loaded result,
        numbers are rounded as in predictions.csv. Ids have the type in which they were given, too,
        so that ``frame.join(result.predictions)`` matches them.
        """
        import pandas as pd

        ids = {name: self.ids_as_given(self.columns[name]) for name in ("id", "nearest")}
        frame = pd.DataFrame({**self.columns, **ids}).set_index("id")
        if self.found["label_type"]:
            frame["label"] = self.as_given(frame["label"].tolist())
            other = (frame["prefers"] != "").to_numpy()
            preferred = frame["prefers"].to_numpy(dtype=object)
            preferred[other] = self.as_given(preferred[other].tolist()).tolist()
            frame["prefers"] = preferred
        return frame

    @property
    def weights(self) -> pd.Series[float]:
        """The weight of each source, largest first."""
        import pandas as pd

        found = {one["source"]: one["weight"] for one in self.found["weights"]}
        weights = pd.Series(found, name="weight", dtype=float)
        return weights.sort_values(ascending=False, kind="stable")

    @property
    def scoreboard(self) -> pd.DataFrame:
        """How the learned metric and simpler methods do on held-out labels.

        Accuracy (or R²), with a 90 % interval for items without a label, balanced accuracy and
        macro F1 (or the mean absolute error), and the standard error over folds.
        """
        import pandas as pd

        measure = self.estimator.learned_.task.measures[1]
        compared = self.found.get(measure)
        if compared is None:
            raise InputError(self.found["headline"], argument="scoreboard")
        more = ["balanced_accuracy", "macro_f1"]
        if measure == "r2":
            more = ["mean_absolute_error"]
        columns = ["name", "kind", "mean", "low", "high", *more, "standard_error"]
        frame = pd.DataFrame(compared["methods"], columns=columns)
        return frame.rename(columns={"name": "method", "mean": measure}).set_index("method")

    @property
    def remarks(self) -> tuple[str, ...]:
        """What was noticed in the data: edges and cells that were dropped, unknown ids, and so on.

        The last ones are notes on the fit.
        """
        return tuple(map(in_python, self.found["remarks"]))

    def __repr__(self) -> str:
        weights = self.weights
        shown = ", ".join(f"{name} {weight:+.2f}" for name, weight in weights.head(4).items())
        more = f", {len(weights) - 4} more" if len(weights) > 4 else ""
        n, known = len(self.items), len(self.estimator.known_.items)
        return (
            f"one metric for {n} items, {known} of them labelled\n{self.found['headline']}\n"
            f"weights: {shown}{more}"
            + (f"\nremarks on the data ({len(self.remarks)}): .remarks" if self.remarks else "")
        )

    def explain(self, a: Any, b: Any = None) -> Connection | Explanation:
        """Return why two items are as far apart as they are; of one item, why it has its label."""
        (a,) = self.id_texts([a], "a")
        if b is None:
            why: Explanation = self.model.explain(a)
            left_out = {item: label for label, item in self.found["labels_left_out"].items()}
            return replace(why, unused=left_out.get(a, ""))
        (b,) = self.id_texts([b], "b")
        found = self.metric.contributions(a, b)
        words = EdgePhrases(
            self.metric.whole.lengths, self.inputs.sources, self.estimator.learned_.task.class_names
        )
        return Connection(found, tuple(tuple(words.reasons(u, v)) for u, v in found.path.edges))

    def next_labels(self, k: int = 10, *, among: Any = None) -> pd.DataFrame:
        """Return the k items that are the most worth labelling next, the most useful first.

        A row per item, by id: ``label`` (predicted), ``doubt`` (its uncertainty, 0 to 1),
        ``stands_for`` (unlabelled items that are nearer to it than to any labelled one) and
        ``share`` (of the uncertainty of all items that its label would remove). `among` are ids of
        the items that can be labelled.
        """
        import pandas as pd

        if among is not None:
            several = np.ndim(among) > 0 or isinstance(among, set | frozenset | Mapping)
            among = self.id_texts(list(among) if several else [among], "among")
        found = self.estimator.next_labels(k, among=among)
        labels = [one.label for one in found]
        columns = {
            "label": self.as_given(list(map(str, labels))) if self.found["label_type"] else labels,
            "doubt": [one.doubt for one in found],
            "stands_for": [one.stands_for for one in found],
            "share": [one.share for one in found],
        }
        ids = self.ids_as_given([one.item for one in found])
        return pd.DataFrame(columns, index=pd.Index(ids, name="id"))

    def with_labels(self, labels: Any) -> FitResult:
        """Return the result of a fit with other labels of some items, in less time.

        Exactly what :func:`~metricmix.fit` returns for the same data with these labels. What does
        not depend on labels is not computed again: columns, sources without labels and their
        values. Sources that predict labels, the choice of settings, weights, rule and scoreboard
        are.

        Parameters
        ----------
        labels : mapping, Series, or DataFrame of one column
            Labels by id, or numbers where these are predicted: of items without a label, or other
            ones than were given, also of new classes. None takes a label away.

        Warns
        -----
        UserWarning
            If a label makes a new class, or turns labels that are numbers into texts: it may be
            misspelled.

        Raises
        ------
        InputError
            If an id is unknown, or the result was loaded: it then has not all data of its fit. New
            *items* need a new fit (`mm.fit` on all data): scales, neighbours and walks of all
            items change with them. `predict` has their labels without one.

        Examples
        --------
        >>> import pandas as pd, metricmix as mm
        >>> height = [3, 12, 5, 610, 700, 660, 8, 720]
        >>> land = ["coast", None, "coast", "hill", "hill", None, None, None]
        >>> towns = pd.DataFrame({"height": height, "land": land}, index=list("ABCDEFGH"))
        >>> result = mm.fit(towns, label="land", evaluate=False)
        >>> again = result.with_labels({"G": "coast", "H": "hill", "D": None})
        >>> again.predictions.loc[["B", "D", "G"], "label"].tolist()
        ['coast', 'hill', 'coast']
        """
        if self.outcome is None:
            raise InputError(
                "a loaded result has not all data of its fit",
                argument="with_labels",
                remedy="call mm.fit on the data with these labels",
            )
        gathered, settings = self.outcome.gathered, self.outcome.settings
        with errors_of_arguments():
            items = relabelled_items(gathered.items, labels)
            outcome = fit_plan(plan_items(items, settings, gathered), settings)
        if not outcome.model.is_numeric:
            for line in new_classes(gathered.items, items):
                warn_caller(line, UserWarning)
        return FitResult.of_outcome(outcome)

    def predict(self, new: Any, *, edges: Any = None, matrices: Any = None) -> pd.DataFrame:
        """Return the labels (or numbers) of new items: a row per item, by id.

        Parameters
        ----------
        new : as `data` of :func:`fit`
            With the columns of the fit.
        edges : as in :func:`fit`
            Edges of new items, to each other and to those of the fit, under the names of the fit;
            the only graph of the fit needs no name.
        matrices : (m, n) array, or mapping of names to these
            Dissimilarities from the new items to those of the fit; the columns of a frame are
            aligned by id.

        Returns
        -------
        DataFrame
            What ``metricmix predict`` reports about the data, such as unknown ids, is in
            ``frame.attrs["remarks"]``.

        Warns
        -----
        UserWarning
            If edges are dropped, since an id is unknown or no end is a new item; or if none are
            given for a graph of the fit: confidence is lower then.
        """
        import pandas as pd

        inputs, model = self.inputs, self.estimator
        specs = [source.spec for source in inputs.sources]
        files = {name: file for file, name in graph_names(specs).items()}
        given = [spec.name for spec in specs if spec.kind == "matrix"]
        edges, matrices = by_name("edges", edges, [*files]), by_name("matrices", matrices, given)
        items, index = new_items_like(inputs.items, new, edges)
        relations = [(files[name], name, relation) for name, relation in items.relations.items()]
        rows = new_rows(matrices, items.ids, self.items.ids)
        with errors_of_arguments():
            data, reports = attach_new(inputs, items, relations, rows.items())
            found = list(predict_new(model, inputs, data))
        frame = pd.DataFrame(new_columns(found, numbers=model.is_numeric), index=index).drop(
            columns="id"
        )
        if self.found["label_type"]:
            frame["label"] = self.as_given(frame["label"].tolist())
        remarks = remarks_on_new(model, inputs, data, reports)
        frame.attrs["remarks"] = tuple(map(in_python, remarks))
        missing = [in_python(report.isolated) for report in reports if not report.given]
        lost = [*filter(None, [report.dropped for report in reports]), *missing]
        if lost:
            warn_caller("; ".join(lost), UserWarning)
        return frame

    def page(self, path: str | os.PathLike[str]) -> Path:
        """Write the page of the fit, one HTML file that works offline; return its path.

        Of a loaded result, the page in its folder; a page of the model alone if there is none.
        """
        if not Path(path).absolute().parent.is_dir():
            raise InputError("the folder does not exist", argument=Path(path).parent)
        if self.outcome is not None:
            write_page(path, run_page(self.outcome, None, lambda done, total: None))
        elif self.run is not None:
            html = self.run.read_page()
            with replacing(path) as file:
                file.write((page_html(self.run.draw_page()) if html is None else html).encode())
        return Path(path)

    def save(
        self, folder: str | os.PathLike[str], *, page: bool = True, overwrite: bool = False
    ) -> Path:
        """Write a folder as ``metricmix fit`` does, for ``metricmix predict`` and ``explore``.

        ``mm.load(folder)`` returns the result again.

        InputError if it holds an earlier result, unless `overwrite` is True, or other files of the
        same names.
        """
        check_output_folder(Path(folder))
        if is_run(Path(folder)) and not overwrite:
            raise InputError(
                "holds an earlier result", argument=folder, remedy="pass overwrite=True"
            )
        with reserved_folder(folder) as reservation:
            if self.outcome is not None:
                write_run(self.outcome, reservation, page=page)
            elif self.run is not None:
                with reservation.replacing() as new:
                    self.run.copy_to(new, page=page)
        return Path(folder)


@dataclass(frozen=True, eq=False)
class Connection:
    """Why two items are as far apart as they are.

    Attributes
    ----------
    contributions : Contributions
        The shortest path, and what each source adds to each of its edges.
    reasons : tuple of tuples of Reason
        What the sources say of the two items of each edge: what both have first, predictions last.
    """

    contributions: Contributions
    reasons: tuple[tuple[Reason, ...], ...]

    def __str__(self) -> str:
        nodes = self.contributions.nodes
        lines = [str(self.contributions)]
        for k, told in enumerate(self.reasons):
            if told:
                said = "; ".join(reason.phrase for reason in told)
                lines.append(f"{nodes[k]} -> {nodes[k + 1]}: {said}")
        return "\n".join(lines)

    __repr__ = __str__


def new_classes(before: Items, now: Items) -> Iterator[str]:
    """Yield a sentence for each class that no label had before, or one if labels become texts."""
    known = {label for label, _ in before.labels_left_out} | set(before.labels or ())
    new = sorted(set(now.labels or ()) - known)
    if before.label_type and new and not now.label_type:
        yield f"labels become texts: {new[0]!r} is none of type {before.label_type}"
        return
    for label in new if before.labels else ():
        near = "" if now.label_type else suggestion(known - {""}, label)
        yield f"new class {label!r}{near}"


def by_name(argument: str, given: Any, names: list[str]) -> dict[str, Any]:
    """Return what belongs to new items, by the names of the fit; the only one needs no name."""
    if given is None:
        return {}
    several = (
        given if isinstance(given, Mapping) else {names[0] if len(names) == 1 else argument: given}
    )
    for name in several:
        if name not in names:
            expected = did_you_mean(names, str(name)) if names else "none, as in the fit"
            raise InputError(argument=argument, expected=expected)
    return dict(several)


def new_rows(
    matrices: Mapping[str, Any], new: tuple[str, ...], ids: tuple[str, ...]
) -> dict[str, Any]:
    """Return the rows of new items in precomputed matrices, each (m, n) in the order of the fit.

    Rows and columns of frames are matched by id; what is not there is NaN. Rows that are numbered
    from 0 are in the order of the new items.
    """
    found, m = {}, len(new)
    for name, given in matrices.items():
        if hasattr(given, "loc"):
            columns = dict(zip(texts_of(list(given.columns)), range(given.shape[1]), strict=True))
            if not columns.keys() & set(ids):
                raise InputError(
                    argument=f"matrices[{name!r}]",
                    expected="a column per item of the fit",
                    found=f"none for {ids[0]!r}",
                )
            given = given.set_axis(list(columns), axis=1).reindex(columns=list(ids))
            if not (is_numbering(given.index) and len(given) == m):
                named = texts_of(list(given.index))
                if not set(named) & set(new) or len(set(named)) < len(named):
                    raise InputError(
                        argument=f"matrices[{name!r}]",
                        expected="a row per new item, each once",
                        found=f"rows such as {named[0]!r}, and new items such as {new[0]!r}",
                        remedy="pass np.asarray(rows) to match them by position",
                    )
                given = given.set_axis(named, axis=0).reindex(index=list(new))
        rows = as_float_array(given, name=f"matrices[{name!r}]")
        if rows.shape != (m, len(ids)):
            raise InputError(
                argument=f"matrices[{name!r}]",
                expected=f"shape {(m, len(ids))}, a row per new item and a column per item",
                found=rows.shape,
            )
        wrong = np.argwhere(np.isinf(rows) | (rows < 0))  # NaN is unknown
        if len(wrong):
            x, j = wrong[0]
            raise InputError(
                argument=f"matrices[{name!r}]",
                expected="finite dissimilarities >= 0",
                found=f"{rows[x, j]:g} from row {x} to {ids[j]!r}",
            )
        found[name] = np.asarray(rows, dtype=np.float64)
    return found
