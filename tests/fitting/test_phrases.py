"""Edges in words, from small tables."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

import metricmix as mm
from metricmix.app.ingest import parse_edges, parse_source, read_items
from metricmix.app.ingest.given_files import join
from metricmix.dissimilarity.plan import plan_sources
from metricmix.dissimilarity.predictions import ProbabilitySource
from metricmix.fitting.phrases import EdgePhrases
from metricmix.items.in_memory import as_items
from metricmix.mixture.edge_lengths import edge_lengths

PAPERS = """\
paper,title,journal,year,printed,pages
p1,the accretion disk of a star,ApJ,2001,2001-05-31,12
p2,an accretion disk seen edge on,ApJ,2004,2001-06-10,12
p3,the colour of distant galaxies,MNRAS,2004,2004-06-10,30
p4,galaxies of the local group,MNRAS,2010,2010-01-01,31
p5,the star of the county,ApJ,1999,1999-02-01,
"""
CITES = "source,target\np1,p3\np2,p3\np4,p3\np1,p4\np2,p4\np5,p4\np1,p2\n"


def phrases_of(folder: Path, weights: Any = None, **options: Any) -> tuple[EdgePhrases, Any]:
    (folder / "papers.csv").write_text(PAPERS)
    (folder / "cites.csv").write_text(CITES)
    found = join(
        read_items(folder / "papers.csv"),
        [parse_edges(str(folder / "cites.csv"))],
        kinds={"title": "text", "pages": "number", "year": "number", "journal": "category"},
    )
    chosen = np.ones(found.stack.n_sources) if weights is None else weights
    return EdgePhrases(edge_lengths(found.stack, chosen), found.sources, **options), found


def test_words_come_from_the_cells_and_links(tmp_path: Path) -> None:
    phrases, _ = phrases_of(tmp_path)
    told = phrases.sentence(0, 1).split("; ")
    assert len(set(told)) == len(told)  # each thing once, whichever source says it
    assert set(told) == {
        "title shares 'accretion', 'disk'",
        "same journal (ApJ)",
        "year 3 apart",
        "printed 10 days apart",
        "same pages (12)",
        "linked in cites",
        "both linked to p3, p4 in cites",
    }
    far = phrases.sentence(2, 4).split("; ")
    assert {"journal MNRAS and ApJ", "year 5 apart", "printed 5 years apart"} < set(far)
    assert {"no rare word in common in title", "both linked to p4 in cites"} < set(far)
    assert not any("pages" in phrase for phrase in far)  # unknown of one


def test_reasons_are_ordered_by_what_they_bring_nearer(tmp_path: Path) -> None:
    phrases, found = phrases_of(tmp_path)
    means = found.stack.rescaled("mean").scales
    reasons = phrases.reasons(0, 1)
    shared = [reason for reason in reasons if re.search("same|shares|linked", reason.phrase)]
    assert reasons[: len(shared)] == shared
    for some in (shared, reasons[len(shared) :]):
        nearer = [reason.nearer for reason in some]
        assert nearer == sorted(nearer, reverse=True)
    for reason in reasons:
        r = found.stack.names.index(reason.source)
        assert reason.nearer == pytest.approx(means[r] - found.stack.source(reason.source)[0, 1])
    assert phrases.sentence(0, 1) == "; ".join(reason.phrase for reason in reasons)
    again, _ = phrases_of(tmp_path)
    assert again.sentence(0, 1) == phrases.sentence(0, 1)


def test_sources_without_weight_say_nothing(tmp_path: Path) -> None:
    _, found = phrases_of(tmp_path)
    weights = [1.0 if name == "title" else 0.0 for name in found.stack.names]
    phrases, _ = phrases_of(tmp_path, weights)
    assert [reason.source for reason in phrases.reasons(0, 1)] == ["title"]


def test_many_numbers_are_summed_up(tmp_path: Path) -> None:
    file = tmp_path / "rocks.csv"
    file.write_text("rock,a,b,c,d\nr1,1.5,2,3,10\nr2,1.5,2,3.01,50\nr3,9.5,7,8,90\nr4,1.5,2,3,10\n")
    found = join(read_items(file))
    phrases = EdgePhrases(edge_lengths(found.stack, np.ones(found.stack.n_sources)), found.sources)
    assert phrases.sentence(0, 1) == (
        "3 of 4 numbers nearly the same, the largest difference: d 40 apart"
    )
    assert phrases.sentence(0, 3) == "all 4 numbers the same"


def test_counts_name_the_rarest_first(tmp_path: Path) -> None:
    rows = np.zeros((8, 22), int)
    rows[np.arange(22) % 6 + 2, np.arange(22)] = 1
    rows[:7, 0] = 1
    rows[[0, 1], 5] = 2
    rows[[0, 1, 2], 7] = 1
    header = ",".join(["id", *(f"w{k}" for k in range(22))])
    lines = [",".join([f"i{k}", *map(str, row)]) for k, row in enumerate(rows.tolist())]
    (tmp_path / "words.csv").write_text("\n".join([header, *lines]) + "\n")
    found = join(read_items(tmp_path / "words.csv"))
    phrases = EdgePhrases(edge_lengths(found.stack, np.ones(found.stack.n_sources)), found.sources)
    assert phrases.sentence(0, 1) == "both have w5, w7, w0"
    assert phrases.sentence(4, 7) == "nothing in common in the counts"


def test_counts_of_sparse_tables_are_named_by_position() -> None:
    rows = np.zeros((8, 22))
    rows[:7, 0] = 1
    rows[[0, 1], 5] = 2
    rows[[0, 1, 2], 7] = 1
    sparse = as_items(csr_array(rows))
    mixed = replace(sparse, columns={**sparse.columns, "w": np.array([3.0, 1, 0, 0, 0, 0, 0, 0])})
    for items, kinds, sentence in (
        (sparse, {}, "both have attributes[5], attributes[7], attributes[0]"),
        (mixed, {"w": "count"}, "both have w, attributes[5], attributes[7] and 1 more"),
    ):
        found = plan_sources(
            items, [parse_source("words=cosine:*")], kinds=kinds, defaults=False
        ).build()
        phrases = EdgePhrases(edge_lengths(found.stack, np.ones(1)), found.sources)
        assert phrases.sentence(0, 1) == sentence


def test_other_sources_and_predictions() -> None:
    p = np.array([[0.9, 0.1], [0.8, 0.2], [0.1, 0.9]])
    apart = np.array([[0.0, 1.0, 3.0], [1.0, 0.0, 2.0], [3.0, 2.0, 0.0]])
    stack = mm.DissimilarityStack([ProbabilitySource(p, name="forest"), apart], ["forest", "km"])
    phrases = EdgePhrases(edge_lengths(stack, [1.0, 0.1]), classes=["cat", "dog"])
    assert phrases.sentence(0, 1) == (
        "km at 50% of the mean distance; 'forest' predicts cat for both"
    )
    assert phrases.sentence(0, 2) == (
        "km at 150% of the mean distance; 'forest' predicts cat for one, dog for the other"
    )
    unnamed = EdgePhrases(edge_lengths(stack, [1.0, 0.0]))
    assert unnamed.sentence(1, 2) == "'forest' predicts class 0 for one, class 1 for the other"


def test_predictions_are_told_as_such(tmp_path: Path) -> None:
    rows = [f"i{k},{'xy'[k // 6] if k % 6 < 5 else ''},{10 * (k // 6) + k / 9}" for k in range(12)]
    (tmp_path / "t.csv").write_text("\n".join(["id,kind,size", *rows]) + "\n")
    pairs = [f"i{6 * c + k},i{6 * c + (k + 1) % 6}" for c in range(2) for k in range(6)]
    (tmp_path / "web.csv").write_text("\n".join(["source,target", *pairs]) + "\n")
    kinds = (
        "a=learned:size",
        "b=forest:size",
        f"c=spread:{tmp_path / 'web.csv'}",
        "d=kernel:size",
        "e=spread_near:size:k=3",
    )
    items = read_items(tmp_path / "t.csv", label="kind")
    found = join(items, [parse_source(text) for text in kinds], defaults=False)
    lengths = edge_lengths(found.stack, np.ones(len(kinds)))
    phrases = EdgePhrases(lengths, found.sources, ["x", "y"])
    for i, j, what in ((0, 1, "x for both"), (0, 7, "x for one, y for the other")):
        assert {reason.phrase for reason in phrases.reasons(i, j)} == {
            f"a logistic regression on size predicts {what}",
            f"a random forest on size predicts {what}",
            f"labels spread over web predict {what}",
            f"a logistic regression with a Gaussian kernel on size predicts {what}",
            f"the labels of items of similar size predict {what}",
        }


def test_numbers_are_told_with_their_unit(tmp_path: Path) -> None:
    file = tmp_path / "boxes.csv"
    file.write_text("box,weight\nb1,12.5 kg\nb2,13 kg\nb3,40 kg\nb4,41 kg\n")
    found = join(read_items(file))
    phrases = EdgePhrases(edge_lengths(found.stack, np.ones(found.stack.n_sources)), found.sources)
    assert phrases.sentence(0, 1) == "weight 0.5 kg apart"


def test_one_way_links_are_told_as_such(tmp_path: Path) -> None:
    (tmp_path / "towns.csv").write_text("town,people\nAa,300\nBo,41\nCu,7\n")
    (tmp_path / "roads.csv").write_text("source,target\nAa,Bo\nBo,Cu\nCu,Aa\n")
    roads = parse_edges(f"{tmp_path / 'roads.csv'}:directed")
    found = join(read_items(tmp_path / "towns.csv"), [roads])
    weights = [float(name == "roads") for name in found.stack.names]
    phrases = EdgePhrases(edge_lengths(found.stack, weights), found.sources)
    assert phrases.sentence(0, 1) == "linked in roads; both linked to Cu in roads"
    back = "linked the other way only in roads; both linked to Cu in roads"
    assert phrases.sentence(1, 0) == back


def test_memberships_name_what_is_shared(tmp_path: Path) -> None:
    (tmp_path / "women.csv").write_text("name,age\nAda,30\nBea,41\nCia,37\nDot,25\n")
    (tmp_path / "events.csv").write_text(
        "name,event\nAda,tea\nBea,tea\nCia,tea\nAda,ball\nBea,ball\nCia,walk\nDot,walk\n"
    )
    events = parse_edges(str(tmp_path / "events.csv"))
    found = join(read_items(tmp_path / "women.csv"), [events])
    assert found.stack.links is None
    weights = [float(name.startswith("events")) for name in found.stack.names]
    phrases = EdgePhrases(edge_lengths(found.stack, weights), found.sources)
    assert phrases.sentence(0, 1) == "both with ball, tea in events"
    assert phrases.sentence(0, 3) == "no group in common in events"


COUNTRIES = """\
country,continent,area,people
Malta,Europe,316,0.5
Cyprus,Asia,9251,
Spain,Europe,505,48
France,Europe,551,68
Italy,Europe,301,59
Chad,Africa,1284,19
Niger,Africa,1267,27
Mali,Africa,1240,23
Cuba,,110,11
Tonga,,,
"""
BORDERS = "a,b\nSpain,France\nFrance,Italy\nChad,Niger\nNiger,Mali\n"
MONEY = """\
country,money
Malta,euro
Spain,euro
France,euro
Italy,euro
Niger,franc
Mali,franc
Cuba,peso
Chad,dinar
"""


def countries_of(folder: Path) -> tuple[EdgePhrases, list[str]]:
    for name, text in {"all": COUNTRIES, "borders": BORDERS, "money": MONEY}.items():
        (folder / f"{name}.csv").write_text(text)
    kinds = (
        "borders=paths:{0}/borders.csv",
        "shared=jaccard:{0}/borders.csv",
        "spread=spread:{0}/borders.csv",
        "money=membership:{0}/money.csv",
        "paid=learned_graph:{0}/money.csv",
        "learned=learned:area,people",
        "numbers=euclidean:area,people",
    )
    items = read_items(folder / "all.csv", label="continent")
    sources = [parse_source(text.format(folder)) for text in kinds]
    found = join(items, sources, defaults=False)
    lengths = edge_lengths(found.stack, np.ones(len(kinds)))
    return EdgePhrases(lengths, found.sources, ["Africa", "Asia", "Europe"]), list(items.ids)


@pytest.mark.parametrize(
    ("pair", "absent"),
    [
        (("Malta", "Cuba"), "borders"),  # islands
        (("Malta", "Spain"), "borders"),  # one of them
        (("Cuba", "Chad"), "on money"),  # a currency of their own
        (("Cyprus", "Tonga"), "money"),  # none at all
        (("Spain", "Tonga"), "area"),  # no cell
    ],
)
def test_sources_that_know_nothing_of_an_item_say_nothing(
    tmp_path: Path, pair: tuple[str, str], absent: str
) -> None:
    phrases, ids = countries_of(tmp_path)
    told = phrases.sentence(*(ids.index(name) for name in pair))
    assert absent not in told


def test_what_both_have_comes_first_and_predictions_last(tmp_path: Path) -> None:
    phrases, ids = countries_of(tmp_path)
    told = phrases.sentence(ids.index("Spain"), ids.index("France")).split("; ")
    assert set(told[:2]) == {"linked in borders", "both with euro in money"}
    assert "predict" not in "".join(told[:-3])
    assert all("predict" in text for text in told[-3:])
    far = phrases.sentence(ids.index("Spain"), ids.index("Mali"))
    assert "not connected in borders" in far
    assert "links apart" not in far
    assert "no group in common in money" in far
    assert "2 links apart" not in phrases.sentence(ids.index("Chad"), ids.index("Mali"))
    assert "both linked to Niger" in phrases.sentence(ids.index("Chad"), ids.index("Mali"))
