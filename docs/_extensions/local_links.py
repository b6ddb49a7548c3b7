"""Relative links of the Markdown pages, so that they work on a code host and in the site alike.

A link to a page of the site becomes one to its HTML. A link to a module becomes one to what the
site says of it. Of another file of the repository (an example, a test) the site carries a copy. An
HTML page in one of the folders of ``local_pages`` opens: these folders are copied to the same
place.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.addnodes import download_reference, pending_xref
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform


class LocalLinks(SphinxTransform):
    """Make links to files outside the pages what they should be."""

    default_priority = 10

    def apply(self, **kwargs: Any) -> None:
        top = Path(self.env.srcdir).resolve()
        here = Path(self.env.doc2path(self.env.docname)).parent
        source = top.parent / "src"
        folders = [top / name for name in self.config.local_pages]
        for link in list(self.document.findall(download_reference)):
            path = (here / link["reftarget"]).resolve()
            if path.suffix == ".html" and any(folder in path.parents for folder in folders):
                opened = nodes.reference("", "", *link.children, refuri=link["reftarget"])
                link.replace_self(opened)
            elif path.suffix == ".py" and source in path.parents:
                link.replace_self(_to_module(link, path.relative_to(source)))
        for link in list(self.document.findall(pending_xref)):
            if link.get("refdomain") != "doc" or not Path(link["reftarget"]).is_absolute():
                continue
            path = Path(f"{link['reftarget']}.md")
            if path.name == "README.md":
                link["reftarget"] = "index"
                continue
            target = f"/{os.path.relpath(path, top)}"
            copied = download_reference(
                "", "", *link.children, reftarget=target, refdoc=link["refdoc"]
            )
            link.replace_self(copied)


def _to_module(link: download_reference, path: Path) -> pending_xref:
    """Return a reference to what the site says of a module, in place of a copy of its source."""
    name = ".".join(path.with_suffix("").parts)
    return pending_xref(
        "",
        *link.children,
        refdomain="py",
        reftype="mod",
        reftarget=name,
        refdoc=link["refdoc"],
        refexplicit=True,
        refwarn=True,
    )


def _copy_pages(app: Sphinx, error: Exception | None) -> None:
    for name in app.config.local_pages:
        folder = Path(app.srcdir, name)
        if error is None and app.builder.format == "html" and folder.is_dir():
            shutil.copytree(folder, Path(app.outdir, name), dirs_exist_ok=True)


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_config_value("local_pages", [], "env", list)
    app.add_transform(LocalLinks)
    app.connect("build-finished", _copy_pages, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
