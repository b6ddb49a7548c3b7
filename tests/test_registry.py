"""Kinds register themselves in their files, and can be listed without importing them."""

from __future__ import annotations

import pytest

from metricmix.exceptions import InputError
from metricmix.nearness.norms.norm import NORMS
from metricmix.objectives.named import OBJECTIVES
from metricmix.registry import Registry, declared
from metricmix.solvers.minimize import METHODS


@pytest.mark.parametrize("registry", [METHODS, NORMS, OBJECTIVES], ids=lambda r: r.argument)
def test_what_files_declare_is_what_is_registered(registry: Registry[object]) -> None:
    assert declared(registry.package) == registry.declarations()
    for said in registry.declarations():
        assert said.words
        assert said.words[-1] != "."


def test_lookup_and_removal() -> None:
    kinds: Registry[type] = Registry("thing", "metricmix.objectives")

    @kinds.register("one", words="the first one", colour="red")
    class One:
        pass

    @kinds.register("other", words="the usual one", default=True)
    class Other:
        pass

    assert kinds.names() == ("other", "one")
    assert kinds.names(colour="red") == ("one",)
    assert kinds["one"] is One
    with pytest.raises(InputError, match=r"^thing: expected one of 'one', got 'other'"):
        kinds.find("other", colour="red")
    kinds.unregister("one")
    assert kinds.names() == ("other",)
