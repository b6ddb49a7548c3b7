"""Source specifications: the columns that they select."""

from __future__ import annotations

import pytest

from metricmix import InputError
from metricmix.app.ingest import infer_columns, parse_source, read_items

TABLE = """id,size,weight,colour,note,code
a,1,2,red,a small red thing,A1
b,2,3,red,a large thing indeed,B2
c,3,1,blue,not a thing,C3
"""


@pytest.fixture
def columns(write):
    return infer_columns(read_items(write("items.csv", TABLE)))


def test_columns_by_name_and_pattern(columns) -> None:
    def chosen(text):
        return [column.name for column in parse_source(text).select_columns(columns)]

    assert chosen("x=euclidean:weight,size") == ["weight", "size"]
    assert chosen("x=euclidean:*") == ["size", "weight", "colour", "note"]
    assert chosen("x=euclidean:*e*") == ["size", "weight", "note"]
    with pytest.raises(InputError, match=r"got 'sise'; did you mean 'size'"):
        chosen("x=euclidean:sise")
    with pytest.raises(InputError, match=r"column 'code' is ignored, .* --kind code=text"):
        chosen("x=euclidean:code")
    with pytest.raises(InputError, match="expected columns that differ"):
        chosen("x=euclidean:co?e*")
