"""The command line: parse, call, print. One file per group of commands."""

from __future__ import annotations

try:
    import click
except ImportError:  # the library does without
    raise SystemExit(
        "metricmix: the command line needs click and rich: pip install 'metricmix[cli,plot]'"
    ) from None

from metricmix.cli.check import check
from metricmix.cli.demo import demo
from metricmix.cli.explore import explore
from metricmix.cli.repair import repair
from metricmix.cli.reproduce import reproduce

__all__ = ["main"]


@click.group(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Try: metricmix demo (the main job on embedded data, in half a minute)",
)
@click.version_option(package_name="metricmix")
def main() -> None:
    """Learn one true metric from many dissimilarities."""


for command in (demo, explore, check, repair, reproduce):
    main.add_command(command)
