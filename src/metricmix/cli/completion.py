"""``metricmix completion``: what a shell needs to complete commands and options."""

from __future__ import annotations

import click

__all__ = ["completion"]

ENABLE = {
    "bash": 'eval "$(metricmix completion bash)"    in ~/.bashrc',
    "zsh": 'eval "$(metricmix completion zsh)"    in ~/.zshrc',
    "fish": "metricmix completion fish | source    in ~/.config/fish/config.fish",
}


@click.command(
    short_help="Completion for bash, zsh and fish.",
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
