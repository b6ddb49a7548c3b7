"""The page of a learned metric: one self-contained HTML file that makes no network requests."""

from metricmix.app.page.content import Annotations, Precomputed, page_content
from metricmix.app.page.html import as_live, page_html, write_page
from metricmix.app.page.values import (
    Accuracy,
    ConfusionMatrix,
    EmbeddedPaths,
    MetricCheck,
    ObjectiveCurve,
    PageContent,
    PageItems,
    View,
    Weight,
)

__all__ = [
    "Accuracy",
    "Annotations",
    "ConfusionMatrix",
    "EmbeddedPaths",
    "MetricCheck",
    "ObjectiveCurve",
    "PageContent",
    "PageItems",
    "Precomputed",
    "View",
    "Weight",
    "as_live",
    "page_content",
    "page_html",
    "write_page",
]
