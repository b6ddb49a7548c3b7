"""Files of a small shop: 60 things in 3 classes, bought together, and a matrix of tastes."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def write_shop(folder: Path) -> Path:
    """Write the files into a folder, and return it."""
    rng = np.random.default_rng(5)
    n, new = 60, 6
    kind = rng.permutation(np.arange(n + new) % 3)
    words = [["sweet", "ripe", "juicy"], ["sharp", "steel", "handle"], ["soft", "wool", "warm"]]
    lines = []
    for k, c in enumerate(kind):
        label = ("fruit", "tool", "cloth")[c]
        said = " ".join(rng.choice([*words[c], "new", "good", "cheap"], 4))
        price = "" if rng.random() < 0.1 else f"{c + rng.normal():.2f}"
        shelf = "ABC"[c] if rng.random() < 0.7 else "D"
        lines.append((f"i{k}", label, said, price, shelf))
    shown = rng.permutation(n)[:24]
    header = "id,kind,text,price,shelf"

    def write(name, rows):
        (folder / name).write_text("\n".join([header, *(",".join(row) for row in rows)]) + "\n")

    write("items.csv", [(i, c if k in shown else "", *r) for k, (i, c, *r) in enumerate(lines[:n])])
    write("new.csv", lines[n:])
    pairs = [
        (u, v)
        for u in range(n + new)
        for v in range(u)
        if rng.random() < (0.12 if kind[u] == kind[v] else 0.01)
    ]

    def edges(name, chosen):
        text = "\n".join(f"i{u},i{v}" for u, v in chosen)
        (folder / name).write_text(f"source,target\n{text}\n")

    edges("together.csv", [(u, v) for u, v in pairs if u < n])
    edges("new-together.csv", [(u, v) for u, v in pairs if u >= n])
    place = np.column_stack([kind, rng.normal(size=n + new)]) + 0.3 * rng.normal(size=(n + new, 2))
    taste = np.linalg.norm(place[:, None] - place, axis=2)
    np.save(folder / "taste.npy", taste[:n, :n])
    np.save(folder / "new-taste.npy", taste[n:, :n])
    return folder
