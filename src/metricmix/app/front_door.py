"""The front door in Python: ``mm.fit`` and ``mm.load``."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from metricmix.app.fit_result import FitResult
from metricmix.app.ingest.source_text import parse_source
from metricmix.app.pipeline.run_folder import open_run
from metricmix.dissimilarity.default_sources import stated_specs
from metricmix.dissimilarity.specs import SourceSpec
from metricmix.exceptions import InputError, errors_of_arguments, in_python, warn_caller
from metricmix.fitting.fit_items import fit_plan
from metricmix.fitting.plan import FitRequest, plan_items
from metricmix.items.cells import did_you_mean
from metricmix.items.in_memory import as_items, groups_of, order_of
from metricmix.items.items import Items
from metricmix.items.tables import texts_of
from metricmix.labels import check_label_order, weights_by_label
from metricmix.storage.models import load as load_model

__all__ = ["fit", "load"]


def fit(
    data: Any,
    label: Any = None,
    *,
    target: Any = None,
    id: str | None = None,
    edges: Any = None,
    matrices: Any = None,
    directed: bool | str | Sequence[str] = (),
    sources: str | SourceSpec | Sequence[str | SourceSpec] = (),
    class_weight: str | Mapping[Any, float] | None = None,
    groups: Any = None,
    order: Any = None,
    held_out: str = "stay",
    evaluate: bool = True,
    seed: int = 0,
    **options: Any,
) -> FitResult:
    """Learn one metric from a table, relations, matrices and a few labels.

    The same job as ``metricmix fit``: the same items give the same sources, weights and
    predictions.

    Parameters
    ----------
    data, label, target, id, edges, matrices
        See :func:`~metricmix.items.in_memory.as_items`: a frame or an array with a row per item; a
        column or an array of labels (or of numbers to predict); graphs, memberships and precomputed
        matrices, one or several by name.
    directed : str, sequence of str, or bool
        Names of `edges` and `matrices` whose direction matters, as ``:directed`` states on the
        command line; True for all of them. The metric is then directed: the way back may be longer.
        One that is given without a name is called ``"edges"`` or ``"matrices"``.
    sources : str, SourceSpec, or sequence of these
        Sources as ``metricmix fit --source`` takes them, ``NAME=KIND:WHAT``; kinds are listed in
        :mod:`metricmix.dissimilarity.kinds`, and WHAT are columns or the name of a relation. Those
        that are made by default are then left out.
    class_weight : "balanced", or mapping or Series of numbers > 0 by label, optional
        Factors of the odds of each class in predictions, 1 for those that are not named. See Notes
        of :class:`~metricmix.MetricMixtureClassifier`.
    groups : column or array, optional
        The group of each item, such as the patient, site or author. Wherever labels are held out,
        to choose, to cross-fit sources, to judge a label or for the scoreboard, all of a group are.
        An item whose group is missing is one by itself. A Series with the name and the values of a
        column of `data` is that column.
    order : column or array, optional
        Numbers or dates. The scoreboard then predicts later items from the labels before them
        (:func:`metricmix.learning.comparison.compare`); choices are cross-validated as without it.
        Neither column is used as a source.
    held_out : {"stay", "new"}
        What the held-out items of the scoreboard are. "stay": items of the metric without a label,
        as the unlabelled items of the fit are. "new": they are removed from the data with their
        edges and matrix entries, all of the fit is repeated without them in every fold, and they
        are predicted as :meth:`FitResult.predict` does: how good predictions of new items are. That
        costs a fit per fold.
    evaluate : bool
        Whether to compare the metric with simpler methods on held-out labels. The confidence of
        given labels comes from the same refits either way, unless `n_splits` is stated.
    seed : int
    **options
        The others of :class:`~metricmix.fitting.plan.FitRequest`: `kinds`, `rule`, `rho`,
        `constraint`, `n_bootstrap` (0 unless stated), `n_splits`, `geodesic`, `edges_per_item`, ...

    Returns
    -------
    FitResult

    Raises
    ------
    InputError
        If something does not fit together; one sentence says what.

    Warns
    -----
    UserWarning
        If edges are dropped, since an id is unknown. What else was noticed is in `remarks`.

    Examples
    --------
    >>> import pandas as pd, metricmix as mm
    >>> towns = pd.DataFrame(
    ...     {
    ...         "town": ["Aa", "Bo", "Cu", "Do", "Ek", "Fa", "Go", "Ha"],
    ...         "height": [3, 12, 5, 610, 700, 660, 8, 720],
    ...         "land": ["coast", None, "coast", "hill", "hill", None, None, None],
    ...     }
    ... )
    >>> roads = [("Aa", "Bo"), ("Bo", "Cu"), ("Cu", "Go"), ("Do", "Ek"), ("Ek", "Fa"), ("Fa", "Ha")]
    >>> result = mm.fit(towns, label="land", edges={"roads": roads}, evaluate=False)
    >>> result.predictions.loc[["Go", "Ha"], "label"].tolist()
    ['coast', 'hill']
    >>> new = pd.DataFrame({"town": ["Il"], "height": [680]})
    >>> result.predict(new, edges={"roads": [("Il", "Ek")]}).label.tolist()
    ['hill']
    """
    own = {"sources", "defaults", "target", "seed"}
    own |= {"class_weight", "groups", "order", "held_out"}
    known = {field.name for field in fields(FitRequest)} - own
    for name in options:
        if name not in known:
            raise InputError(argument="fit", expected=did_you_mean(sorted(known), name, len(known)))
    if label is None and target is None and not isinstance(data, Items):
        raise InputError(
            argument="label",
            expected="a column of labels, or an array of them, found none",
            remedy="pass label= (classes) or target= (numbers)",
        )
    sources = [sources] if isinstance(sources, str | SourceSpec) else sources
    if isinstance(options.get("only"), str):
        options["only"] = (options["only"],)
    items = as_items(data, label, target=target, id=id, edges=edges, matrices=matrices)
    ways = directed_names(items, directed)
    items = replace(
        items,
        relations={
            name: replace(one, directed=True) if name in ways else one
            for name, one in items.relations.items()
        },
    )
    for name, given_order in {"groups": groups, "order": order}.items():
        try:
            check_label_order(data, given_order)
        except InputError as error:
            expected = "the order of data, found an index of the same ids in another order"
            raise error.replace(argument=name, expected=expected, remedy="pass .loc[ids]") from None
    groups, order = own_column(data, groups), own_column(data, order)
    if groups is not None and not isinstance(groups, str):
        items, groups = replace(items, groups=groups_of(groups, len(items))), None
    if order is not None and not isinstance(order, str):
        items, order = replace(items, order=order_of(order, len(items))), None
    given = stated_specs(items, ways)
    given += [parse_source(one) if isinstance(one, str) else one for one in sources]
    with errors_of_arguments():
        settings = FitRequest(
            sources=tuple(given),
            defaults=not sources,
            seed=seed,
            target=None if items.targets is None else "number",
            class_weight=class_weight_texts(class_weight),
            groups=groups,
            order=order,
            held_out=held_out,
            **{"n_bootstrap": 0, "n_splits": None if evaluate else 0, "report": False, **options},
        )
        outcome = fit_plan(plan_items(items, settings), settings)
    dropped = [in_python(line) for line in outcome.remarks_on_sources if " dropped: " in line]
    if dropped:
        warn_caller("; ".join(dropped), UserWarning)
    return FitResult.of_outcome(outcome)


def class_weight_texts(given: Any) -> tuple[str, ...]:
    """Return class weights as the command line takes them, labels being texts there.

    >>> class_weight_texts({1: 5, 2: 0.5})
    ('1=5.0', '2=0.5')
    """
    if given is None or isinstance(given, str):
        return () if given is None else (given,)
    weights = weights_by_label(given)
    texts = texts_of(list(weights))
    return tuple(f"{text}={one!r}" for text, one in zip(texts, weights.values(), strict=True))


def own_column(data: Any, given: Any) -> Any:
    """Return the name of the column of a frame that a Series is a copy of; else what was given."""
    import pandas as pd

    name = getattr(given, "name", None)
    if name is None or isinstance(data, Items) or name not in getattr(data, "columns", ()):
        return given
    one, other = (pd.DataFrame(np.asarray(values)) for values in (given, data[name]))
    return str(name) if one.equals(other) else given


def directed_names(items: Items, directed: bool | str | Sequence[str]) -> set[str]:
    """Return the relations and matrices that make the metric directed; InputError if unknown."""
    given = {*items.relations, *items.matrices}
    if isinstance(directed, bool):
        directed = list(given) if directed else ()
    names = {directed} if isinstance(directed, str) else set(directed)
    for name in names - set(given):
        known = sorted(given)
        expected = did_you_mean(known, name) if known else "no name without edges or matrices"
        raise InputError(argument="directed", expected=expected)
    return names | {name for name, matrix in items.matrices.items() if matrix.directed}


def load(
    path: str | os.PathLike[str],
    *,
    sources: Any = None,
    functions: Mapping[str, Callable[..., float]] | None = None,
    verify: bool = True,
) -> Any:
    """Return what :func:`~metricmix.save`, :meth:`FitResult.save` or ``metricmix fit`` wrote.

    It answers and predicts the same, bit for bit; the `predictions` of a folder are those of its
    predictions.csv, rounded.

    Parameters
    ----------
    path : path
        A model file, or the folder of a fit, which gives a :class:`FitResult`. Large arrays are
        memory maps into the model file, so that it must not be written to while the model is in
        use; it may be replaced or deleted.
    sources : DissimilarityStack or array, optional
        The matrices of the fit, for a file that was saved without them.
    functions : dict, optional
        The functions that the fit used as metrics, by name.
    verify : bool
        Whether to read large arrays completely, to compare checksums and check their values. Switch
        off only for files that you trust.

    Raises
    ------
    ModelFileError
        If the file is not a model, is damaged, comes from another version, or does not fit
        `sources` or `functions`; if the folder has files of different runs.

    Notes
    -----
    Of a loaded result, `outcome` is None, `items` are the ids and the columns that the sources use,
    and numbers in `predictions` are rounded as in predictions.csv. Over sparse edges, explanations
    of given labels keep the supervised sources of the fit, and those of two items do not say what
    these predict.
    """
    if not os.path.exists(path):
        raise FileNotFoundError(f"{path}: expected a model file or the folder of a fit, found none")
    if not os.path.isdir(path):
        return load_model(path, sources=sources, functions=functions, verify=verify)
    if sources is not None or functions is not None:
        raise InputError(
            argument="sources, functions", expected="none for a folder, which holds its sources"
        )
    return FitResult.of_folder(open_run(path, verify=verify))
