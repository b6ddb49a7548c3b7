"""Source specifications as texts: parsing, and errors in them."""

from __future__ import annotations

import pytest

from metricmix import InputError
from metricmix.app.ingest import parse_edges, parse_matrix, parse_source
from metricmix.dissimilarity.specs import SourceSpec


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("w=cosine:title", SourceSpec("w", "metric", columns=("title",), metric="cosine")),
        ("w=euclidean:a, b", SourceSpec("w", "metric", columns=("a", "b"))),
        ("all=cityblock:*", SourceSpec("all", "metric", metric="cityblock")),
        ("n=knn:p*:k=5", SourceSpec("n", "knn", columns=("p*",), k=5)),
        ("n=knn:*:k=5:metric=cosine", SourceSpec("n", "knn", k=5, metric="cosine")),
        (
            "g=paths:d/g.csv:directed:length",
            SourceSpec("g", "paths", "d/g.csv", weight="length", directed=True),
        ),
        ("g=smoothed:g.csv:restart=0.3", SourceSpec("g", "smoothed", "g.csv", restart=0.3)),
        ("g=jaccard:g:v2.csv", SourceSpec("g", "jaccard", "g:v2.csv")),
        ("g=jaccard:g.csv:in", SourceSpec("g", "jaccard", "g.csv", direction="in")),
        (
            "g=pagerank:g.csv:restart=0.123456789",
            SourceSpec("g", "pagerank", "g.csv", restart=0.123456789),
        ),
        ("g=gower:a,b", SourceSpec("g", "gower", columns=("a", "b"))),
        ("g=learned:*", SourceSpec("g", "learned")),
        ("g=spread:g.csv:graph", SourceSpec("g", "spread", "g.csv", membership=False)),
        ("g=membership:g.csv", SourceSpec("g", "membership", "g.csv", membership=True)),
        ("g=jaccard:g.csv:membership", SourceSpec("g", "jaccard", "g.csv", membership=True)),
        ("m=matrix:m.npy:directed", SourceSpec("m", "matrix", "m.npy", directed=True)),
    ],
)
def test_stated_sources(text, expected) -> None:
    assert parse_source(text) == expected
    assert parse_source(str(expected)) == expected


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("cosine:title", "expected NAME=KIND:WHAT"),
        ("w=cosine", "expected NAME=KIND:WHAT"),
        ("w=cosinus:title", "or a distance such as euclidean or cosine, got 'cosinus'"),
        ("n=knn:a:k=many", "k: expected a number, got 'many'"),
        ("n=knn:a:k=0", "expected k >= 1"),
        ("g=smoothed:g.csv:restart=2", "restart between 0 and 1"),
    ],
)
def test_malformed_sources(text, sentence) -> None:
    with pytest.raises(InputError, match=sentence):
        parse_source(text)


def test_files_name_their_sources() -> None:
    assert parse_edges("data/links.csv").name == "links"
    assert parse_edges("web=data/links.csv:similarity").name == "web"
    assert parse_edges("a=b/links.csv").file == "b/links.csv"
    assert parse_edges("odd/na=me.csv").file == "odd/na=me.csv"
    assert parse_edges("links.csv:undirected").directed is False
    assert parse_matrix("far.npy:directed") == SourceSpec("far", "matrix", "far.npy", directed=True)


@pytest.mark.parametrize(("kind", "meant"), [("path", "paths"), ("Cosin", "cosine")])
def test_unknown_kinds_are_answered_with_the_one_that_is_meant(kind: str, meant: str) -> None:
    with pytest.raises(InputError, match=f"got '{kind}'; did you mean '{meant}'"):
        parse_source(f"a={kind}:x.csv")


def test_columns_of_edges_and_contradictions(tmp_path) -> None:
    spec = parse_edges("f.csv:similarity=strength:from=a:to=b")
    assert (spec.weight, spec.weight_column, spec.ends) == ("similarity", "strength", ("a", "b"))
    assert parse_source(str(spec)) == spec
    with pytest.raises(InputError, match=r"f.csv: expected one weight, got 'length' and 'similar"):
        parse_edges("f.csv:length:similarity")
    with pytest.raises(InputError, match="expected both from=COLUMN and to=COLUMN"):
        parse_edges("f.csv:from=a")
    with pytest.raises(InputError, match=r"f.csv: expected one from, got 'a' and 'b'"):
        parse_edges("f.csv:from=a:from=b:to=c")


def test_an_option_that_is_none(tmp_path) -> None:
    file = tmp_path / "f.csv"
    file.write_text("a,b")
    with pytest.raises(InputError, match="no option 'weight'; there are directed, undirected"):
        parse_edges(f"{file}:weight")
    odd = tmp_path / "my friends=2024.csv"
    odd.write_text("a,b")
    assert parse_edges(f"{odd}:similarity").file == str(odd)


def test_a_mistaken_option_is_no_column() -> None:
    with pytest.raises(InputError, match="tempo: no option 'kk=3'; there are k, metric"):
        parse_source("x=knn:tempo:kk=3")
    assert parse_source("x=knn:a:b=c").columns == ("a:b=c",)
