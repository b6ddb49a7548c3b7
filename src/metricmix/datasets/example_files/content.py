"""An example: tables that are generated, written as files, and what to do with them."""

from __future__ import annotations

import csv
import io
import os
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from metricmix.atomic import replacing
from metricmix.exceptions import DatasetError

__all__ = ["ExampleFiles", "Table"]

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
