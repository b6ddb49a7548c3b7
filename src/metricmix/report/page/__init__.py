"""The page of a learned metric: one HTML file that opens anywhere and asks nobody."""

from metricmix.report.page.data import (
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
from metricmix.report.page.gather import gather
from metricmix.report.page.write import as_live, page_html, write_page

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
