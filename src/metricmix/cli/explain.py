"""``metricmix explain``: through which items two items are close, and which source says so."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from metricmix.cli.manners import FILE, in_one_sentence, interruptible, json_option, print_json

if TYPE_CHECKING:
    from metricmix.estimators import MetricMixtureClassifier
    from metricmix.estimators.attribution import Contributions

__all__ = ["explain"]


@click.command(
    short_help="The path between two items; why an item has its label.",
    epilog="""\b
Examples:
  metricmix explain papers p17 p203
  metricmix explain papers p17
  metricmix explain papers p17 p203 --json""",
)
@click.argument("model", type=FILE)
@click.argument("a")
@click.argument("b", required=False)
@json_option
def explain(model: Path, a: str, b: str | None, as_json: bool) -> None:
    """Show the shortest path between the items A and B, edge by edge, and what it is made of.

    MODEL is a folder that metricmix fit wrote, or a saved classifier. The length of an edge comes
    from the sources; a source may make it shorter, where its weight is negative. "link" is the
    length that every edge has. With A alone: why A has its label.

    Exit code 0: told; 2: MODEL cannot be opened, or has no such item.
    """
    with interruptible("nothing was told"), in_one_sentence():
        from metricmix.runs import open_run

        classifier = open_run(model, verify=False).model
        first = _item(classifier, a)
        if b is None:
            why = classifier.explain(first)
            if as_json:
                print_json(_why_record(why))
            else:
                click.echo(str(why))
            return
        found = classifier.contributions(first, _item(classifier, b))
        if as_json:
            print_json(_path_record(classifier, found))
        else:
            _print_path(classifier, found)


def _item(model: MetricMixtureClassifier, text: str) -> Any:
    """Return the id that a text means; InputError with ids that look alike, if there is none."""
    import difflib

    from metricmix.exceptions import InputError

    ids = {str(item): item for item in model.stack_.items.tolist()}
    if text in ids:
        return ids[text]
    close = difflib.get_close_matches(text, list(ids), n=3, cutoff=0.5) or list(ids)[:3]
    raise InputError(f"no item is called {text!r}; there are {', '.join(close)} and others")


def _print_path(model: MetricMixtureClassifier, found: Contributions) -> None:
    stack = model.stack_
    labels = dict(zip(stack.items.tolist(), model.transduction_.tolist(), strict=True))
    hops = len(found.link)
    click.echo(
        f"{found.nodes[0]} to {found.nodes[-1]}: {found.length:.4g}, {hops} edge{'s' * (hops != 1)}"
    )
    names = list(found.totals)
    shown = [max(9, len(name)) for name in names]
    wide = max((len(_edge(found, k)) for k in range(hops)), default=4)
    if not hops:
        return
    click.echo("  ".join(["".ljust(wide), *map(str.rjust, names, shown), "length".rjust(9)]))
    for k in range(hops):
        parts = [*found.edges[k].tolist(), float(found.link[k])]
        numbers = [_signed(value).rjust(w) for value, w in zip(parts, shown, strict=True)]
        click.echo("  ".join([_edge(found, k).ljust(wide), *numbers, f"{sum(parts):9.4g}"]))
    totals = list(found.totals.values())
    if hops > 1:
        numbers = [_signed(value).rjust(w) for value, w in zip(totals, shown, strict=True)]
        click.echo("  ".join(["all".ljust(wide), *numbers, f"{found.length:9.4g}"]))
    told = ", ".join(f"{node}: {labels[node]}" for node in found.nodes)
    click.echo(f"labels: {told}")


def _signed(value: float) -> str:
    return "0" if value == 0 else f"{value:+.3g}"


def _edge(found: Contributions, k: int) -> str:
    return f"{found.nodes[k]} -> {found.nodes[k + 1]}"


def _path_record(model: MetricMixtureClassifier, found: Contributions) -> dict[str, Any]:
    stack = model.stack_
    labels = dict(zip(stack.items.tolist(), model.transduction_.tolist(), strict=True))
    return {
        "from": found.nodes[0],
        "to": found.nodes[-1],
        "length": found.length,
        "path": [{"item": node, "label": labels[node]} for node in found.nodes],
        "edges": [
            {
                "from": found.nodes[k],
                "to": found.nodes[k + 1],
                "length": float(found.edges[k].sum() + found.link[k]),
                "sources": dict(zip(found.sources, found.edges[k].tolist(), strict=True)),
                "link": float(found.link[k]),
            }
            for k in range(len(found.link))
        ],
        "totals": found.totals,
    }


def _why_record(why: Any) -> dict[str, Any]:
    return {
        "item": why.item,
        "label": why.label,
        "given": why.given,
        "rule": why.rule,
        "probabilities": dict(zip(map(str, why.classes), why.probabilities.tolist(), strict=True)),
        "nearest": [
            {
                "item": near.item,
                "label": near.label,
                "distance": near.distance,
                "path": list(near.contributions.nodes),
                "totals": near.contributions.totals,
            }
            for near in why.nearest
        ],
    }
