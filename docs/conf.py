"""Sphinx configuration: `make docs` builds the site with warnings as errors and runs its examples."""

import re
from importlib.metadata import version as installed

from sphinx.application import Sphinx

project = "boke"
author = "The boke developers"
copyright = "2026, The boke developers"
version = release = installed("bokeopt")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.doctest",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
]
exclude_patterns = ["_build"]

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_type_aliases = {name: name for name in ("Array", "ArrayLike", "Mask", "Rng", "Seed", "Fun", "Callback")}
napoleon_use_ivar = True
python_maximum_signature_line_length = 100

html_theme = "furo"
html_title = f"boke {release}"
html_show_sourcelink = False


def setup(app: Sphinx) -> None:
    app.connect("autodoc-process-signature", _readable)


def _readable(app: Sphinx, what: str, name: str, obj: object, options: object, signature: str, returns: str) -> object:
    """Show an alias inside a union by its name; autodoc writes TypeAliasForwardRef('Array') | None."""
    plain = [text and re.sub(r"TypeAliasForwardRef\('(\w+)'\)", r"\1", text) for text in (signature, returns)]
    return tuple(plain)
