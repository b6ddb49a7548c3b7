"""The command line: parse, call, print. Commands that are used together share a file."""

from __future__ import annotations

try:
    import click
except ImportError:  # an optional dependency
    raise SystemExit(
        "metricmix: the command line needs click and rich: pip install 'metricmix[cli,plot]'"
    ) from None

from metricmix.app.cli.check import check
from metricmix.app.cli.common import main
from metricmix.app.cli.demo import demo, example, reproduce
from metricmix.app.cli.explain import explain
from metricmix.app.cli.fit import fit
from metricmix.app.cli.predict import explore, predict
from metricmix.app.cli.repair import repair

__all__ = ["main"]


ENABLE = {
    "bash": 'eval "$(metricmix completion bash)"    in ~/.bashrc',
    "zsh": 'eval "$(metricmix completion zsh)"    in ~/.zshrc',
    "fish": "metricmix completion fish | source    in ~/.config/fish/config.fish",
}


@click.command(
    short_help="Print a completion script for bash, zsh or fish.",
    epilog="\b\n" + "\n".join(["Put", *(f"  {line}" for line in ENABLE.values())]),
)
@click.argument("shell", type=click.Choice(list(ENABLE)))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that makes a SHELL complete metricmix's commands, options and files."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    root = context.find_root()
    click.echo(kind(root.command, {}, "metricmix", "_METRICMIX_COMPLETE").source())


COMMANDS = (
    *(demo, example, fit, predict, explain, explore),
    *(check, repair, reproduce, completion),
)
for command in COMMANDS:
    main.add_command(command)
