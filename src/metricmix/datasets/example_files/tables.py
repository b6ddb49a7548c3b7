"""An example: tables that are generated, written as files, and what to do with them."""

from __future__ import annotations

import csv
import io
import os
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from metricmix.atomic import replacing
from metricmix.exceptions import DatasetError

__all__ = ["DIGITS", "ExampleFiles", "Table"]


Table = list[list[str]]
"""Rows of cells, the header first."""
NOTES = "README.txt"


@dataclass(frozen=True)
class ExampleFiles:
    """Files of a worked example, made anew each time and always the same.

    Attributes
    ----------
    name : str
    about : str
        What it is, in a sentence or two.
    files : mapping of file names to what they hold
    steps : tuple of str
        Command lines, with {folder} for where the files are.
    make : callable
        Returns the tables, by file name.
    """

    name: str
    about: str
    files: Mapping[str, str]
    steps: tuple[str, ...]
    make: Callable[[], dict[str, Table]]

    @property
    def commands(self) -> tuple[str, ...]:
        """The command lines, for files in a folder of the example's name."""
        return self.commands_in(self.name)

    def commands_in(self, folder: str | os.PathLike[str]) -> tuple[str, ...]:
        """Return the command lines for files in a folder, quoted as a shell needs it."""
        # A quoted folder may have the rest of the path behind it: 'my files'/papers.csv.
        place = shlex.quote(os.fspath(folder))
        return tuple(step.format(folder=place) for step in self.steps)

    def there_already(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Return those of its files that are in a folder."""
        return [path for name in (*self.files, NOTES) if (path := Path(folder, name)).exists()]

    def write(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> list[Path]:
        """Write the files into a folder, which is made if need be, and return their paths.

        Everything is computed before the first file is written, and each file is there whole or not
        at all. What else is in the folder is left alone.

        Raises
        ------
        DatasetError
            If one of the files is there already and may not be overwritten, or the folder cannot be
            written to.
        """
        target = Path(folder)
        before = self.there_already(target)
        if before and not overwrite:
            raise DatasetError(f"{before[0]}: there already; pass overwrite=True to replace it")
        texts = {name: _as_csv(table) for name, table in self.make().items()}
        texts[NOTES] = self._notes(target)
        try:
            target.mkdir(parents=True, exist_ok=True)
            for name, text in texts.items():
                with replacing(target / name) as file:
                    file.write(text.encode())
        except OSError as error:
            raise DatasetError(f"{target}: {error.strerror or error}") from None
        return [target / name for name in texts]

    def _notes(self, folder: Path) -> str:
        width = max(map(len, self.files))
        files = [f"{name:<{width}}  {what}" for name, what in self.files.items()]
        return "\n".join([self.about, "", *files, "", *self.commands_in(folder), ""])


def _as_csv(rows: Iterable[Iterable[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


# -- handwritten digits, scikit-learn's own: a table of pixels, most of it without a label ------

N_ITEMS, N_NEW = 1000, 100
LABELLED_PER_DIGIT = 8
UNREADABLE = 40
"""Empty cells."""


def make() -> dict[str, Table]:
    """Return the pixels of digits, those of new ones, and what all of them are."""
    rng = np.random.default_rng(21)
    images, labels = load_digits(return_X_y=True)
    chosen = rng.permutation(len(labels))[: N_ITEMS + N_NEW]
    pixels, digit = images[chosen].astype(int), labels[chosen]
    ids = [f"scan{k:04d}" for k in range(1, len(chosen) + 1)]
    cells = pixels.astype(str).astype(object)
    cells[rng.integers(N_ITEMS, size=UNREADABLE), rng.integers(64, size=UNREADABLE)] = ""
    columns = [f"p{row}_{column}" for row in range(8) for column in range(8)]
    labelled: set[int] = set()
    for c in range(10):
        own: NDArray[np.int64] = np.flatnonzero(digit[:N_ITEMS] == c)
        labelled |= set(own[:LABELLED_PER_DIGIT].tolist())
    old = [
        [ids[i], str(digit[i]) if i in labelled else "", *cells[i].tolist()] for i in range(N_ITEMS)
    ]
    new = [[ids[i], *cells[i].tolist()] for i in range(N_ITEMS, len(ids))]
    truth = [[name, str(label)] for name, label in zip(ids, digit, strict=True)]
    return {
        "digits.csv": [["id", "digit", *columns], *old],
        "new-digits.csv": [["id", *columns], *new],
        "truth.csv": [["id", "digit"], *truth],
    }


DIGITS = ExampleFiles(
    name="digits",
    about=(
        "1000 handwritten digits of 8 x 8 pixels, 80 of them labelled, and 100 new ones that come "
        "later. The simplest case: one table of numbers."
    ),
    files={
        "digits.csv": "id, digit (of 80 images), 64 pixels",
        "new-digits.csv": "id and pixels of 100 more, for metricmix predict",
        "truth.csv": "what all 1100 are, to judge the result with",
    },
    steps=(
        "metricmix fit {folder}/digits.csv --label digit --kind 'p*=plain' -o {folder}/result",
        "metricmix predict {folder}/result {folder}/new-digits.csv -o {folder}/predictions.csv",
    ),
    make=make,
)
