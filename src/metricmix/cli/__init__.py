"""The command line: parse, call, print. One file per group of commands."""

from __future__ import annotations

try:
    import click
except ImportError:  # the library does without
    raise SystemExit(
        "metricmix: the command line needs click and rich: pip install 'metricmix[cli,plot]'"
    ) from None

from metricmix.cli.check import check
from metricmix.cli.completion import completion
from metricmix.cli.demo import demo
from metricmix.cli.example import example
from metricmix.cli.explain import explain
from metricmix.cli.explore import explore
from metricmix.cli.fit import fit
from metricmix.cli.predict import predict
from metricmix.cli.repair import repair
from metricmix.cli.reproduce import reproduce

__all__ = ["main"]


class InOrder(click.Group):
    """Commands in the order in which one needs them, and not by the alphabet."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return list(self.commands)


@click.group(
    cls=InOrder,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Try: metricmix example citations (files of 600 papers, and what to do with them)",
)
@click.version_option(package_name="metricmix")
def main() -> None:
    """Learn one true metric from many dissimilarities."""


COMMANDS = (
    *(demo, example, fit, predict, explain, explore),
    *(check, repair, reproduce, completion),
)
for command in COMMANDS:
    main.add_command(command)
