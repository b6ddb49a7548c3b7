"""Write metrics and fitted estimators to files, and read them back: :func:`save`, :func:`load`.

::

    {"MetricMixtureClassifier":         a class that has registered itself (:mod:`metricmix.state`)
        {"parameters": {...},           its sections, each of values or of other models
         "fitted": {...}}}
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import metricmix.estimators.metric_repair  # noqa: F401  (all estimators register themselves)
from metricmix.exceptions import InputError, ModelFileError
from metricmix.state import LoadOptions, conforms, model_kinds, require
from metricmix.storage.codec import INCONSISTENT, Decoder, Encoder
from metricmix.storage.container import ModelFile, write_model

__all__ = ["load", "save"]

Functions = Mapping[str, Callable[..., float]]


def save(estimator: Any, path: str | os.PathLike[str], *, sources: bool = True) -> None:
    """Write a metric or a fitted estimator to a file.

    Parameters
    ----------
    estimator : Metric, MetricMixture, MetricMixtureClassifier, MetricMixtureClassifierCV,
        MetricMixtureRegressor or MetricRepair
    path : path
        Replaced in one step if it exists: an interrupted save leaves the old file as it was.
    sources : bool
        Whether the n × n matrices, or sparse edges and their values, go into the file. If not, it
        holds only checksums of them, and :func:`load` has to be given the same ones; of a fit to
        features it computes them again. A computed metric is left out too. What has no sources
        keeps its matrix: a MetricRepair, and a Metric of given lengths.

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

    A :class:`~metricmix.Metric` is stored as its sources and weights: the loaded one answers the
    same, bit for bit, and joins new items by their dissimilarities.

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
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     mm.save(model.metric_, pathlib.Path(folder) / "metric.mm")
    ...     metric = mm.load(pathlib.Path(folder) / "metric.mm")
    >>> metric.path(0, 100) == model.metric_.path(0, 100)
    True
    """
    if type(estimator) not in model_kinds().values():
        raise InputError(
            argument="estimator",
            expected=f"one of {', '.join(model_kinds())}",
            found=type(estimator).__name__,
        )
    encoder = Encoder()
    try:
        content = encode_model(encoder, estimator, keep=sources)
    except InputError as error:  # a source that cannot be stored, or a wrong parameter
        raise ModelFileError(str(error)) from None
    write_model(path, content, encoder.arrays)


def load(
    path: str | os.PathLike[str],
    *,
    sources: Any = None,
    functions: Functions | None = None,
    verify: bool = True,
) -> Any:
    """Return the model that :func:`save` wrote; see :func:`metricmix.load`.

    ModelFileError if the file is not a model, is damaged, comes from another version, or does not
    fit `sources` or `functions`.
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
            options = LoadOptions(sources, verify)
            model = decode_model(Decoder(file, functions or {}), file.content, options)
            file.check_all_read()
    except (ModelFileError, InputError) as error:
        sentence = " ".join(str(error).split())  # arrays that it shows may take several lines
        raise ModelFileError(f"{os.fspath(path)}: {sentence}") from None
    except INCONSISTENT as error:
        raise ModelFileError(f"{os.fspath(path)}: inconsistent contents") from error
    return model


def encode_model(encoder: Encoder, model: Any, *, keep: bool) -> dict[str, Any]:
    """Return a model as JSON: the name of its class, and the sections of its state."""
    (kind,) = (name for name, cls in model_kinds().items() if cls is type(model))
    encoded: dict[str, dict[str, Any]] = {}
    for section, parts in model.to_state(keep=keep).items():
        encoded[section] = {}
        for name, part in parts.items():
            if type(part) in model_kinds().values():
                encoded[section][name] = encode_model(encoder, part, keep=keep)
                continue
            try:
                encoded[section][name] = encoder.encode(part, name)
            except ModelFileError as error:
                if section != "parameters" or name == "sources":
                    raise
                remedy = f"predictions do not need it, set_params({name}=None) before saving"
                raise ModelFileError(f"{error}; {remedy}") from None
    return {kind: encoded}


def decode_model(decoder: Decoder, content: Any, options: LoadOptions) -> Any:
    """Return a model from JSON; its class checks what the sections hold."""
    kinds = model_kinds()
    require(names_model(content), f"expected one of {', '.join(kinds)}")
    ((kind, sections),) = content.items()
    sound = isinstance(sections, dict) and conforms([*sections.values()], list[dict[str, Any]])
    require(sound, f"expected the sections of {kind}")
    state = {
        section: {
            name: decode_model(decoder, part, options)
            if section == "fitted" and names_model(part)
            else decoder.decode(part)
            for name, part in parts.items()
        }
        for section, parts in sections.items()
    }
    return kinds[kind].from_state(state, options)


def names_model(content: Any) -> bool:
    """Return whether a value of a file is a model."""
    return isinstance(content, dict) and len(content) == 1 and {*content} <= {*model_kinds()}
