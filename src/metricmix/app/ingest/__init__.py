"""People's files, joined by the ids of their items: tables, lists of edges, ready matrices."""

from metricmix.app.ingest.column_types import Column, Encoding, decide, encode
from metricmix.app.ingest.edge_list import EdgeFile, read_edge_file
from metricmix.app.ingest.file_sources import Arrivals, FileSource
from metricmix.app.ingest.item_table import ItemTable, read_items
from metricmix.app.ingest.join import Gathered, Joined, Plan, join, plan
from metricmix.app.ingest.match import JoinedSource
from metricmix.app.ingest.new_items import KeptInputs, keep_inputs, load_inputs, read_arrivals
from metricmix.app.ingest.source_specs import (
    SourceSpec,
    default_specs,
    parse_edges,
    parse_matrix,
    parse_source,
)

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
