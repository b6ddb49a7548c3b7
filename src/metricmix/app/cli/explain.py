"""``metricmix explain``: why two items are close, and why an item has its label."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from metricmix.app.cli.common import (
    FILE,
    CommandError,
    interruptible,
    json_option,
    print_json,
    report_errors,
)

if TYPE_CHECKING:
    from metricmix.app.pipeline.run_folder import RunFolder
    from metricmix.fitting.phrases import Reason
    from metricmix.paths.contributions import Contributions

__all__ = ["explain"]

TERMS = {
    "offset": "what the rule adds for a class, by its spread and its share of the labels",
    "link": "what every edge has, whatever the sources say",
}
"""Parts of an explanation that are no sources, in words."""


@click.command(
    short_help="Explain a distance between items, or a label.",
    epilog="""\b
Examples:
  metricmix explain papers p17 p203
  metricmix explain papers p17
  metricmix explain papers p17 --not physics
  metricmix explain papers --misfits
  metricmix explain papers --typical --json
  metricmix explain papers --next 10""",
)
@click.argument("model", type=FILE)
@click.argument("a", required=False)
@click.argument("b", required=False)
@click.option("--not", "other", metavar="LABEL", help="With A alone: why not this label.")
@click.option("--misfits", is_flag=True, help="Which given labels look wrong, and why.")
@click.option("--typical", is_flag=True, help="The most typical item of each label.")
@click.option(
    "--next", "n_next", type=click.IntRange(1), metavar="K", help="Which K items to label next."
)
@click.option(
    "--geodesic",
    type=click.IntRange(1),
    metavar="K",
    help="The path along the K nearest items of each item, regardless of the model's edges.",
)
@json_option
def explain(model: Path, a: str | None, b: str | None, as_json: bool, **asked: Any) -> None:
    """Print the shortest path between the items A and B, and what each source contributes to it.

    MODEL is a folder that metricmix fit wrote, or a saved classifier. The length of an edge is
    a sum of contributions of the sources; a negative weight makes it shorter. "link" is a constant
    length that every edge has. Each edge is also described in words, from the cells and links of
    its items: what both have first, predictions of models last. With A alone: why A has its label
    and not another, and how the weight of a source would have to change for another label.

    Exit code 0: explained; 2: MODEL cannot be opened, or has no such item.
    """
    several = [name for name in ("misfits", "typical", "n_next") if asked[name]]
    if bool(several) == (a is not None) or len(several) > 1:
        raise CommandError("expected one or two items, or --misfits, or --typical, or --next")
    if asked["other"] is not None and (a is None or b is not None):
        raise CommandError("--not: expected one item, whose label is explained")
    if asked["geodesic"] is not None and b is None:
        raise CommandError("--geodesic: expected two items, and the path between them")
    with interruptible("nothing was explained"), report_errors():
        from metricmix.app.pipeline import open_run

        run = open_run(model, verify=False)
        if asked["n_next"]:
            tell_next(run, asked["n_next"], as_json)
        elif a is None:
            tell_of_all(run, asked["misfits"], as_json)
        elif b is None:
            tell_label(run, a, asked["other"], as_json)
        else:
            metric = run.metric_along(asked["geodesic"])
            path = metric.contributions(run.find_item(a), run.find_item(b))
            words = run.phrases(metric)
            edges = [words.reasons(u, v) for u, v in path.path.edges]
            if as_json:
                print_json(contributions_record(run, path, edges))
            else:
                print_contributions(run, path, edges, asked["geodesic"])


def tell_of_all(run: RunFolder, misfits: bool, as_json: bool) -> None:
    """Print the given labels that look wrong, or the typical items."""
    model: Any = run.model
    if not hasattr(model, "misfits"):
        raise CommandError("--misfits, --typical: expected a classifier, found a regressor")
    found: list[Any] = list(model.misfits() if misfits else model.typical_items())
    if as_json:
        print_json({"misfits" if misfits else "typical": [asdict(one) for one in found]})
        return
    for one in found:
        click.echo(
            str(one)
            if misfits
            else f"{one.label}: {one.item}, the only labelled item of its class"
            if one.size == 1
            else f"{one.label}: {one.item}, mean distance {one.distance:.4g} to the "
            f"{'other' if one.size == 2 else f'{one.size - 1} other'} labelled "
            f"item{'s' * (one.size > 2)} of its class"
        )
    accuracy = run.accuracy() if misfits and found else None
    # Where the model errs often, labels that look wrong may be right.
    if accuracy is not None and accuracy < 0.8:
        click.echo(
            f"the estimated accuracy is only {accuracy:.0%}: most of these labels may be right and "
            "the metric wrong"
        )
    if misfits and not found:
        click.echo("no given label looks wrong: the rule prefers each of them")
    sizes = Counter(label for label, given in labels_by_item(run).values() if given)
    single = [str(label) for label, size in sizes.items() if size == 1]
    if misfits and single:
        click.echo(f"not judged, since a single item has the label: {', '.join(single)}")


def tell_next(run: RunFolder, k: int, as_json: bool) -> None:
    """Print which items to label next."""
    found = run.model.next_labels(k)
    if as_json:
        print_json({"next": [asdict(one) for one in found]})
        return
    for one in found:
        items = f"{one.stands_for:,} item{'s' * (one.stands_for != 1)}"
        doubt = "" if run.model.is_numeric else f", doubt {one.doubt:.2f}"
        click.echo(f"{one.item}: predicted {one.label}{doubt}; nearer to {items} than labels are")
    if not found:
        click.echo("every item has a label")


def tell_label(run: RunFolder, a: str, other: str | None, as_json: bool) -> None:
    """Print why an item has its label, and not another one."""
    item, model = run.find_item(a), run.model
    if not hasattr(model, "explain_label"):  # a target, not a label
        told: Any = model.explain(item)
        if as_json:
            print_json(explanation_record(told))
        else:
            click.echo(str(told))
        return
    names = {str(name): name for name in model.classes_.tolist()}
    if other is not None and other not in names:
        raise CommandError(f"--not: expected one of {', '.join(names)}, got {other!r}")
    why, rather = model.explain(item), model.explain_label(item, names.get(other or ""))
    why = replace(why, unused=run.labels_left_out().get(item, ""))
    if as_json:
        print_json({**explanation_record(why), "rather": rather.to_record()})
    else:
        about = str(why).splitlines()[: 2 if why.nearest else 1]  # the odds are told below
        click.echo("\n".join([*about, str(rather)]))
        named = [name for name in TERMS if name in rather.margin and name not in rather.flips]
        if named:
            click.echo(f"({'; '.join(f'{name}: {TERMS[name]}' for name in named)})")
        for remark in run.little_data(item):
            click.echo(remark)


def labels_by_item(run: RunFolder) -> dict[Any, tuple[Any, bool]]:
    """Return the label of every item, and whether it is given."""
    model = run.model
    given = model.known_.mask.tolist()
    labels = zip(model.transduction_.tolist(), given, strict=True)
    found: dict[Any, tuple[Any, bool]] = dict(zip(model.stack_.items.tolist(), labels, strict=True))
    return found | {item: (label, True) for item, label in run.labels_left_out().items()}


def print_contributions(
    run: RunFolder, path: Contributions, reasons: list[list[Reason]], geodesic: int | None
) -> None:
    """Print a path as a table: a row per edge, a column per source; then each edge in words.

    Sources that add nothing are left out. Where 80 columns do not hold the table, the parts of each
    edge are listed instead, the largest first. With `geodesic`, the path is along as many nearest
    items; the model's distance is printed, too.
    """
    n_edges = len(path.link)
    click.echo(
        f"{path.nodes[0]} to {path.nodes[-1]}: {path.length:.4g}, {n_edges} "
        f"edge{'s' * (n_edges != 1)}"
    )
    if not n_edges:
        return
    edges = [f"{path.nodes[k]} -> {path.nodes[k + 1]}" for k in range(n_edges)]
    rows = [[*path.edges[k].tolist(), float(path.link[k])] for k in range(n_edges)]
    used = [r for r in range(len(path.totals)) if any(parts[r] for parts in rows)]
    table = [
        (edge, [parts[r] for r in used], sum(parts))
        for edge, parts in zip(edges, rows, strict=True)
    ]
    if n_edges > 1:
        totals = list(path.totals.values())
        table.append(("all", [totals[r] for r in used], path.length))
    print_parts([list(path.totals)[r] for r in used], table)
    if geodesic is not None:
        items = f"{geodesic} nearest item{'s' * (geodesic != 1)}"
        own = run.metric.distance(path.nodes[0], path.nodes[-1])
        click.echo(
            f"the length is that of the geodesic metric over {items}; the model's own distance is "
            f"{own:.4g}"
        )
    elif n_edges == 1:
        hint = "; --geodesic 10 shows a path through nearest items"
        click.echo(f"no item lies between them{hint * (run.metric.stack.edges is None)}")
    labels = labels_by_item(run)
    texts = []
    for node in path.nodes:
        label, given = labels[node]
        text = f"{label:.4g}" if isinstance(label, float) else label
        texts.append(f"{node}: {text} ({'given' if given else 'predicted'})")
    click.echo(f"labels: {', '.join(texts)}")
    for edge, told in zip(edges, reasons, strict=True):
        if told:
            click.echo(f"{edge}: {'; '.join(reason.phrase for reason in told)}")


def print_parts(names: list[str], table: list[tuple[str, list[float], float]]) -> None:
    """Print rows of a name, parts and their sum, as a table or, if that is too wide, as lists."""
    line_width = 80
    first, widths = max(len(edge) for edge, *_ in table), [max(9, len(name)) for name in names]
    wide = first + sum(width + 2 for width in widths) + 11 > line_width
    if not wide:
        heads = [name.rjust(width) for name, width in zip(names, widths, strict=True)]
        click.echo("  ".join(["".ljust(first), *heads, "length".rjust(9)]))
    for edge, parts, length in table:
        texts = ["0" if value == 0 else f"{value:+.3g}" for value in parts]
        if not wide:
            cells = [text.rjust(width) for text, width in zip(texts, widths, strict=True)]
            click.echo("  ".join([edge.ljust(first), *cells, f"{length:9.4g}"]))
            continue
        order = sorted(range(len(parts)), key=lambda r: -abs(parts[r]))
        listed = ", ".join(f"{names[r]} {texts[r]}".replace(" ", "\0") for r in order if parts[r])
        lines = click.wrap_text(listed, line_width, "  ", "  ").replace("\0", " ")
        click.echo(f"{edge}: {length:.4g}\n{lines}")


def contributions_record(
    run: RunFolder, path: Contributions, reasons: list[list[Reason]]
) -> dict[str, Any]:
    """Return a path and its parts, for JSON."""
    labels = labels_by_item(run)
    return {
        "from": path.nodes[0],
        "to": path.nodes[-1],
        "length": path.length,
        "path": [
            {"item": node, "label": labels[node][0], "given": labels[node][1]}
            for node in path.nodes
        ],
        "edges": [
            {
                "from": path.nodes[k],
                "to": path.nodes[k + 1],
                "length": float(path.edges[k].sum() + path.link[k]),
                "sources": dict(zip(path.sources, path.edges[k].tolist(), strict=True)),
                "link": float(path.link[k]),
                "reasons": [asdict(reason) for reason in reasons[k]],
            }
            for k in range(len(path.link))
        ],
        "totals": path.totals,
    }


def explanation_record(why: Any) -> dict[str, Any]:
    """Return the explanation of a label or target, for JSON."""
    found: dict[str, Any] = {"item": why.item}
    if not why.classes:
        found |= {"target": why.label, "given": why.given, "rule": why.rule}
        found |= {"predicted": why.predicted, "mean": why.mean}
    else:
        p = zip(map(str, why.classes), why.probabilities.tolist(), strict=True)
        found |= {"label": why.label, "given": why.given, "rule": why.rule}
        found["probabilities"] = dict(p)
    return {
        **found,
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
