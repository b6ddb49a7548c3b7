"""The areas of a campaign, by name."""

from fuzz.areas import (
    checks,
    edges,
    estimators,
    kills,
    models,
    nearness,
    objectives,
    paths,
    relaxations,
    requests,
    sources,
    tables,
)
from fuzz.cases import Area

__all__ = ["AREAS"]

AREAS: dict[str, Area] = {
    module.AREA.name: module.AREA
    for module in (
        *(checks, paths, edges, nearness, relaxations, objectives, sources),
        *(estimators, models, tables, requests, kills),
    )
}
