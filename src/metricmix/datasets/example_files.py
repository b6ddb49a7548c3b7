"""The files of the worked examples, for users without data of their own: ``metricmix example``."""

from __future__ import annotations

import csv
import io
import os
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from metricmix.atomic import replacing
from metricmix.datasets.example_tables import (
    Table,
    make_citations,
    make_gestures,
    make_roads,
)
from metricmix.datasets.packaged_tables import (
    make_articles,
    make_diabetes,
    make_digits,
    make_karate,
)
from metricmix.exceptions import DatasetError
from metricmix.validation import check_choice

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["EXAMPLES", "ExampleFiles", "load_example"]


README = "README.txt"


@dataclass(frozen=True)
class ExampleFiles:
    """The files of a worked example: generated on each call, always the same.

    Attributes
    ----------
    name : str
    about : str
        A description of one or two sentences.
    files : mapping of file names to descriptions
    steps : tuple of str
        Command lines; {folder} stands for the folder of the files.
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

    def texts(self) -> dict[str, str]:
        """Return the tables as CSV, by file name."""
        found = {}
        for name, table in self.make().items():
            written = io.StringIO()
            csv.writer(written, lineterminator="\n").writerows(table)
            found[name] = written.getvalue()
        return found

    def existing_files(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Return those of its files that exist in a folder."""
        return [path for name in (*self.files, README) if (path := Path(folder, name)).exists()]

    def write(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> list[Path]:
        """Write the files into a folder, which is created if necessary, and return their paths.

        Everything is computed before the first file is written, and each file is written completely
        or not at all. Other files in the folder are left alone.

        Raises
        ------
        DatasetError
            If one of the files exists and may not be overwritten, or the folder cannot be written
            to.
        """
        target = Path(folder)
        before = self.existing_files(target)
        if before and not overwrite:
            raise DatasetError(f"{before[0]}: exists; pass overwrite=True to replace it")
        texts = self.texts()
        width = max(map(len, self.files))
        listed = [f"{name:<{width}}  {what}" for name, what in self.files.items()]
        commands = self.commands_in(target)
        texts[README] = "\n".join([self.about, "", *listed, "", *commands, ""])
        try:
            target.mkdir(parents=True, exist_ok=True)
            for name, text in texts.items():
                with replacing(target / name) as file:
                    file.write(text.encode())
        except OSError as error:
            raise DatasetError(f"{target}: {error.strerror or error}") from None
        return [target / name for name in texts]


CITATIONS = ExampleFiles(
    name="citations",
    about=(
        "600 generated papers on five topics: title, abstract, year and venue in one file, "
        "citations in another, and a topic for one paper in ten. Which topics do the others have?"
    ),
    files={
        "papers.csv": "id, title, abstract, year, venue; topic of 60 papers",
        "cites.csv": "source, target: citations, some of papers that are not in the table",
        "truth.csv": "the topics of all papers, to evaluate the result",
    },
    steps=(
        "metricmix fit {folder}/papers.csv --label topic --edges {folder}/cites.csv "
        "-o {folder}/result",
        "metricmix explain {folder}/result p0548 p0083",
        "metricmix explore {folder}/result",
    ),
    make=make_citations,
)

DIGITS = ExampleFiles(
    name="digits",
    about=(
        "1000 handwritten digits of 8 x 8 pixels, 80 of them labelled, and 100 new ones. The "
        "simplest case: one table of numbers."
    ),
    files={
        "digits.csv": "id, digit (of 80 images), 64 pixels",
        "new-digits.csv": "id and pixels of 100 more, for metricmix predict",
        "truth.csv": "the digits of all 1100 images, to evaluate the result",
    },
    steps=(
        "metricmix fit {folder}/digits.csv --label digit --kind 'p*=plain' -o {folder}/result",
        "metricmix predict {folder}/result {folder}/new-digits.csv -o {folder}/predictions.csv",
    ),
    make=make_digits,
)

ARTICLES = ExampleFiles(
    name="articles",
    about=(
        "30 encyclopedia articles on scientists, artists and philosophers: links between them, and "
        "eleven words that occur in some of them. The field is known for nine articles."
    ),
    files={
        "articles.csv": "id; field (of 9 articles)",
        "links.csv": "source, target: links between articles",
        "words.csv": "article, word: which words occur in an article",
        "truth.csv": "the fields of all articles, to evaluate the result",
    },
    steps=(
        "metricmix fit {folder}/articles.csv --label field --edges {folder}/links.csv "
        "--edges {folder}/words.csv -o {folder}/result",
        "metricmix explain {folder}/result Socrates 'Bob Dylan'",
    ),
    make=make_articles,
)

DIABETES = ExampleFiles(
    name="diabetes",
    about=(
        "442 patients with diabetes: age, sex, body mass index, blood pressure and six blood serum "
        "measurements. How far the disease had progressed after a year is known for 60 of them."
    ),
    files={
        "patients.csv": "id, progression (of 60 patients), ten measurements",
        "truth.csv": "the progression of all patients, to evaluate the result",
    },
    steps=("metricmix fit {folder}/patients.csv --label progression -o {folder}/result",),
    make=make_diabetes,
)

KARATE = ExampleFiles(
    name="karate",
    about=(
        "34 members of a karate club that split in two, and how often they met outside the club. "
        "Which of the two new clubs did each of them join? Known for eight members."
    ),
    files={
        "members.csv": "id; club (of 8 members)",
        "ties.csv": "source, target, similarity: number of contexts in which two members met",
        "truth.csv": "the clubs of all members, to evaluate the result",
    },
    steps=(
        "metricmix fit {folder}/members.csv --label club --edges {folder}/ties.csv "
        "-o {folder}/result",
        "metricmix explain {folder}/result m09",
    ),
    make=make_karate,
)

GESTURES = ExampleFiles(
    name="gestures",
    about=(
        "200 generated gestures of five kinds, compared by dynamic time warping, which is not a "
        "metric and ignores speed, and a table that contains the speed."
    ),
    files={
        "gestures.csv": "id, gesture (of 40), length in samples, speed, hand",
        "dtw.csv": "a matrix with ids that violates the triangle inequality; see metricmix check",
        "truth.csv": "the kinds of all gestures, to evaluate the result",
    },
    steps=(
        "metricmix check {folder}/dtw.csv --top 2",
        "metricmix fit {folder}/gestures.csv --label gesture --matrix {folder}/dtw.csv "
        "-o {folder}/result",
        "metricmix explain {folder}/result g189 g115",
    ),
    make=make_gestures,
)

ROADS = ExampleFiles(
    name="roads",
    about=(
        "300 road junctions of a generated town and travel times between them, with one-way "
        "streets, a river and a ring road. For 48 junctions the depot that is reached first is "
        "known, one of four."
    ),
    files={
        "junctions.csv": "id, east, north, height, kind of road; depot (of 48 junctions)",
        "roads.csv": "from, to, length in minutes: one line per direction",
        "new-junctions.csv": "20 new junctions, for metricmix predict",
        "new-roads.csv": "the roads to and from these",
        "truth.csv": "the depots of all 320 junctions, to evaluate the result",
    },
    steps=(
        "metricmix fit {folder}/junctions.csv --label depot --edges {folder}/roads.csv:directed "
        "-o {folder}/result",
        "metricmix predict {folder}/result {folder}/new-junctions.csv "
        "--edges {folder}/new-roads.csv -o {folder}/predictions.csv",
        "metricmix explain {folder}/result J005 J004",
        "metricmix explain {folder}/result J004 J005",
    ),
    make=make_roads,
)

ALL = (CITATIONS, ARTICLES, DIGITS, DIABETES, KARATE, GESTURES, ROADS)
EXAMPLES = {example.name: example for example in ALL}
"""All examples, by name: citations, gestures and roads are generated, the others real."""


def load_example(name: str = "citations") -> dict[str, pd.DataFrame]:
    """Return the tables of a worked example as frames, by the names of their files.

    Parameters
    ----------
    name : {"citations", "articles", "digits", "diabetes", "karate", "gestures", "roads"}
        "citations" (papers, their texts and citations), "gestures" and "roads" are generated, the
        others real. Always the same; ``metricmix example`` writes them as files.

    Examples
    --------
    >>> data = load_example("karate")
    >>> list(data), data["ties"].columns.tolist()
    (['members', 'ties', 'truth'], ['source', 'target', 'similarity'])
    """
    import pandas as pd

    texts = EXAMPLES[check_choice(name, tuple(EXAMPLES), name="name")].texts()
    return {
        file.removesuffix(".csv"): pd.read_csv(io.StringIO(text)) for file, text in texts.items()
    }
