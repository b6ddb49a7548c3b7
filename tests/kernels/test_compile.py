"""Kernels compile on first use, with or without a place to cache them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

import metricmix
from metricmix.kernels import compile as compile_module
from metricmix.kernels.compile import kernel, kernel_step, kernel_template, temporary_folder

SOURCE = Path(metricmix.__file__).parent


def double(x: float) -> float:
    return 2.0 * x


def test_a_kernel_is_not_compiled_before_it_is_called() -> None:
    compiled = kernel(double)
    assert compiled.signatures == []
    assert compiled(3.0) == 6.0
    assert len(compiled.signatures) == 1


@kernel_step
def add_at(k: int, values: Any, total: Any) -> None:
    total[0] += values[k]


@kernel_template
def each(step: Any, values: Any, total: Any) -> None:
    for k in range(values.shape[0]):
        step(k, values, total)


@kernel
def added(values: Any) -> float:
    total = np.zeros(1)
    each(add_at, values, total)
    return float(total[0])


def test_a_template_is_compiled_into_the_kernel_that_calls_it() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # numba's, if the kernel could not be cached
        assert added(np.arange(4.0)) == 6.0


def test_a_step_allocates_nothing() -> None:
    @kernel_step
    def allocates(n: int) -> float:
        return float(np.zeros(n).sum())

    with pytest.raises(numba.core.errors.NumbaError, match="passed into the function"):
        allocates(3)


def test_where_nothing_can_be_cached_kernels_still_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    real = numba.njit

    def read_only(*args: object, cache: bool = False, **options: object) -> object:
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return real(*args, **options)

    monkeypatch.setattr(numba, "njit", read_only)
    monkeypatch.setattr(compile_module, "temporary_folder", lambda: None)
    assert kernel(double)(4.0) == 8.0


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="no owners of folders")
@pytest.mark.parametrize("kind", ["none", "own", "writable by others", "link", "file"])
def test_a_temporary_folder_that_others_can_write_to_is_not_used(
    kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    place = tmp_path / "temporary" / f"metricmix-{os.getuid()}"
    if kind in ("own", "writable by others"):
        place.mkdir(mode=0o700)
        place.chmod(0o700 if kind == "own" else 0o777)
    elif kind == "link":
        place.symlink_to(tmp_path)
    elif kind == "file":
        place.touch()
    found: Any = temporary_folder
    assert found.__wrapped__() == (str(place) if kind in ("none", "own") else None)
    if kind == "none":
        assert place.stat().st_mode & 0o077 == 0


def copy_package(target: Path) -> Path:
    for path in [*SOURCE.rglob("*.py"), SOURCE / "__init__.pyi"]:
        copy = target / "metricmix" / path.relative_to(SOURCE)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    return target / "metricmix"


def test_cached_code_expires_with_the_files_it_calls(tmp_path: Path) -> None:
    package = copy_package(tmp_path)
    (package / "kernels" / "calling.py").write_text(
        "from metricmix.kernels.compile import kernel\n"
        "from metricmix.kernels.mixing import length_of\n"
        "@kernel\ndef linked(m):\n    return length_of(m, 1.0, 0)\n"
        "print(linked(1.0))\n"
    )
    code = "import metricmix.kernels.calling"
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}

    def run() -> str:
        done = subprocess.run(
            [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    assert run() == "1.0"
    mixing = package / "kernels" / "mixing.py"
    mixing.write_text(mixing.read_text().replace("return max(m, 0.0)", "return max(m, 0.0) + 4.0"))
    assert run() == "5.0"  # though calling.py is as it was


def test_cached_code_with_types_that_no_longer_exist(tmp_path: Path) -> None:
    module = copy_package(tmp_path) / "kernels" / "renamed.py"
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    for name in ("One", "Other"):
        module.write_text(
            "import numpy as np\nfrom typing import NamedTuple\n"
            "from metricmix.kernels.compile import kernel\n"
            f"class {name}(NamedTuple):\n    values: object\n"
            "@kernel\ndef first(array):\n    return array.values[0]\n"
            f"print(first({name}(np.array([2.5]))))\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", "import metricmix.kernels.renamed"],
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout.strip() == "2.5", done.stderr


def test_read_only_install(tmp_path: Path) -> None:
    """A package in a folder that cannot be written, and a home that cannot either."""
    package = tmp_path / "site"
    copy_package(package)
    # A file where the cache folder should be stands in for missing permissions, which root has.
    blocked = tmp_path / "blocked"
    blocked.touch()
    for folder in [package / "metricmix", *(package / "metricmix").rglob("*")]:
        if folder.is_dir():
            (folder / "__pycache__").touch()
    code = "import metricmix as mm; print(mm.__file__); print(mm.is_metric([[0, 1], [1, 0]]))"
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={
            **{k: v for k, v in os.environ.items() if not k.startswith("NUMBA")},
            "TMPDIR": str(temporary),
            "PYTHONPATH": str(package),
            "HOME": str(blocked),
            "XDG_CACHE_HOME": str(blocked),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [str(package / "metricmix" / "__init__.py"), "True"]
    if hasattr(os, "getuid"):  # else nothing can be cached
        assert list(temporary.glob("metricmix-*/**/*survey_pairs*.nbc"))


def test_every_kernel_has_a_direct_test() -> None:
    """Compiled loops are compared with slow references by name, not only through their callers."""
    tests = Path(__file__).parents[1]
    texts = (path.read_text() for path in tests.rglob("test_*.py"))
    tested = {name for text in texts for name in re.findall(r"\b(\w+)\(", text)}
    folders = ("kernels", "dissimilarity", "mixture", "paths")
    files = [path for folder in folders for path in (SOURCE / folder).glob("*.py")]
    kernels = [
        name
        for path in files
        for name in re.findall(r"@kernel(?:_step)?\ndef (\w+)", path.read_text())
    ]
    assert len(kernels) > 50
    assert [name for name in kernels if name not in tested] == []
