r"""Rows of a path metric in a zarr array on disk, written block by block.

.. math:: Z_{s v} = d(i_s, v)

for the roots :math:`i_1, i_2, \dots` and all items v. A chunk is one row (at most a million
columns), and every block writes chunks of its own, so blocks may finish in any order, on threads
or on the workers of a cluster. Until all rows are there, the array has a temporary name.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import ArrayLike

from metricmix.atomic import remove_leftovers, temporary_entry
from metricmix.exceptions import InputError, MissingPackageError
from metricmix.kernels.blocks import BlockJob, Cost, Found, current_engine, run_blocks
from metricmix.kernels.deadline import check_time
from metricmix.kernels.threads import effective_threads
from metricmix.memory import in_words
from metricmix.mixture.edge_lengths import EdgeLengths, edge_lengths
from metricmix.paths.lanes import LANES, lanes_per_unit
from metricmix.paths.sparse_rows import RootDistances
from metricmix.paths.sweeps import step_width
from metricmix.paths.trees import distances_from
from metricmix.typing import AnyArray, Indices, Ints
from metricmix.validation import check_choice, check_indices

__all__ = ["WrittenRows", "write_distances"]


def write_distances(
    stack: Any,
    mixture: Any,
    path: str | os.PathLike[str],
    roots: ArrayLike | None = None,
    *,
    dtype: str | None = None,
    n_jobs: int | None = None,
) -> Any:
    """Write the distances from some items to all items into a zarr array, completely or not at all.

    Parameters
    ----------
    stack : DissimilarityStack
    mixture : Mixture or array of R weights
    path : path
        The array to make, a folder; there must be none.
    roots : array of int, optional
        The items that rows belong to, in this order. Default: all.
    dtype : {"float32", "float64"}, optional
        Default: the precision in which distances are computed.
    n_jobs : int, optional
        Threads; the result does not depend on it. On a cluster, its workers write, and must see
        the path.

    Returns
    -------
    zarr.Array
        Of shape (S, n), read-only. Row s is that of item ``roots[s]``.

    Raises
    ------
    InputError
        If there is something at `path`, or the disk has no room for all rows.
    MissingPackageError
        If zarr is not installed.

    Notes
    -----
    Inside :func:`~metricmix.dask.use_cluster` with a folder, or
    :func:`~metricmix.kernels.blocks.keep_blocks`, an interrupted call goes on from its finished
    rows, which are in a folder ``.NAME.partial`` beside `path`.

    Examples
    --------
    >>> import tempfile, numpy as np, metricmix as mm
    >>> edges = mm.dissimilarity.EdgeSet(3, [0, 1], [1, 2])
    >>> stack = mm.EdgeStack(edges, np.array([[1.0, 2.0]]), ["walk"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rows = mm.write_distances(stack, [1.0], f"{folder}/d.zarr", roots=[2, 0])
    ...     rows[:].round(3)
    array([[3.44 , 2.127, 0.   ],
           [0.   , 1.313, 3.44 ]])
    """
    zarr = import_zarr()
    lengths = edge_lengths(stack, mixture)
    n = lengths.n
    chosen = np.arange(n) if roots is None else check_indices(roots, n, name="roots")
    job = job_of(lengths, chosen, dtype, effective_threads(n_jobs))
    target = Path(os.path.abspath(path))
    if target.exists():
        raise InputError("exists", argument=path, remedy="remove it, or choose another path")
    size, free = len(chosen) * n * job.dtype.itemsize, shutil.disk_usage(target.parent).free
    if size > free:
        raise InputError(
            f"{len(chosen)} rows take {in_words(size)}, and {in_words(free)} are free on the disk",
            argument=path,
            remedy="take fewer roots",
        )
    with unfinished(target, job) as (partial, job):
        missing = np.ones(len(chosen), dtype=bool)

        def note(start: int, stop: int, found: Found) -> None:
            missing[found[0]] = False

        run_blocks(job, note, n_jobs=n_jobs)
        assert not missing.any()
        for leftover in partial.rglob("*.partial"):  # of workers that were killed while writing
            leftover.unlink(missing_ok=True)
        os.rename(partial, target)
    return zarr.open_array(str(target), mode="r")


def import_zarr() -> Any:
    """Return zarr, or say how to install it."""
    try:
        import zarr
    except ImportError:
        raise MissingPackageError("rows on disk need zarr: pip install 'metricmix[dask]'") from None
    return zarr


def job_of(lengths: EdgeLengths, roots: Indices, dtype: str | None, threads: int) -> WrittenRows:
    """Return the job that writes rows, to a path that is not known yet."""
    precision = np.dtype(check_choice(dtype or "float64", ("float32", "float64"), name="dtype"))
    if lengths.edges is None:
        places = np.arange(len(roots), dtype=np.int64)
        return WrittenRows("", lengths, None, None, roots, places, precision)
    near, arcs = lengths.near_order, lengths.arcs(near=True)
    if dtype is None:
        precision = arcs.lengths.dtype
    starts = near.rank[roots]
    places = np.argsort(starts, kind="stable")
    lanes = lanes_per_unit(len(roots), LANES, threads)
    search = RootDistances(arcs, starts[places], step_width(arcs), lanes)
    return WrittenRows("", None, search, near.rank, roots, places, precision)


@contextmanager
def unfinished(target: Path, job: WrittenRows) -> Iterator[tuple[Path, WrittenRows]]:
    """Yield an array under a temporary name, and the job that writes to it.

    Where finished blocks are kept, the array of an interrupted call is found again.
    """
    zarr = import_zarr()
    shape, chunks = (len(job.roots), job.n), (1, min(job.n, 1 << 20))

    def create(path: Path) -> WrittenRows:
        array = zarr.create_array(
            str(path), shape=shape, chunks=chunks, dtype=job.dtype, compressors=None
        )
        array.attrs["metricmix"] = secrets.token_hex(8)
        return job.writing_to(path, array.attrs["metricmix"])

    if current_engine().folder is None:
        remove_leftovers(target.parent, f".{target.name}.")
        with temporary_entry(target.parent, f".{target.name}.", Path.mkdir) as folder:
            yield folder / "rows", create(folder / "rows")
        return
    partial = target.parent / f".{target.name}.partial"
    try:
        array = zarr.open_array(str(partial), mode="r")
        same = array.shape == shape and array.dtype == job.dtype and "metricmix" in array.attrs
    except (OSError, ValueError, KeyError):
        same = False
    if same:
        yield partial, job.writing_to(partial, str(array.attrs["metricmix"]))
        return
    shutil.rmtree(partial, ignore_errors=True)
    yield partial, create(partial)


@dataclass(frozen=True, eq=False)
class WrittenRows(BlockJob):
    """Rows of a metric that are written to a zarr array; a unit is some roots near each other.

    Attributes
    ----------
    path : str
        Of the array.
    lengths : EdgeLengths or None
        Over a complete graph;
    search : RootDistances or None
        else the search along the edges of a sparse set.
    rank : (n,) array or None
        Their near order.
    roots : (S,) array
    places : (S,) array
        The rows of the array in the order in which they are searched.
    dtype : dtype
    array_id : str
        Of this very array: finished rows of another one do not count.
    """

    path: str
    lengths: EdgeLengths | None
    search: RootDistances | None
    rank: Ints | None
    roots: Indices
    places: Indices
    dtype: Any
    array_id: str = ""
    what = "rows of the metric"

    def writing_to(self, path: Path, array_id: str) -> WrittenRows:
        """Return the same job for an array."""
        parts = self.lengths, self.search, self.rank, self.roots, self.places, self.dtype
        return WrittenRows(str(path), *parts, array_id)

    @property
    def n(self) -> int:
        """Number of items."""
        if self.rank is not None:
            return len(self.rank)
        assert self.lengths is not None
        return self.lengths.n

    @property
    def lanes(self) -> int:
        """Roots of a unit."""
        return LANES if self.search is None else self.search.lanes

    @property
    def cost(self) -> Cost:
        """Results are row numbers and checksums; memory for distances, in both orders."""
        lanes, n, units = self.lanes, self.n, -(-len(self.roots) // self.lanes)
        seconds, work = float(lanes * n * self.dtype.itemsize / 3e8), 16.0 * lanes * n
        if self.search is None:
            return Cost(units, seconds + 1e-8 * n**2, 16.0 * lanes, work)
        searched = self.search.cost
        seconds, work = seconds + searched.unit_seconds, work + searched.work_bytes
        return Cost(units, seconds, 16.0 * lanes, work)

    def block(self, start: int, stop: int) -> Found:
        """Write the rows of some units; return their numbers and checksums."""
        array = import_zarr().open_array(self.path, mode="r+")
        written, sums = [], []
        for unit in range(start, stop):
            check_time()
            some = self.places[unit * self.lanes : (unit + 1) * self.lanes]
            for s, row in zip(some, self.rows(unit, some), strict=True):
                values = np.ascontiguousarray(row, self.dtype)
                array[int(s)] = values
                written.append(s)
                sums.append(crc32(values.tobytes()))
        return np.array(written, np.int64), np.array(sums, np.int64)

    def rows(self, unit: int, some: Indices) -> AnyArray:
        """Return the distances of a unit, (B, n)."""
        if self.search is None:
            assert self.lengths is not None
            return distances_from(self.lengths, self.roots[some], n_jobs=1)
        assert self.rank is not None
        (dist,) = self.search.block(unit, unit + 1)
        return np.asarray(dist[self.rank].T)
