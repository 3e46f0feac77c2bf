"""Sphinx, with MyST for pages and notebooks; `make docs` fails on any warning."""

import ast
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

from sphinx.application import Sphinx

from einformer.lexer import EinformerLexer

sys.path.append(str(Path(__file__).parent))
from engine import write_engine, write_font
from generate import write_pages
from reference import write_reference

project = "einformer"
author = "The einformer authors"
extensions = ["myst_nb"]
myst_enable_extensions = ["deflist", "dollarmath"]
myst_heading_anchors = 3
python_maximum_signature_line_length = 100
nb_execution_mode = "off"  # notebooks have outputs, and tests compare them
exclude_patterns = ["_build", "jupyter_execute"]  # the latter is what myst_nb writes beside the former
html_theme = "furo"
html_title = "einformer"
html_copy_source = False
pygments_dark_style = "a11y-high-contrast-dark"
html_theme_options = {"top_of_page_buttons": []}
_mathjax = find_spec("sphinx-mathjax-offline")  # a package of files, of which the site needs one
assert _mathjax is not None
html_static_path = [
    "style.css",
    "tables.js",
    "calculator.js",
    str(Path(str(_mathjax.origin)).parent / "static" / "mathjax" / "tex-svg.js"),
]
mathjax_path = "tex-svg.js"
html_show_copyright = False
html_css_files = ["style.css"]
html_js_files = ["tables.js"]


def copy_notebooks(app: Sphinx) -> None:
    shutil.copytree(Path(app.srcdir).parent / "notebooks", Path(app.srcdir) / "notebooks", dirs_exist_ok=True)


def list_modules(app: Sphinx) -> None:
    """Write the page of modules: the first line of each docstring."""
    package = Path(app.srcdir).parent / "einformer"
    lines = ["# Modules", ""]
    for path in sorted(package.rglob("*.py")):
        says = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0]
        lines += [f"`{path.relative_to(package)}`", f": {says}", ""]
    (Path(app.srcdir) / "modules.md").write_text("\n".join(lines), encoding="utf-8")


def setup(app: Sphinx) -> None:
    app.add_lexer("einformer", EinformerLexer)
    app.connect("builder-inited", copy_notebooks)
    app.connect("builder-inited", list_modules)
    app.connect("builder-inited", lambda app: write_pages(Path(app.srcdir)))
    app.connect("builder-inited", lambda app: write_reference(Path(app.srcdir)))
    app.connect("builder-inited", lambda app: write_engine(Path(app.outdir) / "_static"))
    app.connect("builder-inited", lambda app: write_font(Path(app.outdir) / "_static"))
