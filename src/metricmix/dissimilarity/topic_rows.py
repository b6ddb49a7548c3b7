"""Topics: texts and counts by their leading singular vectors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from metricmix.dissimilarity.item_sources import SourceData
from metricmix.items.columns import Column
from metricmix.items.items import Items
from metricmix.typing import Floats

__all__ = ["Topics", "topics_of"]

TOPICS = 100


class Topics:
    """The leading singular vectors of the tf-idf of texts and counts, rows at length 1."""

    def __init__(self, data: SourceData, columns: Sequence[Column]) -> None:
        self.items, self.encoding = data.items, data.encoding(columns)

    def words(self, items: Items) -> Any:
        """Return the tf-idf of items, rows at length 1 (or 0), dense or sparse."""
        from sklearn.preprocessing import normalize

        here = items is self.items
        return normalize(self.encoding.features if here else self.encoding.transform(items))

    @cached_property
    def vectors(self) -> Any:
        """The singular vectors, (V, 100); None if there are no two of them."""
        from sklearn.decomposition import TruncatedSVD

        words = self.words(self.items)
        k = min(TOPICS, min(words.shape) - 1)
        return None if k < 1 else TruncatedSVD(k, random_state=0).fit(words).components_.T

    def of(self, items: Items) -> Floats:
        """Return the topics of items, (n, 100)."""
        words = self.words(items)
        if self.vectors is not None:
            return np.asarray(words @ self.vectors)
        return words if isinstance(words, np.ndarray) else np.asarray(words.toarray())


def topics_of(data: SourceData, columns: Sequence[Column]) -> Topics:
    """Return the topics of columns of texts and counts."""
    key = "topics", tuple(column.name for column in columns)
    topics: Topics = data.once(key, lambda: Topics(data, columns))
    return topics
