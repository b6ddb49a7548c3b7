"""Write fitted estimators to files, and read them back: :func:`save` and :func:`load`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from metricmix.exceptions import InputError, ModelFileError
from metricmix.storage.codec import INCONSISTENT, Decoder, Encoder
from metricmix.storage.container import ModelFile, write_model
from metricmix.storage.fitted import ESTIMATORS, FITTED, encode_estimator
from metricmix.storage.loader import Loader

__all__ = ["load", "save"]

Functions = Mapping[str, Callable[..., float]]


def save(estimator: Any, path: str | os.PathLike[str], *, sources: bool = True) -> None:
    """Write a fitted estimator to a file.

    Parameters
    ----------
    estimator : MetricMixture, MetricMixtureClassifier, MetricMixtureClassifierCV,
        MetricMixtureRegressor or MetricRepair
    path : path
        Replaced in one step if it exists: an interrupted save leaves the old file as it was.
    sources : bool
        Whether the n × n matrices, or sparse edges and their values, go into the file. If not, it
        holds only checksums of them, and :func:`load` has to be given the same ones; of a fit to
        features it computes them again. A `metric_` is left out too (but that of a MetricRepair is
        all it has learned).

    Raises
    ------
    ModelFileError
        If a parameter cannot be stored, such as a random generator, a lambda or a callback. An
        `objective` of your own, which predictions do not need, is replaced by its name: the loaded
        estimator does all but fit again.

    Notes
    -----
    Matrices are written by rows; no copy of them is made. Sources that are computed on demand are
    stored as what they compute, block of rows by block of rows; supervised ones as what they
    predict of the items. Of a classifier or regressor of a feature table the file holds the class
    and the settings; it is fitted again, with the same result, when new rows come. One that is not
    scikit-learn's own, or has other settings than numbers, text, lists and such estimators, is
    stored by its name: predictions stay, and new rows are refused. So are new rows for a classifier
    that was trained elsewhere.

    Of a stack over sparse edges the edges and the values on them are stored, supervised sources
    included, but not the sources between any two items. A loaded model predicts and explains; where
    sources are supervised it cannot be fitted to other labels.

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
    if type(estimator) not in FITTED:
        raise InputError(
            argument="estimator",
            expected=f"one of {ESTIMATORS}",
            found=type(estimator).__name__,
        )
    check_is_fitted(estimator)
    encoder = Encoder()
    try:
        content = encode_estimator(encoder, estimator, keep=sources)
    except InputError as error:  # a recipe that cannot be stored, or a wrong parameter
        raise ModelFileError(str(error)) from None
    write_model(path, content, encoder.arrays)


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
        estimator is in use; it may be replaced or deleted.
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
        `sources` or `functions`.
    """
    if functions is not None and not isinstance(functions, Mapping):
        raise InputError(
            argument="functions",
            expected="a dict of names and functions",
            found=type(functions).__name__,
        )
    try:
        with open(path, "rb") as stream, np.errstate(all="ignore"):
            file = ModelFile(stream, verify=verify)
            estimator = Loader(Decoder(file, functions or {}), sources).estimator(file.content)
            file.check_all_read()
    except (ModelFileError, InputError) as error:
        raise ModelFileError(f"{os.fspath(path)}: {error}") from None
    except INCONSISTENT as error:
        raise ModelFileError(f"{os.fspath(path)}: inconsistent contents") from error
    return estimator
