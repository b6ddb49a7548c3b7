"""User files, joined on item id: item tables, edge lists and matrices become a stack of sources."""

from metricmix.app.ingest.edge_list import read_edge_file
from metricmix.app.ingest.given_files import join, plan, read_new_items
from metricmix.app.ingest.matrices import read_matrix, write_matrix
from metricmix.app.ingest.source_text import parse_edges, parse_matrix, parse_source
from metricmix.app.ingest.table_files import read_items
from metricmix.dissimilarity.item_sources import ItemSource, NewItemData
from metricmix.dissimilarity.matching import SourceReport
from metricmix.dissimilarity.plan import JoinedData, JoinReport, Plan
from metricmix.dissimilarity.specs import SourceSpec
from metricmix.fitting.new_items import FitInputs, NewEdgesReport
from metricmix.items.columns import Column, infer_columns
from metricmix.items.encoding import Encoding, encode
from metricmix.items.items import Items
from metricmix.items.relation import Matrix, Relation

__all__ = [
    "Column",
    "Encoding",
    "FitInputs",
    "ItemSource",
    "Items",
    "JoinReport",
    "JoinedData",
    "Matrix",
    "NewEdgesReport",
    "NewItemData",
    "Plan",
    "Relation",
    "SourceReport",
    "SourceSpec",
    "encode",
    "infer_columns",
    "join",
    "parse_edges",
    "parse_matrix",
    "parse_source",
    "plan",
    "read_edge_file",
    "read_items",
    "read_matrix",
    "read_new_items",
    "write_matrix",
]
