"""Killed runs: SIGKILL and SIGINT at a random moment, then the same command again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import metricmix as mm
from fuzz.cases import Area, Instance, ask
from fuzz.instances import pick

SOLVE = """
import sys, time, numpy as np, metricmix as mm
from metricmix.solvers import checkpoint
checkpoint.WRITE_EVERY, checkpoint.WRITE_SHARE = 0.02, 1.0
print("ready", flush=True)
D = np.load(sys.argv[1])
def pause(progress):
    time.sleep(float(sys.argv[5]))
result = mm.nearest_metric(D, sys.argv[3], tol=1e-9, checkpoint=sys.argv[2], n_jobs=1,
                           callback=pause, max_iter=2000)
np.savez(sys.argv[4], metric=result.metric, bound=result.lower_bound)
"""


def make(rng: np.random.Generator) -> Instance:
    return {
        "what": pick(rng, "solve", "solve", "fit"),
        "n": int(rng.integers(20, 40)),
        "norm": pick(rng, "l2", "l1", "linf"),
        "seed": int(rng.integers(1 << 30)),
        "kills": [round(float(rng.uniform(0.0, 1.0)), 3) for _ in range(int(rng.integers(1, 3)))],
        "signal": pick(rng, "SIGKILL", "SIGKILL", "SIGINT"),
    }


def check(instance: Instance) -> None:
    with tempfile.TemporaryDirectory() as name:
        if instance["what"] == "solve":
            check_solve(Path(name), instance)
        else:
            check_fit(Path(name), instance)


def start(words: list[str], folder: Path) -> Any:
    """Start a process in a session of its own, so that Ctrl-C of a campaign does not reach it."""
    return subprocess.Popen(
        [sys.executable, *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


def stop(process: Any, number: int, seconds: float) -> tuple[int, str]:
    """Send a signal after some seconds; return exit code and error messages."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(number)
    _, errors = process.communicate(timeout=50)
    return int(process.returncode), errors.decode(errors="replace")


def check_solve(folder: Path, instance: Instance) -> None:
    n = int(instance["n"])
    D = np.random.default_rng(int(instance["seed"])).random((n, n)) ** 3
    D = np.triu(D, 1) + np.triu(D, 1).T
    np.save(folder / "D.npy", D)
    whole = mm.nearest_metric(D, instance["norm"], tol=1e-9, n_jobs=1, max_iter=2000)
    rounds = max(whole.n_iter, 1)
    pause = 0.6 / rounds  # so that a run takes about a second, whatever the norm
    words = ["-c", SOLVE, "D.npy", "run.npz", instance["norm"], "out.npz", repr(pause)]
    number = getattr(signal, instance["signal"])
    for moment in instance["kills"] or ():
        process = start(words, folder)
        process.stdout.readline()  # it has begun
        code, errors = stop(process, number, float(moment))
        ask(code in (0, -number), "a killed run ends by its signal", f"{code}: {errors[-300:]}")
    process = start(words, folder)
    code, errors = stop(process, number, 50.0)
    ask(code == 0, "a killed run goes on from its checkpoint", f"{code}: {errors[-300:]}")
    with np.load(folder / "out.npz") as found:
        ask(np.array_equal(found["metric"], whole.metric), "a resumed run gives the same metric")
        ask(found["bound"] == whole.lower_bound, "a resumed run gives the same bound")


def check_fit(folder: Path, instance: Instance) -> None:
    rng = np.random.default_rng(int(instance["seed"]))
    n = int(instance["n"])
    lines = ["id,kind,x,y"]
    for k in range(n):
        kind = "ab"[k % 2] if k < 2 * n // 3 else ""
        lines.append(f"p{k},{kind},{rng.random() + k % 2:.6f},{rng.random():.6f}")
    (folder / "items.csv").write_text("\n".join(lines) + "\n")
    words = ["-m", "metricmix", "fit", "items.csv", "--label", "kind", "--bootstrap", "20", "-o"]
    number = getattr(signal, instance["signal"])
    files: set[str] = set()
    for moment in instance["kills"] or ():
        process = start([*words, "killed", "--force"], folder)
        code, errors = stop(process, number, 4.0 * float(moment))
        allowed = (0, -number) if number == signal.SIGKILL else (0, 130, -number)
        ask(code in allowed, "an interrupted fit ends with code 130", f"{code}: {errors[-300:]}")
        there = folder / "killed"
        if there.exists():
            found = {p.name for p in there.iterdir() if not p.name.startswith(".")}
            ask(not files or found == files, "a folder is there whole or not at all", f"{found}")
            mm.load(there / "model.mm")
            files = found
    for out in ("killed", "whole"):
        process = start([*words, out, "--force", "--quiet"], folder)
        code, errors = stop(process, number, 55.0)
        ask(code == 0, "a killed fit can be run again", f"{code}: {errors[-300:]}")
    for name in ("predictions.csv", "weights.csv"):
        one, two = ((folder / out / name).read_text() for out in ("killed", "whole"))
        ask(one == two, "a fit after a killed one gives the same", name)


AREA = Area(
    "kills",
    make,
    check,
    tried="`nearest_metric` with a checkpoint and `metricmix fit`, killed by SIGKILL or SIGINT at "
    "a random moment, once or twice, then run again.",
    promised="The result equals that of an uninterrupted run bit for bit; result folders are "
    "complete or absent.",
    share=0.8,
    timeout=300.0,
    lists=("kills",),
)
