"""Citation networks: Citeseer, Cora and Pubmed, with the split of Planetoid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from metricmix.datasets.fetch import CONTENT, PARTS, PLAIN, RAW, obtain
from metricmix.datasets.planetoid import Network, adjacency, content_sum, read_plain, read_planetoid
from metricmix.exceptions import DatasetError

__all__ = ["fetch_citeseer", "fetch_cora", "fetch_pubmed"]

ORIGIN = """\
Origin: the files of Z. Yang, W. Cohen, R. Salakhutdinov, "Revisiting Semi-Supervised Learning with
Graph Embeddings", ICML 2016 (Planetoid, MIT licence), from P. Sen et al., "Collective
Classification in Network Data", AI Magazine 2008. The citation data come without a licence and ask
to be cited. Classes have no names there.
"""


@dataclass(frozen=True)
class _Known:
    """What is known of a network beforehand."""

    n: int
    n_classes: int
    values: str
    quirks: str


KNOWN = {
    "citeseer": _Known(
        3327,
        6,
        "1 where a paper has a word",
        "15 papers, which the list of test papers leaves out, have citations but neither words nor "
        "a class:\ntheir rows are 0, their target is -1, and they are in no part of the split "
        "(loaders that say class 0\nare wrong). 48 papers have no link but, in the original, one "
        "to themselves; such loops are left\nout. The literature counts 4732 citations, or "
        "4676 links with the 124 loops.",
    ),
    "cora": _Known(
        2708,
        7,
        "1 where a paper has a word",
        "One word is in no paper. The literature counts 5429 citations.",
    ),
    "pubmed": _Known(
        19717,
        3,
        "tf-idf of a word in a paper, 0.00125 to 1.263",
        "The graph is connected. The literature counts 44338 citations, or 44327 links with the 3 "
        "loops.",
    ),
}


def fetch_citeseer(
    *, data_home: Any = None, return_X_y: bool = False, download_if_missing: bool = True
) -> Any:
    """Return Citeseer: 3327 papers, 3703 words, 4552 links, 6 classes.

    15 papers have neither words nor a class (target -1): leave them out of any score.

    Parameters
    ----------
    data_home : path, optional
        A folder to look into first, and to download to. Default: the one that METRICMIX_DATA
        names, else the user's cache. It holds ``citeseer.npz``, or the eight original files
        ``ind.citeseer.*`` (also in ``planetoid/``); both give the same.
    return_X_y : bool
        Whether to return ``(data, target)`` alone, without the graph.
    download_if_missing : bool
        Whether files that are nowhere are downloaded (needs pooch, ``metricmix[data]``).

    Returns
    -------
    sklearn.utils.Bunch
        ``data``: words, a scipy csr_array (n, n_words) float64; ``edges`` (n_edges, 2): each link
        once, as (i, j) with i < j; ``graph``: the same as a symmetric csr_array (n, n) of ones;
        ``target`` (n,) int64, -1 where unknown; ``train_index`` (20 of each class),
        ``validation_index`` (500), ``test_index`` (1000): the split of Planetoid; ``n_classes``;
        ``DESCR``: origin, quirks and counts.

    Raises
    ------
    DatasetNotFoundError
        If a file is nowhere and was not, or could not be, downloaded.
    DatasetError
        If a file does not have the known sha256, or cannot be read or stored. Pickles are read
        without running what they say.

    Examples
    --------
    >>> import metricmix as mm
    >>> papers = mm.datasets.fetch_citeseer()  # doctest: +SKIP
    >>> stack = mm.sources_for(papers.data, papers.graph)  # doctest: +SKIP
    """
    return _fetch("citeseer", data_home, return_X_y, download_if_missing)


def fetch_cora(
    *, data_home: Any = None, return_X_y: bool = False, download_if_missing: bool = True
) -> Any:
    """Return Cora: 2708 papers, 1433 words, 5278 links, 7 classes.

    Parameters, returned values and errors are those of :func:`fetch_citeseer`; the files are
    ``cora.npz``, or ``ind.cora.*``.
    """
    return _fetch("cora", data_home, return_X_y, download_if_missing)


def fetch_pubmed(
    *, data_home: Any = None, return_X_y: bool = False, download_if_missing: bool = True
) -> Any:
    """Return Pubmed: 19717 papers, 500 words (tf-idf), 44324 links, 3 classes.

    Parameters, returned values and errors are those of :func:`fetch_citeseer`; the files are
    ``pubmed.npz``, or ``ind.pubmed.*`` (8.7 MB).
    """
    return _fetch("pubmed", data_home, return_X_y, download_if_missing)


def _fetch(name: str, data_home: Any, return_X_y: bool, download_if_missing: bool) -> Any:
    network = _read(name, data_home, download_if_missing)
    if return_X_y:
        return network.words, network.target
    n = len(network.target)
    return Bunch(
        data=network.words,
        edges=network.edges,
        graph=adjacency(network.edges, n),
        target=network.target,
        train_index=network.train,
        validation_index=network.validation,
        test_index=network.test,
        n_classes=KNOWN[name].n_classes,
        DESCR=_description(name, network),
    )


def _read(name: str, data_home: Any, download_if_missing: bool) -> Network:
    plain, raw = PLAIN[name], RAW[name]
    files = obtain([[plain], raw], data_home, download_if_missing=download_if_missing)
    if plain.name in files:
        network = read_plain(files[plain.name], name=plain.name)
    else:
        parts = {part: files[file.name] for part, file in zip(PARTS, raw, strict=True)}
        network = read_planetoid(parts, KNOWN[name].n, name=f"ind.{name}")
    found = content_sum(network)
    if found != CONTENT[name]:
        raise DatasetError(
            f"{plain.name if plain.name in files else f'ind.{name}.*'}: expected content with "
            f"sha256 {CONTENT[name][:12]}…, found {found[:12]}…; remove it, and fetch again or put "
            "the original there"
        )
    return network


def _description(name: str, network: Network) -> str:
    known = KNOWN[name]
    n, n_words = network.words.shape
    sizes = np.bincount(network.target[network.target >= 0], minlength=known.n_classes)
    unknown = int(np.sum(network.target < 0))
    a, b = network.target[network.edges].T
    classes = f"{known.n_classes} classes of {', '.join(map(str, sizes))} papers"
    if unknown:
        classes += f", {unknown} papers without"
    return f"""{name.capitalize()}: papers with words, citations and classes

{n} papers, {n_words} words ({known.values}), {len(network.edges)} links without direction,
{np.mean(a == b):.1%} of them within a class, {classes}.
Split: {len(network.train)} papers to train on, {len(network.validation)} to choose by, \
{len(network.test)} to test on.

{known.quirks}

{ORIGIN}"""
