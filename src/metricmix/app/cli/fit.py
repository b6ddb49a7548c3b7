"""``metricmix fit``: from user files to labels, a metric and a page."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from metricmix.app.cli.common import (
    FILE,
    CommandError,
    cluster_options,
    command_line,
    complete_file,
    interruptible,
    json_option,
    on_cluster,
    print_json,
    progress_bar,
    quiet_option,
    report_errors,
    safe_csv_option,
)
from metricmix.app.cli.fit_output import print_outcome, print_plan, simpler_options
from metricmix.registry import declared

if TYPE_CHECKING:
    from metricmix.app.pipeline.config import FitSettings
    from metricmix.atomic import Reservation

__all__ = ["fit"]


OBJECTIVES, RULES = declared("metricmix.objectives"), declared("metricmix.learning.rules")
STEPS = {
    "reading": "reading and joining the files",
    "sources": "computing the sources",
    "learning": "learning the weights",
    "intervals": "bootstrap: intervals of the weights",
    "accuracy": "accuracy on held-out labels",
    "metric": "all shortest paths",
    "nearest": "nearest labelled items",
    "stretch": "comparing with all pairs",
    "page": "drawing the page",
    "writing": "writing",
}


EPILOG = """\b
Examples:
  metricmix fit papers.csv --label topic --edges cites.csv -o papers
  metricmix fit papers.csv --label topic --edges cites.csv --dry-run --write-config papers.toml
  metricmix fit --config papers.toml -o papers
  metricmix fit towns.csv --label region --edges roads.csv:directed:length
  metricmix fit songs.csv --label genre --matrix heard=distances.npy --tune
  metricmix fit houses.csv --label price --edges streets.csv
  metricmix fit papers.csv --label topic --source words=cosine:title,abstract \\
      --source around=smoothed:cites.csv --source shared=jaccard:cites.csv

\b
Kinds of sources (--source NAME=KIND:WHAT):
{kinds}

Without data of your own: metricmix example citations"""


class FitCommand(click.Command):
    """A command whose help lists all kinds of sources that have registered themselves."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write examples, and an example of each kind with its words."""
        kinds = declared("metricmix.dissimilarity.kinds")
        lines = [f"  {said.facts['example']:<34} {said.words}" for said in kinds]
        self.epilog = EPILOG.format(kinds="\n".join(lines))
        super().format_epilog(ctx, formatter)


def checked_folds(context: click.Context, option: click.Parameter, folds: int | None) -> int | None:
    """Return the number of folds; CommandError for a single one."""
    if folds == 1:
        raise CommandError("--folds: expected 0 for none, or at least 2, got 1")
    return folds


def nearest_items(
    context: click.Context, option: click.Parameter, text: str | None
) -> int | str | None:
    """Return the number of nearest items, or "auto"; CommandError if it is something else."""
    if text is None or text == "auto":
        return text
    if not (text.isdecimal() and int(text) >= 1):
        raise CommandError(
            f"--geodesic: expected a number of nearest items, or nothing, got {text!r}"
        )
    return int(text)


