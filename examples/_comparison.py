"""What the examples share: scores of several methods, printed with a verdict and drawn as bars."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from metricmix.plots import PALETTE, figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Scores = Mapping[str, Mapping[str, ArrayLike]]


def compare(scores: Scores, measure: str, *, learned: str = "learned") -> Figure:
    """Print mean ± standard deviation, say what was best, and return a picture of it.

    Parameters
    ----------
    scores : mapping of method to a mapping of series to repeated scores
    measure : str
        What the scores are.
    learned : str
        The method to compare the best other one with: level where the mean of the paired
        differences is within two standard errors.
    """
    mean, spread = (
        {name: {s: float(of(v)) for s, v in series.items()} for name, series in scores.items()}
        for of in (np.mean, np.std)
    )
    kinds = list(scores[learned])
    print(f"{measure:36s}", *(f"{kind:>16s}" for kind in kinds))
    for name in scores:
        cells = (f"{mean[name][kind]:.3f} ± {spread[name][kind]:.3f}" for kind in kinds)
        print(f"{name:36s}", *(f"{cell:>16s}" for cell in cells))
    for kind in kinds:
        rival = max((name for name in scores if name != learned), key=lambda m: mean[m][kind])
        gains = np.subtract(scores[learned][kind], scores[rival][kind])
        gain, error = gains.mean(), gains.std(ddof=1) / np.sqrt(len(gains))
        verdict = "level with" if abs(gain) <= 2 * error else "ahead of" if gain > 0 else "BEHIND"
        print(f"{kind}: {learned} is {verdict} the best other, {rival} ({gain:+.3f} ± {error:.3f})")

    picture, axes = figure(7.0, 0.9 + (0.34 if len(kinds) == 1 else 0.5) * len(scores))
    places = np.arange(len(scores))[::-1]
    width = 0.8 / len(kinds)
    for k, kind in enumerate(kinds):
        at = places + width * ((len(kinds) - 1) / 2 - k)
        values = [mean[name][kind] for name in scores]
        errors = [spread[name][kind] for name in scores]
        style = {"ecolor": "#333333", "capsize": 2, "linewidth": 1}
        axes.barh(
            at, values, 0.92 * width, xerr=errors, color=PALETTE[k], error_kw=style, label=kind
        )
        for y, value, error in zip(at, values, errors, strict=True):
            axes.annotate(
                f"{value:.2f}", (value + error, y), (4, 0), textcoords="offset points",
                va="center", fontsize=9,
            )  # fmt: skip
    axes.set_yticks(places, list(scores))
    axes.get_yticklabels()[list(scores).index(learned)].set_fontweight("bold")
    axes.grid(visible=False, axis="y")
    axes.set_xlim(0, 1.12)
    axes.set_xticks(np.linspace(0, 1, 6))
    axes.set_xlabel(f"{measure}; lines: standard deviation")
    if len(kinds) > 1:
        axes.legend(frameon=False, fontsize=9, loc="best")
    return picture


def save(picture: Figure, name: str) -> None:
    """Write the picture to the folder named on the command line, by default docs/figures."""
    default = Path(__file__).resolve().parents[1] / "docs" / "figures"
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else default
    folder.mkdir(parents=True, exist_ok=True)
    picture.savefig(folder / f"{name}.png", dpi=160)
    print(f"picture: {name}.png")
