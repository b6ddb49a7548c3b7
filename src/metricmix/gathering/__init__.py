"""People's files, joined by the ids of their items: tables, lists of edges, ready matrices."""

from metricmix.gathering.arriving import read_arrivals
from metricmix.gathering.attributes import Column, Encoding, decide, encode
from metricmix.gathering.edges import EdgeFile, read_edge_file
from metricmix.gathering.joining import Gathered, Joined, Plan, join, plan
from metricmix.gathering.keeping import KeptInputs, keep_inputs, load_inputs
from metricmix.gathering.meeting import JoinedSource
from metricmix.gathering.sources import Arrivals, FileSource
from metricmix.gathering.specs import (
    SourceSpec,
    default_specs,
    parse_edges,
    parse_matrix,
    parse_source,
)
from metricmix.gathering.tables import ItemTable, read_items

__all__ = [
    "Arrivals",
    "Column",
    "EdgeFile",
    "Encoding",
    "FileSource",
    "Gathered",
    "ItemTable",
    "Joined",
    "JoinedSource",
    "KeptInputs",
    "Plan",
    "SourceSpec",
    "decide",
    "default_specs",
    "encode",
    "join",
    "keep_inputs",
    "load_inputs",
    "parse_edges",
    "parse_matrix",
    "parse_source",
    "plan",
    "read_arrivals",
    "read_edge_file",
    "read_items",
]