@click.command(
    cls=FitCommand, short_help="Learn a metric from your files: labels, weights and a page."
)
@click.argument("table", type=FILE, required=False)
@click.option("--label", help="The column of labels; empty cells are unlabelled.")
@click.option(
    "--target",
    type=click.Choice(["classes", "number"]),
    help="Type of the labels; by default, a column with many different numbers is numeric.",
)
@click.option(
    "--id",
    help="The column of ids, or row to number the items from 1 (from 0 if the edge files do; row0 "
    "and row1 state which).  [default: the first column]",
)
@click.option(
    "--single-labels",
    type=click.Choice(["auto", "drop", "keep"]),
    default="auto",
    show_default=True,
    help="Treat a label with a single item as unlabelled (drop) or as a class (keep). auto drops "
    "it if the other classes have at least five labels on average.",
)
@click.option(
    "--edges",
    multiple=True,
    shell_complete=complete_file,
    metavar="[NAME=]FILE[:OPTION...]",
    help="A graph over the items: CSV, TSV, JSON, Excel (columns source and target, optionally "
    "length or similarity), GraphML, GEXF, npz; or items and the groups they belong to. Options: "
    "directed, undirected, length, similarity, ignore, membership, graph.",
)
@click.option(
    *("--matrix", "--tree", "matrix"),
    multiple=True,
    shell_complete=complete_file,
    metavar="[NAME=]FILE[:directed]",
    help="A precomputed dissimilarity matrix: npy, CSV or TSV with ids, PHYLIP, NEXUS; or a Newick "
    "tree, for the path distances between its leaves.",
)
@click.option(
    "--source",
    multiple=True,
    metavar="NAME=KIND:WHAT[:OPTION...]",
    help="Define a source yourself; the table's columns are then not used as sources by default.",
)
@click.option(
    "--only",
    multiple=True,
    metavar="NAME",
    help="Use this source and leave out the others, whether or not it is used by default; may be "
    "given several times.",
)
@click.option(
    "--kind",
    multiple=True,
    metavar="COLUMN=KIND",
    help="Type of a column: number, plain, date, count, category, text or ignore; or its format: "
    "decimal-comma, decimal-point, day/month/year, month/day/year.",
)
@click.option(
    "--missing",
    multiple=True,
    metavar="TEXT",
    help="A text or number that stands for missing values, such as -999, besides empty cells, NA, "
    "null and the like.",
)
@click.option(
    *("-o", "--out"),
    type=FILE,
    help="The folder to write.  [default: the table's name and -metric]",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Print what would be joined, with estimates of memory and time, and stop.",
)
@click.option(
    "--write-config",
    type=FILE,
    metavar="FILE",
    help="Write sources and settings, with reasons, to a TOML file for editing; then fit, unless "
    "--dry-run is given.",
)
@click.option(
    "--config",
    type=FILE,
    metavar="FILE",
    help="Read table, columns, sources and settings from a TOML file; options on the command line "
    "take precedence.",
)
@click.option(
    "--groups",
    metavar="COLUMN",
    help="The column of groups, such as patients, sites or authors: wherever labels are held out, "
    "all of a group are. It is not used as a source.",
)
@click.option(
    "--order",
    metavar="COLUMN",
    help="A column of numbers or dates: accuracies are those of later items, from the labels "
    "before them. It is not used as a source.",
)
@click.option(
    "--held-out",
    type=click.Choice(["stay", "new"]),
    default="stay",
    show_default=True,
    help="Whether held-out items stay in the metric, unlabelled, or are new: all of the fit is "
    "repeated without them in every fold, and they are predicted as predict does.",
)
@click.option(
    "--class-weight",
    multiple=True,
    metavar="balanced|LABEL=NUMBER",
    help="Factors of the odds of classes in predictions: balanced, inversely to their labels; or a "
    "number for a label, 1 for the others; may be given several times, once per label.",
)
@click.option(
    "--rule",
    type=click.Choice(list(dict.fromkeys(rule.name for rule in RULES))),
    help="The rule that predicts labels from distances.  [default: chosen on held-out labels]",
)
@click.option(
    "--objective",
    type=click.Choice([said.name for said in OBJECTIVES]),
    help="The loss that learning minimises.  [default: {} for numbers]".format(
        "; ".join(said.name for said in OBJECTIVES if said.default)
    ),
)
@click.option(
    "--rho",
    type=click.FloatRange(0),
    help="Ridge that shrinks weights towards equal weights.  [default: chosen]",
)
@click.option(
    "--constraint",
    type=click.Choice(["nonnegative", "simplex", "signed"]),
    help="Constraint on the weights.  [default: chosen on held-out labels]",
)
@click.option(
    "--local",
    type=click.Choice(["auto", "regions", "classes", "none"]),
    help="Which regions have weights of their own: parts of the data where different sources tell "
    "the classes, found from the labels, or classes.  [default: regions, if clearly better]",
)
@click.option(
    "--geodesic",
    is_flag=False,
    flag_value="auto",
    callback=nearest_items,
    metavar="[K]",
    help="Paths through items: only each item's K nearest items and the given links are edges. "
    "Without K: along 10 nearest items if that is clearly better on held-out labels.",
)
@click.option("--tune", is_flag=True, help="Choose rule and rho from a larger grid, by accuracy.")
@click.option(
    *("--folds", "n_splits"),
    type=click.IntRange(0),
    callback=checked_folds,
    help="Number of folds for accuracies on held-out labels; 0 for none.  [default: 5; of at most "
    "20 labels with fewer than 5 per class, each is held out by itself]",
)
@click.option(
    *("--bootstrap", "n_bootstrap"),
    type=click.IntRange(0),
    default=100,
    show_default=True,
    help="Resamples for the intervals of the weights; 0 for none.",
)
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True)
@click.option("--metric", "keep_metric", is_flag=True, help="Write all distances: metric.npy.")
@click.option("--report/--no-report", default=True, help="Whether to write report.html.")
@click.option("--title", help="The title of the page.")
@click.option(
    "--name",
    help="The column to show on the page besides ids.  [default: one called name or title]",
)
@click.option(
    "--edges-per-item",
    type=click.IntRange(1),
    metavar="K",
    help="For many items: keep values only along the given links and from each item to its K "
    "nearest by each table, not for all pairs. Distances become somewhat larger; fit reports by "
    "how much.",
)
@click.option(
    "--dense",
    is_flag=True,
    help="Keep values of all pairs, even if they need more than 8 GiB of memory. By default, fit "
    "uses --edges-per-item 10 then.",
)
@cluster_options
@safe_csv_option
@click.option("--force", is_flag=True, help="Overwrite an earlier result in the folder.")
@quiet_option
@json_option
@click.pass_context
def fit(
    context: click.Context,
    /,
    table: Path | None,
    out: Path | None,
    dry_run: bool,
    write_config: Path | None,
    config: Path | None,
    cluster: str | None,
    blocks: Path | None,
    force: bool,
    quiet: bool,
    as_json: bool,
    **stated: Any,
) -> None:
    """Learn one metric from a TABLE of items, graphs over them, and precomputed matrices.

    TABLE is CSV, TSV, JSON, Excel or Parquet, optionally compressed with gzip: a row per item, a
    column of ids, one of labels, and attributes. Everything is joined by id. Sources are groups of
    columns, graphs, memberships, and classifiers fitted to the labels, at most 20; --dry-run lists
    them with reasons.

    The folder contains model.mm, predictions.csv, weights.csv, report.html (open it in a browser),
    run.json and items.mm, which predict needs. If the command fails, no file is written.

    Exit code 0: written; 2: error, nothing was written; 130: interrupted.
    """
    began = time.perf_counter()
    with interruptible("nothing was written"), ExitStack() as held:
        from metricmix.app.pipeline.config import plan_files, plan_record, settings_of_options
        from metricmix.items.cells import stem_of

        if config is not None:
            settings = settings_of_file(context, config, table, stated)
        else:
            if table is None:
                raise click.UsageError("Missing argument 'TABLE'.")
            if stated["label"] is None:
                raise click.UsageError("Missing option '--label'.")
            with report_errors():
                settings = settings_of_options(table, stated)
        out = out or Path(f"{stem_of(settings.table)}-metric")
        if write_config is not None and write_config.exists() and not force:
            raise CommandError(f"{write_config}: exists; pass --force to overwrite it")
        folder = None if dry_run else held.enter_context(confirmed_folder(out, force))
        with report_errors(), progress_bar(STEPS, quiet=quiet) as show:
            show("reading", 0.0)
            plan = plan_files(settings)
            storage = settings.storage(plan)
        if write_config is not None:
            from metricmix.app.pipeline import config as files

            with report_errors(write_config):
                files.write_config(write_config, plan, settings)
        if folder is None:
            if as_json:
                print_json(plan_record(plan, storage))
            elif not quiet:
                print_plan(plan, storage)
                file = shlex.quote(str(write_config or f"{stem_of(settings.table)}.toml"))
                also = "" if write_config else f"add --write-config {file} to "
                click.echo(f"{also}edit this choice: metricmix fit --config {file}")
            with report_errors():
                storage.check_fits(str(plan.items.source))
            return
        if not (quiet or as_json):
            print_plan(plan)
            if storage.kind != "matrices":
                click.echo("\n".join(storage.lines()))
        from metricmix.app.pipeline.fit_run import fit_files  # slow to import

        with (
            report_errors(out),
            progress_bar(STEPS, quiet=quiet) as show,
            on_cluster(cluster, blocks, show, quiet=quiet or as_json) as on_progress,
        ):
            own = ("quiet", "as_json", "force", "write_config", "cluster", "blocks")
            command = command_line(context, leave_out=own)
            outcome = fit_files(
                plan, settings, folder, storage=storage, command=command, on_progress=on_progress
            )
    if as_json:
        more = {"notes": list(outcome.notes), "seconds": outcome.seconds, "out": str(out)}
        print_json({**outcome.to_record(), **more, "files": list(outcome.files)})
    elif not quiet:
        simpler = ""
        if options := simpler_options(outcome):
            words = [word for name, value in options.items() for word in (f"--{name}", value)]
            words += ["-o", f"{out}-{'simpler' if set(options) != {'rule'} else options['rule']}"]
            simpler = command_line(context, (*own, "out", *options), words)
        print_outcome(outcome, out, time.perf_counter() - began, simpler)


