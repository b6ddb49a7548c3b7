"""How the documentation site is built: ``make docs``. Nothing is fetched, not even by readers."""

from __future__ import annotations

import sys
from importlib.metadata import version as version_of
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_extensions"), str(HERE.parent / "src")]

project = "metricmix"
author = "The metricmix developers"
version = release = version_of("metricmix")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "mathml",
    "inside",
    "overview",
    "one_home",
    "trailing_examples",
    "local_links",
    "offline",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "worked/pages"]

myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3

default_role = "literal"  # in docstrings: the name of an argument
autosummary_generate = True
autosummary_ignore_module_all = False
autodoc_typehints = "none"  # the docstrings describe the arguments
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_attributes_as_param_list = True

nitpicky = True
nitpick_ignore_regex = [
    (r"py:.*", r"(sklearn|scipy|numpy|pandas|networkx)\..*"),  # their pages are not here
]

html_theme = "furo"
html_title = "metricmix"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_show_copyright = False
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b6e99", "color-brand-content": "#0b6e99"},
    "dark_css_variables": {"color-brand-primary": "#6cc5e9", "color-brand-content": "#6cc5e9"},
}
local_pages = ["worked/pages"]
