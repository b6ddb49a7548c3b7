"""The page of a learned metric: one HTML file that opens anywhere and asks nobody."""

from metricmix.app.page.collect import gather
from metricmix.app.page.content import (
    Accuracy,
    Certificate,
    Confusion,
    Convergence,
    EmbeddedPaths,
    Items,
    PageData,
    View,
    Weight,
)
from metricmix.app.page.html import as_live, page_html, write_page

__all__ = [
    "Accuracy",
    "Certificate",
    "Confusion",
    "Convergence",
    "EmbeddedPaths",
    "Items",
    "PageData",
    "View",
    "Weight",
    "as_live",
    "gather",
    "page_html",
    "write_page",
]
