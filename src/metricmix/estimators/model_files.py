"""Fitted estimators in files, without pickles: :func:`save` and :func:`load`.

:mod:`~metricmix.estimators.stored.container` describes the container: a zip file with a manifest in
JSON and arrays of numbers, stored uncompressed. The content of its manifest is, for an estimator,

::

    class               one of those that CLASSES lists
    parameters          those of the constructor
    fitted
    ├── input           the way in, the stack and, of a fit to features, the table
    ├── mixture         weights, names, link, beta, scaling
    ├── result          what the solver said, trace included
    └── ...             classes, and what else the class has; a search has its best estimator whole

and its arrays are the matrices of the stack (``block``, or ``source_0``, ... of a stack that was
not in memory), the feature table, class numbers (``codes`` as given, ``labels`` of all items),
``samples`` and ``metric``. What follows from these, such as prediction rules, is made again.

Loading runs nothing that a file says: classes come from a table, parameters are those of their
constructors, arrays are plain numbers, and functions come from the caller, by name. It either gives
a model whose parts fit together or raises a :class:`~metricmix.exceptions.ModelFileError`. The
checksums are there to find damage; they do not tell who wrote a file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from metricmix.estimators.stored.container import ModelFile, PendingArray, write_model
from metricmix.estimators.stored.estimators import CLASSES, Given, pack, unpack
from metricmix.estimators.stored.inputs import Functions
from metricmix.exceptions import InputError, ModelFileError

__all__ = ["load", "save"]

WRONG = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What values of a file that do not fit each other may lead to."""


def save(estimator: Any, path: str | os.PathLike[str], *, sources: bool = True) -> None:
    """Write a fitted estimator to a file.

    Parameters
    ----------
    estimator : MetricMixture, MetricMixtureClassifier, MetricMixtureClassifierCV or MetricRepair
    path : path
        Replaced in one step if it is there: an interrupted save leaves the old file as it was.
    sources : bool
        Whether the n × n matrices go into the file. If not, there are only checksums of them, and
        :func:`load` has to be given the same ones; of a fit to features it computes them again. A
        `metric_` is left out too (but that of a MetricRepair is all it has learned).

    Raises
    ------
    ModelFileError
        If a parameter cannot be stored, such as a random generator, a lambda or a callback. An
        `objective` of your own, which predictions do not need, is replaced by its name: the loaded
        estimator does all but fit again.

    Notes
    -----
    Matrices are written by rows; no copy of them is made. Sources that are computed on demand are
    stored as what they compute, block of rows by block of rows.

    Examples
    --------
    >>> import tempfile, pathlib, metricmix as mm
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = mm.MetricMixtureClassifier(["euclidean", "cosine"]).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     mm.save(model, pathlib.Path(folder) / "iris.mm")
    ...     again = mm.load(pathlib.Path(folder) / "iris.mm")
    >>> bool((again.predict_proba(X) == model.predict_proba(X)).all())
    True
    """
    if CLASSES.get(type(estimator).__name__) is not type(estimator):
        raise InputError(
            argument="estimator",
            expected=f"one of {', '.join(CLASSES)}",
            found=type(estimator).__name__,
        )
    check_is_fitted(estimator)
    arrays: dict[str, PendingArray] = {}
    try:
        content = pack(estimator, arrays, keep=sources)
    except InputError as error:  # a recipe that cannot be stored, or a wrong parameter
        raise ModelFileError(str(error)) from None
    write_model(path, content, arrays)


def load(
    path: str | os.PathLike[str],
    *,
    sources: Any = None,
    functions: Functions | None = None,
    verify: bool = True,
) -> Any:
    """Return the estimator that :func:`save` wrote; it predicts the same, bit for bit.

    Parameters
    ----------
    path : path
        Large arrays are memory maps into this file, so that it must not be written to while the
        estimator is in use; to replace or delete it does no harm.
    sources : DissimilarityStack or array, optional
        The matrices of the fit, for a file that was saved without them.
    functions : dict, optional
        The functions that the fit used as metrics, by name.
    verify : bool
        Whether to read large arrays from end to end, to find them undamaged and sound. Switch off
        only for files that you trust.

    Raises
    ------
    ModelFileError
        If the file is not a model, is damaged, comes from a newer version, or does not fit
        `sources` or `functions`.
    """
    if functions is not None and not isinstance(functions, Mapping):
        raise InputError(
            argument="functions",
            expected="a dict of names and functions",
            found=type(functions).__name__,
        )
    try:
        with ModelFile(path, verify=verify) as file, np.errstate(all="ignore"):
            estimator = unpack(file.content, Given(file, sources, functions or {}))
            file.check_all_read()
    except (ModelFileError, InputError) as error:
        raise ModelFileError(f"{os.fspath(path)}: {error}") from None
    except WRONG as error:
        raise ModelFileError(f"{os.fspath(path)}: its parts do not fit each other") from error
    return estimator
