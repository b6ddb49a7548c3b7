"""People's files, joined by the ids of their items: tables, lists of edges, ready matrices."""

from metricmix.gathering.attributes import Column, Encoding, decide, encode
from metricmix.gathering.edges import EdgeFile, read_edge_file
from metricmix.gathering.joining import Gathered, Joined, Plan, join, plan
from metricmix.gathering.meeting import JoinedSource
from metricmix.gathering.tables import ItemTable, read_items

__all__ = [
    "Column",
    "EdgeFile",
    "Encoding",
    "Gathered",
    "ItemTable",
    "Joined",
    "JoinedSource",
    "Plan",
    "decide",
    "encode",
    "join",
    "plan",
    "read_edge_file",
    "read_items",
]
