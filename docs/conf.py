"""How `make docs` builds these pages: Sphinx, as one folder of files that needs no network."""

import sys
from pathlib import Path

from sphinx.application import Sphinx

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS / "_extensions"))

from rela import __version__  # noqa: E402

project = "rela"
author = "the rela authors"
copyright = "the rela authors, Apache-2.0"  # noqa: A001 (Sphinx's name)
release = version = __version__
language = "en"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "commands", "mathml"]
exclude_patterns = ["_build", "_extensions", "results"]
nitpicky = False

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_attr_annotations = True

html_theme = "furo"
html_title = f"rela {__version__}"
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["rela.css"]
html_show_sphinx = False
html_show_search_summary = False  # browsers do not let a page on disk read its neighbours
html_copy_source = False
html_show_sourcelink = False
pygments_style = "friendly"
pygments_dark_style = "github-dark"


_HIGHER = {
    "index": "README.md",
    "changelog": "CHANGELOG.md",
    "reproduced": "reproduction/multi30k-en-de-laptop/README.md",
}
"""Pages that lie elsewhere, for those who read the repository; what the page itself has comes after them."""


def _take_higher(_: Sphinx, name: str, source: list[str]) -> None:
    """The README is the first page. Its links, and those to it, are turned."""
    if name in _HIGHER:
        path = DOCS.parent / _HIGHER[name]
        text = path.read_text(encoding="utf-8")
        text = text.replace("](figures/", f"](../{path.parent.relative_to(DOCS.parent)}/figures/")
        text = text.replace("](docs/", "](").replace("](LICENSE)", "](../LICENSE)")
        source[0] = text + "\n" + source[0]
    for page, file in _HIGHER.items():
        source[0] = source[0].replace(f"](../{file}", f"]({page}.md").replace(f"]({file}", f"]({page}.md")


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _take_higher)