def settings_of_file(
    context: click.Context, config: Path, table: Path | None, stated: dict[str, Any]
) -> FitSettings:
    """Return the settings of a TOML file; options that were given win, but not those of sources."""
    from metricmix.app.pipeline.config import read_config

    given = {
        name
        for name in (*stated, "table")
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
    }
    for name in ("edges", "matrix", "source", "kind"):
        if name in given:
            raise CommandError(
                f"--{name}: {config} has all sources and kinds of columns; add a line to it instead"
            )
    values = {**stated, "table": str(table)}
    with report_errors(config):
        return read_config(config, {name: values[name] for name in given})


@contextmanager
def confirmed_folder(out: Path, force: bool) -> Iterator[Reservation]:
    """Reserve a folder that a run can be written to; ask before an earlier one is replaced."""
    from metricmix.app.pipeline.fit_run import check_output_folder, reserved_folder

    with ExitStack() as held:
        with report_errors():
            check_output_folder(out)
            folder = held.enter_context(reserved_folder(out))
        if any(out.iterdir()) and not force:
            if not (sys.stdin.isatty() and sys.stderr.isatty()):
                raise CommandError(
                    f"{out}: not empty; pass --force to replace an earlier result in it"
                )
            if not click.confirm(f"{out} is not empty; replace an earlier result in it?", err=True):
                raise SystemExit(2)
        yield folder
